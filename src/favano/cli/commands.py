"""The commands and their names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from favano import __version__
from favano.cli.flags import SpecCommand, with_spec_flags
from favano.cli.shell import interruptible

# By module, in the order of the help: the keys that have no flag. None: the command has no flags
# for the keys of a specification.
COMMANDS: Mapping[str, Sequence[str] | None] = {
    "demo": None,
    "run": (),
    "compare": ("algorithm", "label"),
    "tune": ("algorithm", "label"),
    "resume": None,
    "verify": None,
    "methods": None,
    "plan": (),
    "bench": (),
    "reproduce": None,
    "report": None,
    "keys": None,
    "join": None,
    "serve": ("reading",),
    "replay": None,
}
THEORY: Mapping[str, Sequence[str] | None] = {
    "theory_steps": ("policy",),
    "theory_alpha": ("policy",),
    "theory_bound": ("policy",),
    "theory_complexity": ("algorithm", "label", "policy", "reading"),
    "theory_learning_rate": ("policy",),
    "theory_advise": ("policy",),
}

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


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


def _favano(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Asynchronous federated learning in simulated time."""
    # Else PyTorch leaves a file in /tmp for every process that trains, on ARM.
    os.environ.setdefault("ONEDNN_JIT_PROFILE", "0")


def make_app(words: Sequence[str] = ()) -> typer.Typer:
    """The program, with all commands or only the one that these words call.

    Each has a flag for every key; to make those of all commands takes as long as a short run.
    """
    called = [name for name in words[:1] if name in COMMANDS]
    app = typer.Typer(
        help="Asynchronous federated learning in simulated time.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.suggest_commands = False  # Click does so, too
    app.callback()(_favano)
    for name in called or COMMANDS:
        _add(app, name, COMMANDS[name])
    if not called:
        help = "The theory of the paper."
        theory = typer.Typer(help=help, no_args_is_help=True, rich_markup_mode=None)
        theory.suggest_commands = False
        for name, left_out in THEORY.items():
            _add(theory, name, left_out)
        app.add_typer(theory, name="theory")
    return app


def _add(to: typer.Typer, module: str, left_out: Sequence[str] | None) -> None:
    """Add the command of a module, with a flag for every key of a specification but some."""
    name = module.removeprefix("theory_")
    command = getattr(import_module(f"favano.cli.{module}"), f"{name}_command")
    shown = name.replace("_", "-")
    if left_out is None:
        to.command(shown)(interruptible(command))
        return
    with_flags = with_spec_flags(command, leave_out=tuple(left_out))
    to.command(shown, cls=SpecCommand)(interruptible(with_flags))
