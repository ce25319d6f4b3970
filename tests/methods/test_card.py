"""Cards: what methods say of themselves, for a screen and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from favano.methods import AnyMethod, ClientUpdates, Method, ModelState, method_class, our_methods
from favano.methods.card import card, card_document, needs, summary
from favano.options import options_of
from favano.policies import Rounds

EVERY = pytest.mark.parametrize("method", our_methods().values(), ids=our_methods())


def test_the_card_of_fedbuff() -> None:
    lines = card(our_methods()["fedbuff"]).splitlines()
    assert lines[0] == "FedBuff (fedbuff)"
    assert lines[2] == (
        "FedBuff: buffered asynchronous aggregation (Nguyen, Malik, Zhan, Yousefpour, ... 2022)."
    )
    assert "    w <- w - eta_g (1/Z) sum_{j <= Z} sigma(tau_j) (w_start_j - w_end_j)" in lines
    buffer = next(line for line in lines if line.startswith("  --buffer "))
    assert (
        buffer.split("  ")[-1]
        == "client updates per server step, Z [default: by data set, else 10]"
    )
    mode = next(line for line in lines if line.startswith("  --buffer-mode"))
    assert "after an update, a random idle client starts (concurrency)," in mode
    assert "(concurrency, block, code, reset)" not in "\n".join(lines)  # the text names them
    older = next(line for line in lines if line.startswith("  --max-staleness"))
    assert older.endswith("drop client updates that are staler than this [default: none]")
    wrong = lines.index("Limitations:")
    assert lines[wrong + 1].startswith("  fast clients fill the buffer, so they train the model;")
    assert all(line.startswith("  ") for line in lines[wrong + 1 :])


@EVERY
def test_every_card_is_complete(method: type[AnyMethod]) -> None:
    """Idea, reference with its year, update, options, needs, and what goes wrong."""
    text = card(method)
    for part in ("Options", "Needs", "Limitations:", *options_of(method)):
        assert part.replace("_", "-") in text.replace("_", "-")
    assert text.count("Limitations:") == 1
    assert "<-" in text or "w_t =" in text
    assert all(len(line) <= 160 for line in text.splitlines())
    assert summary(method)[0].isupper()
    assert not summary(method).endswith(".")


def test_summaries_are_one_line() -> None:
    text = summary(our_methods()["fedavg"])
    assert text.startswith("Synchronous rounds (McMahan, Moore")
    delta = "Only the progress is averaged (an extension that is not in the paper)"
    assert summary(our_methods()["favano-delta"]) == delta
    assert all("\n" not in summary(method) for method in our_methods().values())


@EVERY
def test_cards_as_json_say_the_same(method: type[AnyMethod]) -> None:
    document = json.loads(json.dumps(card_document(method)))
    assert list(document) == [
        "name", "title", "reference", "text", "known_to_go_wrong", "needs", "options",
    ]  # fmt: skip
    assert (document["name"], document["title"]) == (method.name, method.title)
    assert [option["name"] for option in document["options"]] == list(options_of(method))
    assert document["needs"] == needs(method)
    for words in (document["reference"], document["known_to_go_wrong"]):
        assert " ".join(words.split()) in " ".join(card(method).split())
    assert document["text"] in card(method)


def test_an_option_as_json() -> None:
    options = card_document(our_methods()["fedbuff"])["options"]
    assert isinstance(options, list)
    assert options[0] == {
        "name": "buffer",
        "values": "N",
        "default": None,
        "default_text": "by data set, else 10",
        "text": "client updates per server step",
        "symbol": "Z",
        "source": "",
    }


LINEAR = "linear in the models: plans and results say who trains the model"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fedavg", [LINEAR]),
        (
            "scaffold",
            ["messages of twice the length: a correction travels beside each model", LINEAR],
        ),
        ("quafl", ["a model of its own for each client", LINEAR]),
        (
            "asofed",
            [
                "proximal=1.0 unless given",
                "learning_rate=0.02 unless given",
                "2 vectors as long as the model, kept on each client",
                LINEAR,
            ],
        ),
        (
            "asyncfeded",
            [
                "local_steps=10 unless given",
                "not linear in the models: nobody can say whose steps count how much",
            ],
        ),
    ],
)
def test_needs(name: str, expected: list[str]) -> None:
    assert needs(our_methods()[name]) == expected


class Undocumented(Method[ModelState]):
    def policy(self) -> Rounds:
        return self.context.rounds()

    def aggregate(self, state: ModelState, updates: ClientUpdates) -> ModelState:
        return state


def test_a_method_without_a_word() -> None:
    """Its title stands for it; no signature is made up."""
    assert Undocumented.__doc__ is None
    text = card(Undocumented)  # type: ignore[arg-type]
    assert text.splitlines()[0] == "Undocumented (undocumented)"
    assert "label" not in text
    assert "Options" not in text
    assert "Limitations" not in text


FORMULAS = '''from favano import Method, ModelState


class Stale(Method[ModelState]):
    """Stale: remembers what absent clients sent last.

        w <- w + eta_g (mean_i delta_i
                        + beta h)
    """

    def policy(self):
        return self.context.rounds()

    def aggregate(self, state, updates):
        return state
'''
WRONG = """
    h is what they sent.

    Limitations: the server forgets.

        h <- 0

    It does so slowly.
    """
NEEDS = "Needs\n  not linear in the models: nobody can say whose steps count how much"


def test_each_line_once_and_formulas_indented(tmp_path: Path) -> None:
    """Whether the file has a docstring or not, and whether or not text follows a formula."""
    heading, line = "Stale (stale)", "Stale: remembers what absent clients sent last."
    formula = "    w <- w + eta_g (mean_i delta_i\n                    + beta h)"
    wrong = "Limitations:\n  the server forgets.\n\n      h <- 0\n\n  It does so slowly."
    plain, same, longer = (tmp_path / name for name in ("plain.py", "same.py", "longer.py"))
    plain.write_text(FORMULAS)
    same.write_text(f'"""{line}"""\n{FORMULAS}')
    longer.write_text(FORMULAS.replace('h)\n    """', f'h)\n{WRONG}"""'))
    short = "\n\n".join([heading, line, formula, NEEDS])
    assert card(method_class(str(plain))) == card(method_class(str(same))) == short
    text = "\n\n".join([heading, line, formula, "h is what they sent.", NEEDS, wrong])
    assert card(method_class(str(longer))) == text
    said = card_document(method_class(str(longer)))
    assert said["reference"] == line
    assert said["text"] == f"{formula}\n\nh is what they sent."
    assert said["known_to_go_wrong"] == "the server forgets. h <- 0 It does so slowly."


def test_a_method_without_a_word_in_a_file_without_one(tmp_path: Path) -> None:
    place = tmp_path / "quiet.py"
    place.write_text(
        FORMULAS.replace(FORMULAS[FORMULAS.index('    """') : FORMULAS.index("    def p")], "")
    )
    assert card(method_class(str(place))) == f"Stale (stale)\n\n{NEEDS}"


METHODS = '''"""Two methods in one file."""

from favano import FedAvg, Method, ModelState


class First(Method[ModelState]):
    """First: takes the first client update."""

    def policy(self):
        return self.context.rounds()

    def aggregate(self, state, updates):
        return ModelState(updates.end[0])
'''


def test_methods_of_one_file(tmp_path: Path) -> None:
    """The file speaks for a method that is alone in it, else each speaks for itself."""
    alone, both = tmp_path / "alone.py", tmp_path / "both.py"
    alone.write_text(METHODS.replace("Two methods in one file", "Alone: one method in a file"))
    second = METHODS.split("ModelState\n\n", 1)[1]
    both.write_text(METHODS + second.replace("First", "Last").replace("first", "last"))
    assert summary(method_class(str(alone))) == "One method in a file"
    assert summary(method_class(f"{both}:First")) == "Takes the first client update"
    assert summary(method_class(f"{both}:Last")) == "Takes the last client update"
