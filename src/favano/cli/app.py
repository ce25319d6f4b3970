"""The commands by name."""

from __future__ import annotations

from typing import Annotated

import typer

from favano import __version__
from favano.cli.bench import bench_command
from favano.cli.compare import compare_command
from favano.cli.demo import demo_command
from favano.cli.flags import with_spec_flags
from favano.cli.plan import plan_command
from favano.cli.report import report_command
from favano.cli.reproduce import reproduce_command
from favano.cli.run import run_command
from favano.cli.shell import interruptible
from favano.cli.theory_advise import advise_command
from favano.cli.theory_alpha import alpha_command
from favano.cli.theory_bound import bound_command
from favano.cli.theory_complexity import complexity_command
from favano.cli.theory_learning_rate import learning_rate_command
from favano.cli.theory_steps import steps_command

app = typer.Typer(
    help="Asynchronous federated learning in simulated time.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
theory = typer.Typer(help="The paper's mathematics.", no_args_is_help=True, rich_markup_mode=None)


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


app.command("demo")(interruptible(demo_command))
app.command("run")(interruptible(with_spec_flags(run_command)))
app.command("compare")(interruptible(with_spec_flags(compare_command, leave_out=("algorithm",))))
app.command("plan")(interruptible(with_spec_flags(plan_command)))
app.command("bench")(interruptible(with_spec_flags(bench_command)))
app.command("reproduce")(interruptible(reproduce_command))
app.command("report")(interruptible(report_command))
theory.command("steps")(interruptible(with_spec_flags(steps_command)))
theory.command("alpha")(interruptible(with_spec_flags(alpha_command)))
theory.command("bound")(interruptible(with_spec_flags(bound_command)))
theory.command("complexity")(interruptible(with_spec_flags(complexity_command)))
theory.command("learning-rate")(interruptible(with_spec_flags(learning_rate_command)))
theory.command("advise")(interruptible(with_spec_flags(advise_command)))
app.add_typer(theory, name="theory")
