"""Every key of a specification as a flag of the same name, in help texts grouped by part."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import Annotated

import typer
from typer.core import TyperCommand

from favano.methods import AnyMethod, all_methods, method_class
from favano.methods.clock import Clock
from favano.options import Option, options_of
from favano.planning.comparison import clock_keys, keys_for
from favano.quantisation.recipe import Recipe
from favano.specification.config import Config as ConfigFile
from favano.specification.config import read_config
from favano.specification.presets import check_named
from favano.specification.spec import ALGORITHM, LABEL, PARTS, Spec, make_spec, part_options

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

ALGORITHMS = "algorithms"
_OWN = "own_options"  # of methods that are not ours, as KEY=VALUE
_METHOD, _HIDDEN = "method", "hidden"
_COLUMN = 36  # where texts begin
_TITLES: Mapping[str, str] = {
    "problem": "Problem",
    "fleet": "Fleet",
    "clock": "Server's clock",
    "training": "Local training",
    "run": "Run",
}


class SpecCommand(TyperCommand):
    """A command with the flags of a specification.

    Help is grouped by part and shows what matters to the methods that are named: their own options,
    the times that they look at, and the keys of few-bit training only beside `--quantise luq`.
    """

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Look for the methods first: their options are flags."""
        kinds = [method_class(name) for name in _named(args)] or [method_class("favano")]
        own = {
            name: one
            for kind in kinds
            for name, one in options_of(kind).items()
            if name not in our_options()
        }
        ctx.meta[_METHOD] = kinds
        ctx.meta[_HIDDEN] = _beside_the_point(kinds, args)
        return super().parse_args(ctx, _with_own(args, own))

    def format_options(self, ctx: typer.Context, formatter: object) -> None:  # type: ignore[override]
        """Flags by part, those of the named methods beside their names."""
        groups: dict[str, list[tuple[str, str]]] = {"Command": []}
        for one in self.params:
            record = one.get_help_record(ctx)
            if record is not None and one.name not in part_options():
                groups["Command"].append(record)
        for kind in ctx.meta[_METHOD]:
            title = f"Method {kind.name}"
            groups[title] = [_record(one) for one in options_of(kind).values()]
        for part, title in _TITLES.items():
            shown = options_of(PARTS[part]).values()
            groups[title] = [_record(one) for one in shown if one.name not in ctx.meta[_HIDDEN]]
        lines = [line for title, records in groups.items() for line in _section(title, records)]
        formatter.write("\n".join([*lines, "", *_footer()]) + "\n")  # type: ignore[attr-defined]


def _beside_the_point(kinds: Sequence[type[AnyMethod]], args: Sequence[str]) -> set[str]:
    """Keys that these methods do not look at."""
    read = {key for kind in kinds for key in clock_keys(kind())}
    few_bits = set() if "luq" in " ".join(args) else set(Recipe.__dataclass_fields__)
    return (options_of(Clock).keys() - read) | few_bits


def _section(title: str, records: Sequence[tuple[str, str]]) -> list[str]:
    """A group of flags, one line each where that is possible."""
    width = min(100, max(60, get_terminal_size().columns)) - _COLUMN - 2
    lines = ["", f"{title}:"] if records else []
    for flag, text in records:
        first, *rest = wrap(text, width) or [""]
        if len(flag) > _COLUMN - 4:
            lines.append(f"  {flag}")
            flag = ""
        lines.append(f"  {flag:{_COLUMN - 2}}{first}")
        lines += [" " * _COLUMN + line for line in rest]
    return lines


def _footer() -> list[str]:
    names = ", ".join(all_methods())
    width = min(100, max(60, get_terminal_size().columns))
    return wrap(
        f"In brackets: defaults. What is on is turned off by --no-NAME. Methods: {names}, or "
        "file.py:Name; --algorithm NAME --help shows a method's flags, and `favano methods NAME` "
        "says what it does. --quantise luq --help shows the flags of few-bit training.",
        width,
    )


def our_options() -> dict[str, Option[object]]:
    """The options of all methods with a name; one that several have is there once."""
    kinds = all_methods().values()
    return {name: one for kind in kinds for name, one in options_of(kind).items()}


def with_spec_flags(
    command: Callable[..., None], leave_out: tuple[str, ...] = ()
) -> Callable[..., None]:
    """Give a command a flag for every key; it receives those set as `flags`."""
    own = list(inspect.signature(command, eval_str=True).parameters.values())
    keys = [name for name in (ALGORITHM, LABEL) if name not in leave_out]
    names = [*keys, *part_options(), *our_options()]

    def wrapper(**arguments: object) -> None:
        flags = {name: arguments.pop(name) for name in names}
        found = {key: value for key, value in flags.items() if value is not None}
        extra = arguments.pop(_OWN)
        for text in extra if isinstance(extra, list) else ():
            key, _, value = text.partition("=")
            found[key] = value
        command(flags=_lists(found), **arguments)

    parameters = [p for p in own if p.name != "flags"]
    parameters += [_name_parameter(name) for name in keys]
    parameters += [
        _parameter(one, _TITLES[part], hidden=False) for part, one in part_options().values()
    ]
    parameters += [_parameter(one, None, hidden=True) for one in our_options().values()]
    parameters.append(_own_parameter())
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__doc__ = command.__doc__
    return wrapper


def spec_from(config: Path | None, flags: Values) -> Spec:
    """The specification of one run: the file's keys, overridden by the flags."""
    spec = make_spec(keys_of_one(read_config(config), flags))
    check_named(spec)
    return spec


def keys_of_one(found: ConfigFile, flags: Values) -> Values:
    """Keys of one run: those of the first method of a file, or of the one that a flag names."""
    wanted = flags.get(ALGORITHM)
    named = [one for one in found.methods if wanted in (None, one.get(LABEL), one[ALGORITHM])]
    first = named[0] if named else {ALGORITHM: wanted} if wanted else {}
    shared = keys_for(found.shared, [first], found.methods) if first else found.shared
    rest = {key: value for key, value in flags.items() if key != ALGORITHM}
    return {**shared, **first, **rest}


def _named(args: Sequence[str]) -> list[str]:
    """The methods that a command line names, in flags or in the files it gives.

    Flags may also name methods of the files by their labels.
    """
    found: list[str] = []
    for place, word in enumerate(args):
        flag, equals, value = word.partition("=")
        if flag in (f"--{ALGORITHM}", f"--{ALGORITHMS}"):
            value = value if equals else "".join(args[place + 1 : place + 2])
            found += value.split(",") if flag == f"--{ALGORITHMS}" else [value]
    paths = (Path(word) for word in args if word.endswith(".toml"))
    files = [read_config(path) for path in paths if path.is_file()]
    listed = [one for file in files for one in file.methods]
    labels = {str(one[LABEL]): str(one[ALGORITHM]) for one in listed if LABEL in one}
    if not found:
        found += [str(one[ALGORITHM]) for one in listed]
        found += [str(one.shared[ALGORITHM]) for one in files if ALGORITHM in one.shared]
    return list(dict.fromkeys(labels.get(name, name) for name in found if name))


def _with_own(args: Sequence[str], own: Mapping[str, Option[object]]) -> list[str]:
    """The arguments with the options of foreign methods as values of one flag."""
    words, found = iter(args), []
    for word in words:
        flag, equals, value = word.partition("=")
        name = flag.removeprefix("--").replace("-", "_")
        negated = name.removeprefix("no_")
        if not flag.startswith("--") or (name not in own and negated not in own):
            found.append(word)
        elif own[name if name in own else negated].kind is bool:
            found += [f"--{_OWN}", f"{negated}={name in own}"]
        else:
            if not equals:
                value = next(words, "")
            found += [f"--{_OWN}", f"{name}={value}"]
    return found


def _lists(flags: Values) -> Values:
    """Numbers separated by commas are how a flag gives a list."""
    given = flags.get("given_weights")
    return {**flags, "given_weights": str(given).split(",")} if given else flags


def _record(one: Option[object]) -> tuple[str, str]:
    flag = f"--{one.name.replace('_', '-')}"
    if one.kind is bool:
        return flag, _help(one)
    choice = "|" in one.values and len(flag) + len(one.values) + 5 > _COLUMN
    values = f" ({one.values.replace('|', ', ')})" if choice else ""
    return f"{flag} {'WORD' if choice else one.values}", f"{_help(one, values)}"


def _help(one: Option[object], values: str = "") -> str:
    symbol = f", {one.symbol}" if one.symbol else ""
    default = f" [{one.shown_default}]" if one.shown_default not in ("", "False") else ""
    return f"{one.text}{symbol}{values}{default}"


def _parameter(one: Option[object], panel: str | None, *, hidden: bool) -> inspect.Parameter:
    flag, text = "--" + one.name.replace("_", "-"), _help(one)
    if one.kind is bool:
        option = typer.Option(
            f"{flag}/--no-{flag[2:]}",
            help=text,
            show_default=False,
            hidden=hidden,
            rich_help_panel=panel,
        )
        kind: object = Annotated[bool | None, option]
    else:
        option = typer.Option(
            flag, metavar=one.values, help=text, hidden=hidden, rich_help_panel=panel
        )
        kind = Annotated[str | None, option]
    return inspect.Parameter(
        one.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind
    )


def _name_parameter(name: str) -> inspect.Parameter:
    text = {
        ALGORITHM: "the method: a name, or file.py:Name [default: favano]",
        LABEL: "what the method is called in tables and on pages",
    }[name]
    kind = Annotated[str | None, typer.Option(f"--{name}", metavar="TEXT", help=text)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)


def _own_parameter() -> inspect.Parameter:
    kind = Annotated[list[str] | None, typer.Option(f"--{_OWN}", hidden=True)]
    return inspect.Parameter(_OWN, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
