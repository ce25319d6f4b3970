"""Help texts: grouped by part, short, and about the methods that are named."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import pytest
import typer
from typer.core import TyperGroup

from favano.cli.app import app
from favano.cli.flags import SpecCommand
from favano.methods import our_methods
from favano.options import options_of
from favano.policies.registry import OURS
from favano.specification.federation_keys import simulated_keys
from favano.specification.readings import KEYS as READING_KEYS
from favano.specification.spec import PARTS
from favano.studies.catalogue import KNOWN
from tests.cli.test_cli import Program, favano

__all__ = ["favano"]

SHORT, COLUMNS = 40, 100
COMMANDS = [("run",), ("compare",), ("plan",), ("bench",), ("theory", "bound")]
PROGRAM = cast(TyperGroup, typer.main.get_command(app))
EVERY = {  # commands with flags for the keys of a specification, by what calls them
    (*words, name): command
    for words, group in (((), PROGRAM), (("theory",), cast(TyperGroup, PROGRAM.commands["theory"])))
    for name, command in group.commands.items()
    if isinstance(command, SpecCommand)
}
EXAMPLE = Path(__file__).parents[2] / "examples" / "own_method.py"


@pytest.fixture(autouse=True)
def _a_screen_of_100_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))


def help_of(program: Program, *words: str) -> str:
    code, out, err = program(*words, "--help-all")
    assert (code, err) == (0, "")
    return out


def short_help_of(program: Program, *words: str) -> str:
    code, out, err = program(*words, "--help")
    assert (code, err) == (0, "")
    return out


def groups(text: str) -> dict[str, list[str]]:
    """The flags of each group."""
    by_title: dict[str, list[str]] = {}
    flags: list[str] = []
    for line in text.splitlines():
        if title := re.fullmatch(r"(\S.*):", line):
            flags = by_title.setdefault(title.group(1), [])
        elif flag := re.match(r"  --([a-z][a-z0-9-]*)", line):
            flags.append(flag.group(1).replace("-", "_"))
    return by_title


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_every_flag_that_a_command_takes_is_in_its_long_help(
    words: tuple[str, ...], favano: Program
) -> None:
    """Whatever other flag it needs beside it; so are those of our policies, beside --policy."""
    flags = {flag for parameter in EVERY[words].params for flag in parameter.opts}
    taken = {flag[2:].replace("-", "_") for flag in flags if flag[:2] == "--"} - {"own_options"}
    if "policy" in taken:
        taken |= {name for policy in OURS.values() for name in options_of(policy)}
    refused = simulated_keys() if words == ("serve",) else set()
    text = help_of(favano, *words)
    shown = {flag for flags in groups(text).values() for flag in flags}
    assert shown == taken - refused
    assert max(map(len, text.splitlines())) <= COLUMNS


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_essentials_fit_on_one_screen(words: tuple[str, ...], favano: Program) -> None:
    """What nine of ten runs set, and how to see the rest."""
    text = short_help_of(favano, *words)
    assert 24 <= len(text.splitlines()) <= SHORT
    assert max(map(len, text.splitlines())) <= COLUMNS
    assert "--help-all shows all flags" in text
    shown = {flag for flags in groups(text).values() for flag in flags}
    assert {"dataset", "clients", "horizon", "seeds"} <= shown
    assert not shown & {*READING_KEYS, "reading"}
    every = {flag for flags in groups(help_of(favano, *words)).values() for flag in flags}
    assert shown < every


def test_the_essentials_of_a_named_method_have_its_flags(favano: Program) -> None:
    flags = groups(short_help_of(favano, "run", "--algorithm", "fedbuff"))
    assert flags["Method fedbuff"] == list(options_of(our_methods()["fedbuff"]))
    assert "Method favano" not in groups(short_help_of(favano, "run"))


def test_flags_are_grouped_by_part(favano: Program) -> None:
    flags = groups(help_of(favano, "run"))
    assert list(flags) == [
        "Command", "Problem", "Fleet", "Server's clock", "Server", "Local training", "Run",
        "Readings of the paper", "Options of methods", "Options of policies",
    ]  # fmt: skip
    assert {"out", "json", "force", "algorithm", "label"} <= set(flags["Command"])
    assert {"buffer", "memory_decay", "reweight"} <= set(flags["Options of methods"])
    assert {"grace", "hand_out"} <= set(flags["Options of policies"])
    for title, part in (("Problem", "problem"), ("Fleet", "fleet"), ("Run", "run")):
        keys = [key for key in options_of(PARTS[part]) if key not in READING_KEYS]
        assert flags[title] == keys
    assert set(flags["Readings of the paper"]) == {"reading", *READING_KEYS}


def test_only_flags_that_matter_to_the_method_are_shown(favano: Program) -> None:
    """Others are taken all the same, and refused by name."""
    usual, buffered = (
        groups(help_of(favano, "run", "--algorithm", name)) for name in ("favano", "fedbuff")
    )
    assert "buffer" not in {flag for flags in usual.values() for flag in flags}
    assert buffered["Method fedbuff"] == list(options_of(our_methods()["fedbuff"]))
    assert "Method favano" not in buffered
    assert "strict_ties" in usual["Readings of the paper"]
    assert "deadline" not in usual["Server's clock"]
    assert buffered["Server's clock"] == ["selected", "selection", "interaction_time"]
    rounds = groups(help_of(favano, "run", "--algorithm=fedavg"))
    assert "deadline" in rounds["Server's clock"]
    assert "drop_last" in rounds["Readings of the paper"]
    assert "strict_ties" not in rounds["Readings of the paper"]


def test_a_federation_shows_no_flags_of_simulated_time(favano: Program) -> None:
    flags = groups(help_of(favano, "serve"))
    assert flags["Fleet"] == ["clients"]
    assert flags["Server's clock"] == ["selected", "selection", "deadline"]
    assert flags["Run"] == ["seed", "buffers", "codec", "codec_bits", "codec_scale", "codec_dither"]
    assert "rate_decay" not in flags["Local training"]
    assert {"rate_schedule", "quantise"} <= set(flags["Local training"])


def test_a_comparison_shows_the_flags_of_all_its_methods(favano: Program) -> None:
    flags = groups(help_of(favano, "compare", "--algorithms", "quafl,fedavg"))
    assert "dampening" in flags["Method quafl"]
    assert "sample_weights" in flags["Method fedavg"]
    assert "deadline" in flags["Server's clock"]
    assert {"strict_ties", "drop_last"} <= set(flags["Readings of the paper"])


def test_a_file_names_the_methods_too(favano: Program, tmp_path: Path) -> None:
    (tmp_path / "runs.toml").write_text('[[method]]\nname = "fedbuff"\n')
    assert "Method fedbuff" in groups(help_of(favano, "run", "runs.toml"))


def test_the_flags_of_a_method_in_a_file(favano: Program) -> None:
    flags = groups(help_of(favano, "run", "--algorithm", f"{EXAMPLE}:Ca2fl"))
    assert flags["Method ca2fl"] == ["buffer", "server_learning_rate"]


def test_flags_of_a_method_in_a_file_are_taken(favano: Program, tmp_path: Path) -> None:
    """Also those that no method of ours has."""
    (tmp_path / "gentle.py").write_text(METHOD, encoding="utf-8")
    named = ("--algorithm", "gentle.py:Gentle")
    text = help_of(favano, "run", *named)
    assert groups(text)["Method gentle"] == ["gentleness", "loud"]
    assert "how gentle, g [0.5]" in text
    code, out, err = favano("plan", *named, "--gentleness", "0.25", "--loud", "--json")
    assert (code, err) == (0, "")
    code, out, err = favano("plan", *named, "--gentleness=2")
    assert (code, out) == (2, "")
    assert err == "favano: gentleness=2: need less than or equal to 1\n"
    code, out, err = favano("plan", "--gentleness", "0.25")
    assert code == 2
    assert re.search(r"No such option:? .?--gentleness", err)


METHOD = '''"""Gentle: half a step."""

from typing import Annotated

from pydantic import Field

import favano


class Gentle(favano.Method):
    """FedAvg with a gentle server."""

    linear = True
    gentleness: Annotated[float, Field(le=1)] = favano.option(0.5, "how gentle", symbol="g")
    loud: bool = favano.option(False, "say so")

    def policy(self):
        return self.context.rounds()

    def aggregate(self, state, updates):
        size = self.context.sizes(False)[updates.client]
        step = self.gentleness * updates.weighted_delta(size / size.sum())
        return favano.ModelState(state.model + step)
'''


def test_a_misspelt_command_gets_one_suggestion(favano: Program) -> None:
    for words in (("rnu",), ("theory", "stepz")):
        code, _, err = favano(*words)
        assert (code, err.count("Did you mean")) == (2, 1)


def test_the_commands(favano: Program) -> None:
    text = short_help_of(favano)
    for command in ("demo", "run", "compare", "methods", "plan", "reproduce", "report", "theory"):
        assert re.search(rf"^  {command} ", text, re.MULTILINE)


@pytest.mark.parametrize("command", ["report", "resume", "verify", "methods", "run", "keys"])
def test_arguments_are_explained_once(command: str, favano: Program) -> None:
    """In their order after the name of the command, each with what it is."""
    text = short_help_of(favano, command)
    usage, rest = text.split("\n", 1)
    (name,) = re.findall(r"\[?[A-Z][A-Za-z.]+\]?$", usage.removesuffix("...").strip())
    lines = [line.split(maxsplit=1) for line in rest.splitlines() if line.strip().startswith(name)]
    assert len(lines) == 1
    assert re.match(r"[a-z]", lines[0][1])  # not [required] alone


def test_reproduce_lists_its_names(favano: Program) -> None:
    text = short_help_of(favano, "reproduce")
    (listed,) = re.findall(r"NAME  (.*?)\[required\]", text, re.DOTALL)
    assert [name.strip() for name in listed.split(",")] == list(KNOWN)
