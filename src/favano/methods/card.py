"""What a method says of itself: its idea, update, options, needs, and what goes wrong."""

from __future__ import annotations

import sys
from inspect import cleandoc
from textwrap import fill, indent

from favano.methods.method import Method
from favano.methods.registry import AnyMethod
from favano.options import Option, options_of
from favano.user_classes import is_ours

_WRONG = "Limitations:"
_WIDTH = 96


def summary(kind: type[AnyMethod]) -> str:
    """One line: what the method does, and whose it is."""
    about = _module_line(kind).partition(": ")[2] or _module_line(kind)
    return about[:1].upper() + about[1:].rstrip(".")


def card(kind: type[AnyMethod]) -> str:
    """The whole of it, for a screen."""
    line, text, wrong = _words(kind)
    parts = [f"{kind.title} ({kind.name})"]
    parts += [part for part in (line, text) if part not in ("", kind.title)]
    options = options_of(kind).values()
    if options:
        width = max(len(option.name) for option in options)
        margin = " " * (width + 6)
        lines = [
            fill(
                f"  {_flag(option):{width + 4}}{_line(option)}",
                _WIDTH,
                subsequent_indent=margin,
                break_on_hyphens=False,
            )
            for option in options
        ]
        parts.append("\n".join(["Options", *lines]))
    parts.append("\n".join(["Needs", *(f"  {demand}" for demand in needs(kind))]))
    if wrong:
        parts.append(f"{_WRONG}\n" + indent(wrong, "  "))
    return "\n\n".join(parts)


def card_document(kind: type[AnyMethod]) -> dict[str, object]:
    """The same as JSON has it."""
    line, text, wrong = _words(kind)
    return {
        "name": kind.name,
        "title": kind.title,
        "reference": line,
        "text": text,
        "known_to_go_wrong": " ".join(wrong.split()),
        "needs": needs(kind),
        "options": [
            {
                "name": option.name,
                "values": option.values,
                "default": option.default,
                "default_text": option.shown_default,
                "text": option.text,
                "symbol": option.symbol,
                "source": option.source,
            }
            for option in options_of(kind).values()
        ],
    }


def needs(kind: type[AnyMethod]) -> list[str]:
    """What the method asks of a run, and what is possible with it."""
    demands = [f"{key}={value} unless given" for key, value in kind.suggests.items()]
    if kind.has("gradient_correction"):
        demands.append("messages of twice the length: a correction travels beside each model")
    if kind.memory:
        demands.append(f"{kind.memory} vectors as long as the model, kept on each client")
    if kind.has("next_client_model"):
        demands.append("a model of its own for each client")
    if kind.linear:
        demands.append("linear in the models: plans and results say who trains the model")
    else:
        demands.append("not linear in the models: nobody can say whose steps count how much")
    return demands


def _words(kind: type[AnyMethod]) -> tuple[str, str, str]:
    """The first line, the text without it, and what goes wrong."""
    line, (first, _, rest) = _module_line(kind), _doc(kind).partition("\n")
    text, _, wrong = (rest if first == line else f"{first}\n{rest}").partition(_WRONG)
    return line, text.strip("\n").rstrip(), "\n\n".join(map(_filled, wrong.strip().split("\n\n")))


def _filled(paragraph: str) -> str:
    """A paragraph as wide as a card; formulas, which are indented, as they are."""
    return paragraph if paragraph[:1] == " " else fill(" ".join(paragraph.split()), _WIDTH)


def _module_line(kind: type[AnyMethod]) -> str:
    """The first line of the file: name, idea and reference."""
    if not is_ours(kind) and len(_own_methods(kind)) > 1:
        return _doc(kind).splitlines()[0]
    text = getattr(sys.modules.get(kind.__module__), "__doc__", None) or _doc(kind)
    return cleandoc(text).splitlines()[0]


def _own_methods(kind: type[AnyMethod]) -> list[object]:
    members = vars(sys.modules[kind.__module__]).values() if kind.__module__ in sys.modules else ()
    ours = [member for member in members if getattr(member, "__module__", "") == kind.__module__]
    return [member for member in ours if isinstance(member, type) and issubclass(member, Method)]


def _doc(kind: type[AnyMethod]) -> str:
    """The docstring of a class, indented from where its quotes close; else its title."""
    first, *rest = (vars(kind).get("__doc__") or kind.title).expandtabs().splitlines()
    lines = [line for line in rest if line.strip()] + rest[-1:]
    margin = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    return "\n".join([first.strip(), *(line[margin:].rstrip() for line in rest)]).strip()


def _flag(option: Option[object]) -> str:
    return f"--{option.name.replace('_', '-')}"


def _line(option: Option[object]) -> str:
    symbol = f", {option.symbol}" if option.symbol else ""
    source = f", from {option.source}" if option.source else ""
    default = f"[default: {option.shown_default or 'none'}{source}]"
    return f"{option.text}{symbol}{option.listed_choices} {default}"
