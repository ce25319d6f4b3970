"""The commands and their names."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from favano import __version__
from favano.cli.bench import bench_command
from favano.cli.compare import compare_command
from favano.cli.demo import demo_command
from favano.cli.flags import SpecCommand, with_spec_flags
from favano.cli.join import join_command
from favano.cli.keys import keys_command
from favano.cli.methods import methods_command
from favano.cli.plan import plan_command
from favano.cli.replay import replay_command
from favano.cli.report import report_command
from favano.cli.reproduce import reproduce_command
from favano.cli.resume import resume_command
from favano.cli.run import run_command
from favano.cli.serve import serve_command
from favano.cli.shell import interruptible
from favano.cli.theory_advise import advise_command
from favano.cli.theory_alpha import alpha_command
from favano.cli.theory_bound import bound_command
from favano.cli.theory_complexity import complexity_command
from favano.cli.theory_learning_rate import learning_rate_command
from favano.cli.theory_steps import steps_command
from favano.cli.tune import tune_command
from favano.cli.verify import verify_command

# Typer 0.20, which Flower needs, escapes brackets for Rich even where help is plain text.
typer.core.HAS_RICH = False


class _Argument(typer.core.TyperArgument):
    """An argument whose help is shown: Typer 0.20 loses it with Click 8.5."""

    def __init__(self, *, help: str = "", **others: Any) -> None:
        super().__init__(help=help, **others)
        self._text = help

    def get_help_record(self, ctx: typer.Context) -> tuple[str, str] | None:  # type: ignore[override]
        record = super().get_help_record(ctx)
        if record is None or self.help:
            return record
        return record[0], f"{self._text}  {record[1]}".rstrip()


setattr(typer.main, "TyperArgument", _Argument)  # noqa: B010

app = typer.Typer(
    help="Asynchronous federated learning in simulated time.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
theory = typer.Typer(help="The theory of the paper.", no_args_is_help=True, rich_markup_mode=None)
app.suggest_commands = theory.suggest_commands = False  # Click does so, too


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _favano(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Asynchronous federated learning in simulated time."""
    # Else PyTorch leaves a file in /tmp for every process that trains, on ARM.
    os.environ.setdefault("ONEDNN_JIT_PROFILE", "0")


def _add(to: typer.Typer, name: str, command: Callable[..., None], *left_out: str) -> None:
    """Add a command with a flag for every key of a specification."""
    with_flags = with_spec_flags(command, leave_out=left_out)
    to.command(name, cls=SpecCommand)(interruptible(with_flags))


app.command("demo")(interruptible(demo_command))
_add(app, "run", run_command)
_add(app, "compare", compare_command, "algorithm", "label")
_add(app, "tune", tune_command, "algorithm", "label")
app.command("resume")(interruptible(resume_command))
app.command("verify")(interruptible(verify_command))
app.command("methods")(interruptible(methods_command))
_add(app, "plan", plan_command)
_add(app, "bench", bench_command)
app.command("reproduce")(interruptible(reproduce_command))
app.command("report")(interruptible(report_command))
app.command("keys")(interruptible(keys_command))
app.command("join")(interruptible(join_command))
_add(app, "serve", serve_command, "reading")
app.command("replay")(interruptible(replay_command))
_add(theory, "steps", steps_command, "policy")
_add(theory, "alpha", alpha_command, "policy")
_add(theory, "bound", bound_command, "policy")
_add(theory, "complexity", complexity_command, "algorithm", "label", "policy", "reading")
_add(theory, "learning-rate", learning_rate_command, "policy")
_add(theory, "advise", advise_command, "policy")
app.add_typer(theory, name="theory")
