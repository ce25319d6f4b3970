"""What the commands of `favano theory` share: flags for constants of the theorem, and tables."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from itertools import repeat
from typing import Annotated, Final, cast

import typer
from rich.table import Table

from favano.cli.shell import screen
from favano.errors import BadInput
from favano.specification.spec import Spec
from favano.theory import TheoryProblem

PROBLEM: Final = TheoryProblem()
_CONSTANTS: Mapping[str, str] = {
    "smoothness": "L, Lipschitz constant of clients' gradients",
    "noise": "sigma, deviation of mini-batch gradients",
    "dissimilarity": "G: mean |grad f_i|^2 <= G^2 + B^2 |grad f|^2",
    "growth": "B of the same, >= 1",
    "gap": "F, initial loss above the minimum",
}
_LONG = 10**15  # whole numbers with more digits are rounded

Target = Annotated[float, typer.Option(help="mean ||grad f||^2 to reach, epsilon")]
Rounds = Annotated[int | None, typer.Option(help="server steps T [default: those in the horizon]")]
Pilot = Annotated[bool, typer.Option("--pilot", help="estimate L, sigma, G and F in a short run")]


def with_constants(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter `problem` of a command by one flag per constant of the theorem."""
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        parameters += (
            map(_flag, repeat(parameter), _CONSTANTS) if name == "problem" else [parameter]
        )

    def wrapper(**arguments: object) -> None:
        asked = {name: cast("float | None", arguments.pop(name)) for name in _CONSTANTS}
        constants = {name: value for name, value in asked.items() if value is not None}
        for name, value in constants.items() if arguments.get("pilot") else ():
            raise BadInput(name, value, "remove it, or --pilot, which estimates the constants")
        command(problem=TheoryProblem(**constants), **arguments)

    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__doc__ = command.__doc__
    return wrapper


def _flag(problem: inspect.Parameter, name: str) -> inspect.Parameter:
    option = typer.Option(help=f"{_CONSTANTS[name]} [default: {getattr(PROBLEM, name)}]")
    return problem.replace(name=name, default=None, annotation=Annotated[float | None, option])


def print_setting(spec: Spec, problem: TheoryProblem | None = None) -> None:
    """Print what the numbers of a command are about: the fleet, and the theorem's constants."""
    steps = spec.training.local_steps
    most = f"{min(steps)} to {max(steps)}" if isinstance(steps, tuple) else steps
    fleet = f"n = {spec.fleet.clients}, s = {spec.clock.selected}, K = {most}"
    screen.print(f"{spec.problem.dataset}: {fleet}", markup=False)
    if problem is not None:
        values = zip(("L", "sigma", "G", "B", "F"), vars(problem).values(), strict=True)
        screen.print(", ".join(f"{symbol} = {number(value)}" for symbol, value in values))


def number(value: object) -> str:
    """A value as text; a dash if it is unknown."""
    if isinstance(value, float) or (isinstance(value, int) and value >= _LONG):
        return f"{value:.4g}"
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def server_steps(count: int) -> str:
    """A number of server steps in words."""
    return f"{number(count)} server step{'' if count == 1 else 's'}"


def table_of(title: str, headings: Iterable[str], rows: Mapping[str, Iterable[object]]) -> Table:
    """A table with one row per name and the numbers on the right."""
    table = Table(title=title, title_justify="left")
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="right" if place else "left", overflow="fold")
    for name, values in rows.items():
        table.add_row(name, *(number(value) for value in values))
    return table
