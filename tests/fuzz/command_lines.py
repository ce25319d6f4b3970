"""Random command lines: flags of every key with values that fit, or that do not."""

from __future__ import annotations

from random import Random

from favano.methods import all_methods
from favano.options import Option, options_of
from favano.specification.spec import part_options
from tests.fuzz.damage import NUMBERS, VALUES

LINES = "command-lines"  # their name among the kinds
SHORT = (
    "--horizon", "40", "--evaluate-every", "20", "--clients", "9", "--selected", "3",
    "--local-steps", "3", "--seeds", "1", "--batch-size", "8",
)  # fmt: skip
_THEORY = ("steps", "alpha", "bound", "complexity", "learning-rate", "advise")
_TRAINED = ("run", "compare")
_ODD = tuple(
    value.decode("utf-8", "surrogateescape")
    for value in (*NUMBERS, *VALUES)
    if b"\x00" not in value and len(value) < 100_000  # what a shell can pass on
)
_OTHERS = {
    "run": ("--out", "--json", "--force", "--label"),
    "compare": ("--out", "--json", "--algorithms", "--set"),
    "plan": ("--out", "--json", "--data-dir"),
    "theory": ("--target", "--rounds", "--smoothness", "--noise", "--dissimilarity", "--growth",
               "--gap", "--json"),
    "report": ("--out", "--title"),
    "methods": ("--json",),
}  # fmt: skip
_WORDS = ("favano", "fedbuff", "favano,fedavg", "own.py:Half", "own.toml", "tables.toml", ".", "o",
          "fedbuff.buffer=2", "tables.toml/x", "nosuch", "iid", "0.5", "3", "1/3")  # fmt: skip


def command_line(random: Random) -> list[str]:
    """The words of a command. Those that are valid end soon."""
    name = random.choice([*_TRAINED, *["plan", "theory"] * 4, "report", "methods"])
    words = [name, random.choice(_THEORY)] if name == "theory" else [name]
    if random.random() < 0.3:
        words.append(_value(random, _WORDS))
    with_keys = name not in ("report", "methods")
    for _ in range(random.randint(0, 4)):
        if with_keys and random.random() < 0.75:
            words += _flag(random, random.choice(_options()))
        else:
            words += [random.choice(_OTHERS[name]), _value(random, _WORDS)]
    if random.random() < 0.1:
        words[1:] = random.sample(words[1:], len(words) - 1)
    return [*words, *(SHORT if with_keys else ())]


def _options() -> list[Option[object]]:
    own = (option for kind in all_methods().values() for option in options_of(kind).values())
    return [*(option for _, option in part_options().values()), *own]


def _flag(random: Random, option: Option[object]) -> list[str]:
    flag = f"--{option.name.replace('_', '-')}"
    if option.kind is bool and random.random() < 0.8:
        return [flag]
    fits = {"N": ("1", "2", "5"), "X": ("0.1", "1", "3.5")}.get(option.values)
    value = _value(random, fits or (*option.values.split("|"), str(option.default)))
    return [f"{flag}={value}"] if random.random() < 0.2 else [flag, value]


def _value(random: Random, likely: tuple[str, ...]) -> str:
    return random.choice(likely if random.random() < 0.6 else _ODD)
