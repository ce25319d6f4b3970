"""`favano tune` as people call it: its table, its commands, its sentences."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from favano.specification.flags import flags_of
from favano.specification.spec import make_spec
from tests.cli.test_cli import Program
from tests.cli.test_cli import favano as favano

SMALL = ["--clients", "8", "--selected", "2", "--local-steps", "3", "--horizon", "42",
         "--evaluate-every", "21", "--split", "iid", "--kernels", "native"]  # fmt: skip
TUNE = ["tune", "--algorithms", "favano,fedbuff", *SMALL, "--seeds", "2", "--out", "out",
        "--grid", "learning_rate=0.02,0.5", "--grid", "fedbuff.buffer=2,3"]  # fmt: skip


def test_the_command_that_is_printed_gives_the_row_of_the_winner(favano: Program) -> None:
    code, out, err = favano(*TUNE)
    assert code == 0
    assert "favano: 2 more points for favano, so that all methods try 4: learning_rate=" in err
    assert (
        "favano: 4 points for each of 2 methods, on seeds 1000 to 1001 and 287 held-out training "
        "samples; test data have no part"
    ) in err
    assert "favano: favano: the best learning_rate=0.5 is the largest that was tried" in err
    commands = [line for line in out.splitlines() if line.startswith("favano run")]
    assert len(commands) == 2
    for command in commands:
        words = shlex.split(command)[1:]
        method = words[words.index("--algorithm") + 1]
        row = next(line for line in out.splitlines() if line.startswith(f"{method} "))
        _, table, _ = favano(*words, "--out", f"again-{method}")
        reached = re.findall(r"[0-9.]+ ± [0-9.]+", row)[0]
        assert reached in table
        assert "on 287 held-out training samples" in " ".join(table.split())


def test_the_document_has_all_trials_and_goes_on(favano: Program) -> None:
    code, out, _ = favano(*TUNE, "--json")
    document = json.loads(out)
    assert (code, len(document["trials"])) == (0, 8)
    assert document["metric"] == {"name": "accuracy", "best": "high", "unit": "%"}
    best = document["best"]["fedbuff"]
    values = [t["values"] for t in document["trials"] if t["point"] == best["point"]]
    assert any(sum(by_seed.values()) / 2 == best["value"] for by_seed in values)
    assert best["command"].startswith("favano run --algorithm fedbuff ")
    assert set(best["at_the_edge"]) <= set(best["point"])
    again = favano(*TUNE, "--json")
    assert again[1] == out
    assert not favano.log  # nothing was trained
    assert not Path("out/resume.json").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("", "grid=nothing: need at least one, as learning_rate=0.05,0.2,0.8"),
        ("--grid learning_rate", "grid=learning_rate: need KEY=VALUE,VALUE or METHOD.KEY=VALUE"),
        ("--grid lr=1,2", "lr=1,2: unknown key; did you mean learning_rate?"),
        ("--grid learning_rate=0.1,0.2 --seed 1", "seed=1: trials have seeds of their own"),
        ("--grid learning_rate=0.1,0.2 --learning-rate 1", "learning_rate=1: is tuned by --grid"),
        ("--grid learning_rate=0.1,0.2 --momentum 0.1,0.2", "momentum=0.1,0.2: lists several"),
        ("--grid learning_rate=0.1,0.2 --search best", "search=best: need grid, random or"),
        ("--grid momentum=0.5,1.5", "momentum=1.5: need less than 1"),
        ("--grid learning_rate=0.1,0.2 --holdout 99999", "holdout=99999: need 1..1436"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(words: str, sentence: str, favano: Program) -> None:
    code, out, err = favano("tune", *SMALL, "--algorithms", "favano", *shlex.split(words))
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith(f"favano: {sentence}")
    assert not list(Path("favano-results").rglob("*.csv"))


@pytest.mark.parametrize(
    "keys",
    [
        {"algorithm": "fedbuff", "server": ["clip:1.0", "adam:0.01"], "buffer": 3},
        {"algorithm": "quafl", "codec": "lattice", "dampening": False, "label": "Q, small"},
        {"local_steps": [1, 2, 3], "clients": 3, "selected": 2, "mean": [1.0, 2.5, 4.0]},
        {"selection": "least-recent", "learning_rate": 0.1 + 0.2, "fast_fraction": 1 / 9},
        {"holdout": 100, "keep": "best", "seed": 1000, "seeds": 2, "rate_schedule": "cosine:0.1"},
    ],
)
def test_flags_say_all_of_a_specification(keys: dict[str, object], favano: Program) -> None:
    """They are taken by the program, and read back they are the same specification."""
    spec = make_spec(keys)
    assert favano("run", *flags_of(spec), "--help")[0] == 0
    words, given = flags_of(spec), dict[str, object]()
    while words:
        flag = words.pop(0).removeprefix("--").replace("-", "_")
        if not words or words[0].startswith("--"):
            given[flag.removeprefix("no_")] = not flag.startswith("no_")
        else:
            value = words.pop(0)
            given[flag] = value.split(",") if isinstance(keys.get(flag), list) else value
    assert make_spec(given) == spec
