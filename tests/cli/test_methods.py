"""`favano methods`: every method in a line, and a card of each."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from favano.methods import our_methods
from favano.options import options_of
from tests.cli.test_cli import Program, favano

__all__ = ["favano"]

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_method.py"


def test_every_method_has_a_line(favano: Program) -> None:
    code, out, err = favano("methods")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert [line.split()[0] for line in lines] == list(our_methods())
    assert all(len(line.split()) > 3 for line in lines)


@pytest.mark.quick("favano", "fedasync", "fedprox")
@pytest.mark.parametrize("name", list(our_methods()))
def test_every_card_is_complete(name: str, favano: Program) -> None:
    """Idea, update, options with their defaults and sources, needs, and what goes wrong."""
    code, out, err = favano("methods", name)
    assert (code, err) == (0, "")
    kind = our_methods()[name]
    assert out.startswith(f"{kind.title} ({name})\n\n")
    idea, _, rest = out.partition("\nNeeds\n")
    needs, _, wrong = rest.partition("\nLimitations:\n")
    text, _, options = idea.partition("\nOptions\n")
    assert re.search(r"^    .*(<-|=)", text, re.MULTILINE) or "<-" in text  # the update
    lines = re.sub(r"\n {8,}", " ", options.strip()).splitlines()  # long ones are wrapped
    assert len(lines) == len(options_of(kind))
    for line, (key, option) in zip(lines, options_of(kind).items(), strict=True):
        assert line.split()[0] == f"--{key.replace('_', '-')}"
        assert option.text in line
        default = f"[default: {option.shown_default or 'none'}"
        assert line.endswith(
            f"{default}, from {option.source}]" if option.source else f"{default}]"
        )
    assert needs.strip()
    assert len(wrong.strip()) > 20


def test_some_defaults_have_a_source() -> None:
    sources = [
        option.source for kind in our_methods().values() for option in options_of(kind).values()
    ]
    assert len([source for source in sources if source]) >= 8


def test_cards_as_one_document(favano: Program) -> None:
    code, out, err = favano("methods", "--json")
    assert (code, err) == (0, "")
    cards = json.loads(out)["methods"]
    assert [card["name"] for card in cards] == list(our_methods())
    for card in cards:
        assert card["title"]
        assert card["reference"]
        assert card["text"]
        assert card["known_to_go_wrong"]
        assert card["needs"]
        kind = our_methods()[card["name"]]
        assert [option["name"] for option in card["options"]] == list(options_of(kind))
        for option in card["options"]:
            assert set(option) == {
                "name", "values", "default", "default_text", "text", "symbol", "source",
            }  # fmt: skip
            assert option["text"]
            assert option["values"]


def test_the_card_of_one_as_a_document(favano: Program) -> None:
    (card,) = json.loads(favano("methods", "fedbuff", "--json")[1])["methods"]
    options = {option["name"]: option for option in card["options"]}
    assert options["buffer"] == {
        "name": "buffer", "values": "N", "default": None, "default_text": "by data set, else 10",
        "text": "client updates per server step", "symbol": "Z", "source": "",
    }  # fmt: skip
    assert options["buffer_mode"]["values"] == "concurrency|block|code|reset|check-ins"
    assert options["buffer_mode"]["source"] == "its paper"
    assert (options["distinct"]["values"], options["distinct"]["default"]) == ("true|false", False)


def test_the_card_of_a_method_in_a_file(favano: Program) -> None:
    code, out, err = favano("methods", f"{EXAMPLE}:Ca2fl")
    assert (code, err) == (0, "")
    assert out.startswith("CA2FL (ca2fl)\n\nCA2FL: FedBuff with a cached update for each client")
    assert "--buffer" in out
    assert "Limitations:\n  the server keeps n models" in out


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fedbuf", "algorithm=fedbuf: unknown; did you mean fedbuff?\n"),
        ("absent.py:Mine", "algorithm=absent.py:Mine: no such file: absent.py"),
        (f"{EXAMPLE}:Other", f"algorithm={EXAMPLE}:Other: {EXAMPLE} holds Ca2fl; need "),
    ],
    ids=["misspelt", "no file", "no method"],
)
def test_unknown_methods_are_refused(name: str, message: str, favano: Program) -> None:
    code, out, err = favano("methods", name)
    assert (code, out) == (2, "")
    assert err.startswith(f"favano: {message}")
