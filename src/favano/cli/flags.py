"""Every key of a specification as a flag of the same name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal, get_args, get_origin

import typer

from favano.experiments.parsing import make_spec
from favano.experiments.presets import check_named
from favano.experiments.results import read_table
from favano.experiments.spec import Spec

Values = dict[str, object]

Config = Annotated[
    Path | None, typer.Argument(metavar="CONFIG.toml", help="keys of a run; flags override them")
]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="folder of Parquet files [default: $FAVANO_DATA]"),
]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="result folder")]
Json = Annotated[bool, typer.Option("--json", help="print one JSON document and nothing else")]


def with_spec_flags(
    command: Callable[..., None], leave_out: tuple[str, ...] = ()
) -> Callable[..., None]:
    """Give a command a flag for every key of `Spec`; it receives those set as `flags`."""
    own = list(inspect.signature(command, eval_str=True).parameters.values())
    names = [name for name in Spec.model_fields if name not in leave_out]

    def wrapper(**arguments: object) -> None:
        flags = {name: arguments.pop(name) for name in names}
        command(flags={k: v for k, v in flags.items() if v is not None}, **arguments)

    signature = inspect.Signature(
        [p for p in own if p.name != "flags"] + [_parameter(name) for name in names]
    )
    wrapper.__signature__ = signature  # type: ignore[attr-defined]
    wrapper.__doc__ = command.__doc__
    return wrapper


def spec_from(config: Path | None, flags: Values) -> Spec:
    """The specification of a command: the file's keys, overridden by the flags."""
    spec = make_spec({**(read_table(config) if config else {}), **split_lists(flags)})
    check_named(spec)
    return spec


def split_lists(flags: Values) -> Values:
    """Numbers separated by commas are how a flag gives a list."""
    given = flags.get("given_weights")
    return {**flags, "given_weights": str(given).split(",")} if given else flags


def _parameter(name: str) -> inspect.Parameter:
    field = Spec.model_fields[name]
    flag = "--" + name.replace("_", "-")
    default = "" if field.default in (None, (), "") else f" [default: {_short(field.default)}]"
    text = f"{field.description}{default}"
    if field.annotation is bool:
        option = typer.Option(f"{flag}/--no-{flag[2:]}", help=text, show_default=False)
        kind: object = Annotated[bool | None, option]
    else:
        metavar = _choices(field.annotation) or _kind(field.annotation)
        kind = Annotated[str | None, typer.Option(flag, metavar=metavar, help=text)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _kind(annotation: object) -> str:
    """`N` for whole numbers, `X` for others, `TEXT` for words."""
    parts = {annotation, *get_args(annotation)}
    parts |= {inner for part in parts for inner in get_args(part)}
    return "N" if int in parts else "X" if float in parts else "TEXT"


def _choices(annotation: object) -> str:
    """The values of a Literal, also inside an optional, as `a|b|c`."""
    if get_origin(annotation) is Literal:
        return "|".join(str(choice) for choice in get_args(annotation))
    return "".join(_choices(part) for part in get_args(annotation))
