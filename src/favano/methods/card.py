"""What a method says of itself: its idea, update, options, needs, and what goes wrong."""

from __future__ import annotations

import sys
from inspect import cleandoc, getdoc
from textwrap import fill, indent

from favano.methods.method import Method
from favano.methods.registry import AnyMethod, is_ours
from favano.options import Option, options_of

_WRONG = "Known to go wrong:"
_WIDTH = 96


def summary(kind: type[AnyMethod]) -> str:
    """One line: what the method does, and whose it is."""
    about = _module_line(kind).partition(": ")[2] or _module_line(kind)
    return about[:1].upper() + about[1:].rstrip(".")


def card(kind: type[AnyMethod]) -> str:
    """The whole of it, for a screen."""
    text, _, wrong = _doc(kind).partition(_WRONG)
    parts = [f"{kind.title} ({kind.name})", _module_line(kind), text.strip()]
    options = options_of(kind).values()
    if options:
        width = max(len(one.name) for one in options)
        lines = [f"  {_flag(one):{width + 4}}  {_line(one)}" for one in options]
        parts.append("\n".join(["Options", *lines]))
    parts.append("\n".join(["Needs", *(f"  {one}" for one in needs(kind))]))
    if wrong:
        parts.append(f"{_WRONG}\n" + indent(fill(" ".join(wrong.split()), _WIDTH), "  "))
    return "\n\n".join(parts)


def card_document(kind: type[AnyMethod]) -> dict[str, object]:
    """The same as JSON has it."""
    text, _, wrong = _doc(kind).partition(_WRONG)
    return {
        "name": kind.name,
        "title": kind.title,
        "reference": _module_line(kind),
        "text": text.strip(),
        "known_to_go_wrong": " ".join(wrong.split()),
        "needs": needs(kind),
        "options": [
            {
                "name": one.name,
                "values": one.values,
                "default": one.default,
                "default_text": one.shown_default,
                "text": one.text,
                "symbol": one.symbol,
                "source": one.source,
            }
            for one in options_of(kind).values()
        ],
    }


def needs(kind: type[AnyMethod]) -> list[str]:
    """What the method asks of a run, and what is possible with it."""
    found = [f"{key}={value} unless given" for key, value in kind.suggests.items()]
    if kind.has("drift"):
        found.append("messages of twice the length: a correction travels beside each model")
    if kind.memory:
        found.append(f"{kind.memory} vectors as long as the model, kept on each client")
    if kind.has("next_steps"):
        found.append("a schedule that grows with the run: nothing is planned or trained ahead")
    if kind.has("restart"):
        found.append("a model of its own for each client")
    if kind.linear:
        found.append("linear in the models: plans and results say who trains the model")
    else:
        found.append("not linear in the models: nobody can say whose steps count how much")
    return found


def _module_line(kind: type[AnyMethod]) -> str:
    """The first line of the file: name, idea and reference."""
    if not is_ours(kind) and len(_own_methods(kind)) > 1:
        return _doc(kind).splitlines()[0]
    text = getattr(sys.modules.get(kind.__module__), "__doc__", None) or _doc(kind)
    return cleandoc(text).splitlines()[0]


def _own_methods(kind: type[AnyMethod]) -> list[object]:
    found = vars(sys.modules[kind.__module__]).values() if kind.__module__ in sys.modules else ()
    ours = [one for one in found if getattr(one, "__module__", "") == kind.__module__]
    return [one for one in ours if isinstance(one, type) and issubclass(one, Method)]


def _doc(kind: type[AnyMethod]) -> str:
    return getdoc(kind) if "__doc__" in vars(kind) and kind.__doc__ else kind.title  # type: ignore[return-value]


def _flag(one: Option[object]) -> str:
    return f"--{one.name.replace('_', '-')}"


def _line(one: Option[object]) -> str:
    symbol = f", {one.symbol}" if one.symbol else ""
    listed = "|" in one.values and one.kind is not bool
    values = f" ({one.values.replace('|', ', ')})" if listed else ""
    source = f", from {one.source}" if one.source else ""
    return f"{one.text}{symbol}{values} [default: {one.shown_default or 'none'}{source}]"
