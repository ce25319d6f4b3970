"""Parts of the reference that are made from the package itself, whenever the site is built."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from inspect import cleandoc, getsource
from types import ModuleType

import typer
from click import Command, Group
from click.testing import CliRunner

from favano.cli.app import app
from favano.cli.flags import SpecCommand
from favano.methods import AnyMethod, our_methods
from favano.methods.card import card_document, needs
from favano.options import Option, options_of
from favano.policies import Policy
from favano.records import BoundRow, Complexity, CurvePoint, Entry, Participation, Row, Summary
from favano.records.summary import AuditRecord, ClientScores, CostRecord, RunRecord
from favano.specification.spec import part_options

FILES: dict[str, list[type]] = {
    "`history.csv`": [Row],
    "`summary.json`": [Summary, RunRecord, AuditRecord, ClientScores, CostRecord],
    "`participation.json`": [Participation],
    "`bound.csv`": [BoundRow],
    "`runs.csv`, `readings.csv`, `tuning.csv` and `tuned.csv`": [Entry],
    "`curves.csv`": [CurvePoint],
    "`table.csv`": [Complexity],
}
FIELD = re.compile(r"^    (\w+): (.+?)(?: = .+?)?(?:  # (?:noqa: \w+ - )?(.+))?$", re.MULTILINE)


def commands() -> str:
    """The help of every command, with all its flags."""
    parts = []
    favano = typer.main.get_command(app)
    for words, command in _commands(favano, ["favano"]):
        flag = "--help-all" if isinstance(command, SpecCommand) else "--help"
        text = CliRunner().invoke(favano, [*words[1:], flag], prog_name="favano").output
        parts.append(f"## {' '.join(words)}\n\n```text\n{text.strip()}\n```")
    return "\n\n".join(parts)


def _commands(command: Command, words: list[str]) -> Iterator[tuple[list[str], Command]]:
    yield words, command
    if isinstance(command, Group):
        for name, inner in command.commands.items():
            yield from _commands(inner, [*words, name])


def keys() -> str:
    """All keys of a specification, by the part that they belong to."""
    parts: dict[str, list[Option[object]]] = {}
    for part, option in part_options().values():
        parts.setdefault(part, []).append(option)
    return "\n\n".join(f"### {part}\n\n{_options('key', some)}" for part, some in parts.items())


def methods() -> str:
    """The card of every method."""
    return "\n\n".join(map(_card, our_methods().values()))


def _card(kind: type[AnyMethod]) -> str:
    card = card_document(kind)
    parts = [f"## {kind.title} {{#{kind.name}}}", card["reference"]]
    source = "/".join(kind.__module__.split("."))
    code = f"[source](../../src/{source}.py)"
    parts += [f"`favano.{kind.__name__}`, `--algorithm {kind.name}`, {code}", card["text"]]
    parts += [_options("option", options_of(kind).values())]
    parts += ["\n".join(f"- {need}" for need in needs(kind))]
    wrong = card["known_to_go_wrong"]
    return "\n\n".join(
        str(part) for part in [*parts, wrong and f"**Limitations:** {wrong}"] if part
    )


def _options(head: str, options: Iterable[Option[object]]) -> str:
    rows = []
    for option in options:
        symbol = f", {option.symbol}" if option.symbol else ""
        choices = f" (`{option.values}`)" if "|" in option.values else ""
        default = option.shown_default or "none"
        rows.append([f"`{option.name}`", f"{option.text}{symbol}{choices}", default])
    return _table([head, "what it sets", "default"], rows)


def files() -> str:
    """The fields of every result file, with what the source says of each."""
    return "\n\n".join(
        "\n\n".join([f"## {name}", *map(_fields, kinds)]) for name, kinds in FILES.items()
    )


def _fields(kind: type) -> str:
    rows = [
        [f"`{name}`", f"`{_simple(of)}`", why] for name, of, why in FIELD.findall(getsource(kind))
    ]
    about = cleandoc(kind.__doc__ or "").partition("\n")[0]
    return f"**{kind.__name__}**: {about}\n\n{_table(['field', 'type', 'meaning'], rows)}"


def _simple(annotation: str) -> str:
    """A type as a reader of the file sees it."""
    bare = re.sub(r"^Annotated\[(.+?), .+\]$", r"\1", annotation)
    return bare.replace("Whole", "int").replace("Number", "float")


def names(package: str) -> str:
    """Directives for the classes and functions that a package exports."""
    return "\n\n".join(f"::: {package}.{name}" for name in public_names(package))


def public_names(package: str) -> list[str]:
    """What a package exports, without its modules; of `policies`, our policies alone."""
    module = import_module(package)
    if exported := getattr(module, "__all__", None):
        return sorted(exported)  # found without loading what they are
    found = {name: value for name, value in vars(module).items() if name[:1] != "_"}
    if package == "favano.policies":
        return [name for name, kind in found.items() if _is_final_policy(kind)]
    return sorted(name for name, value in found.items() if not isinstance(value, ModuleType))


def _is_final_policy(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Policy) and kind is not Policy


def _table(heads: list[str], rows: Iterable[Iterable[str]]) -> str:
    if not (cells := [[_escaped(cell) for cell in row] for row in rows]):
        return ""
    return "\n".join(f"| {' | '.join(row)} |" for row in [heads, ["---"] * len(heads), *cells])


def _escaped(cell: str) -> str:
    """A cell without bars that would end it; in code they do not."""
    parts = cell.split("`")
    return "`".join(
        part if code % 2 else part.replace("|", "&#124;") for code, part in enumerate(parts)
    )


PACKAGES = ("flower", "policies", "theory", "timing")
PARTS: dict[str, Callable[[], str]] = {
    "commands": commands, "files": files, "keys": keys, "methods": methods,
    **{name: partial(names, f"favano.{name}") for name in PACKAGES},
}  # fmt: skip
