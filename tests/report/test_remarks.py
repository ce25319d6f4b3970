"""What is wrong with final models is decided once, and said wherever there are numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
import torch
from rich.console import Console
from torch import nn

import favano
from favano.methods import our_methods
from favano.report import final_table
from favano.report.curves import curve
from favano.report.table import finished
from favano.results import Comparison, Result, collect
from favano.specification.keys import Keys

from . import test_other_metrics as kilowatts
from .conftest import Writer

UNTRAINED = "is untrained: no server step by time 20"
NO_BETTER = "is no better than the untrained model"
INFINITE = "the {} is not finite; lower the learning rate"


def changed(folder: Path, **values: object) -> Result:
    """The result in a folder, with other numbers of its first seed and another status."""
    path = folder / "summary.json"
    summary = json.loads(path.read_text())
    summary["status"] = values.pop("status", summary["status"])
    summary["runs"][0] |= values
    path.write_text(json.dumps(summary))
    (result,) = collect([folder])
    return result


@pytest.fixture
def trained(tmp_path: Path, write: Writer) -> Path:
    """A result that learnt in both of its seeds."""
    return write(tmp_path / "favano", {"algorithm": "favano"}, [[0.1, 0.6, 0.8]] * 2, "complete")


def test_nothing_is_said_of_a_model_that_learnt(trained: Path) -> None:
    (result,) = collect([trained])
    assert result.remarks == []
    assert repr(result) == "Result(favano: 80.0 ± 0.0 %, complete, seeds: 0, 1)"


@pytest.mark.parametrize(
    ("values", "remark"),
    [
        ({"server_steps": 0, "time": 20.0}, UNTRAINED),
        ({"accuracy": 0.1}, NO_BETTER),
        ({"accuracy": 0.05}, NO_BETTER),
        ({"loss": None}, f"diverged: {INFINITE.format('loss')}"),
        ({"variance": None, "status": "diverged"}, f"diverged: {INFINITE.format('variance')}"),
        ({"accuracy": None}, "has no finite accuracy"),
        ({"cause": "client 4 sent NaN", "status": "partial"}, "diverged: client 4 sent NaN"),
    ],
)
def test_each_remark_with_its_seeds(
    values: dict[str, object], remark: str, tmp_path: Path, write: Writer
) -> None:
    for seeds, where in ((1, ""), (3, " in 1 of 3 seeds (0)")):
        history = [[0.1, 0.6, 0.8]] * seeds
        folder = write(tmp_path / str(seeds), {"algorithm": "favano"}, history, "complete")
        what, colon, why = remark.partition(":")
        assert changed(folder, **values).remarks == [f"{what}{where}{colon}{why}"]


def test_seeds_of_which_the_same_is_said_are_counted(tmp_path: Path, write: Writer) -> None:
    ends = [[0.1, 0.6, end] for end in (0.8, 0.1, 0.9, 0.0)]
    (result,) = collect([write(tmp_path / "some", {"algorithm": "favano"}, ends, "complete")])
    assert result.remarks == [f"{NO_BETTER} in 2 of 4 seeds (1 and 3)"]
    (result,) = collect([write(tmp_path / "all", {"algorithm": "favano"}, [[0.1]] * 2, "complete")])
    assert result.remarks == ["is untrained in 2 of 2 seeds: no server step by time 0"]


def test_a_run_that_was_interrupted_may_yet_learn(tmp_path: Path, write: Writer) -> None:
    (result,) = collect([write(tmp_path / "a", {"algorithm": "favano"}, [[0.1]], "partial")])
    assert result.remarks == []


def test_low_values_of_an_error_are_better(tmp_path: Path) -> None:
    for name, end, remarks in (("up", 2.5, [NO_BETTER]), ("down", 0.5, [])):
        kilowatts.write(tmp_path / name, "favano", [[2.0, end]])
        (result,) = collect([tmp_path / name])
        assert result.remarks == remarks


@pytest.mark.parametrize("what", ["loss", "variance"])
def test_a_diverged_result_says_what_is_not_finite(what: str, trained: Path) -> None:
    result = changed(trained, status="diverged", **{what: None})
    assert (result.status, result.ended) == ("diverged", True)
    assert len(curve(result).seeds) == 3
    assert finished(result).keys() == {0, 1}
    assert result.remarks == [f"diverged in 1 of 2 seeds (0): {INFINITE.format(what)}"]


def test_divergence_after_the_horizon(trained: Path) -> None:
    """Tables have the numbers at the horizon; the last round ended later."""
    result = changed(trained, status="diverged", loss=None, time=25.0)
    assert result.remarks == ["diverged after the horizon; lower the learning rate"]


def screen(results: list[Result]) -> str:
    console = Console(width=160, color_system=None)
    with console.capture() as text:
        console.print(final_table(results, width=160))
    return text.get()


def page(results: list[Result]) -> str:
    text = Comparison(results).report("page.html").read_text()
    return text[: text.index("</header>")]


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (lambda results: repr(results[0]), f"seeds: 0; it {UNTRAINED})"),
        (lambda results: str(Comparison(results)), f"fedbuff: 10.00 %; it {UNTRAINED}"),
        (lambda results: str(Comparison(results).table()), f"FedBuff {UNTRAINED}."),
        (lambda results: Comparison(results).to_latex(), f"% FedBuff {UNTRAINED}."),
        (lambda results: results[0]._repr_html_(), f"<p>FedBuff {UNTRAINED}.</p>"),
        (screen, f"FedBuff {UNTRAINED}."),
        (page, f"FedBuff {UNTRAINED}."),
    ],
)
def test_remarks_are_said_wherever_there_are_numbers(
    place: Callable[[list[Result]], str],
    line: str,
    tmp_path: Path,
    write: Writer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = write(tmp_path / "fedbuff", {"algorithm": "fedbuff"}, [[0.1, 0.1, 0.1]], "complete")
    assert line in place([changed(folder, server_steps=0)])
    assert "trained:" not in place([changed(folder, server_steps=2, accuracy=0.5)])


@pytest.mark.parametrize("name", list(our_methods()))
def test_every_method_ends_with_a_sentence_at_a_rate_that_no_model_survives(name: str) -> None:
    """The loop and the lanes with the same; after one step, only the loss is not finite."""

    def sentence_of(engine: Literal["loop", "lanes"]) -> str:
        keys: Keys = {"learning_rate": 1e30, "horizon": 8.0, "engine": engine}
        if not name.startswith("asyncsgd"):
            keys["local_steps"] = 1
        try:
            result = favano.simulate(name, problem(), favano.Fleet(clients=4), **keys)
        except favano.NonFiniteUpdate as error:
            return str(error)
        return f"{result.status}: {'; '.join(result.remarks)}"

    said = sentence_of("loop")
    assert re.search("^diverged: .*lower the learning rate|holds NaN or infinity", said)
    assert sentence_of("lanes") == said


def problem() -> favano.Problem:
    """Two classes of points, and a network of two layers."""
    x = torch.linspace(-2, 2, 80).reshape(40, 2)
    y = (x[:, 0] > 0).long()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2))
    return favano.Problem(network, train=(x, y), test=(x, y), split="iid")
