"""Observers are told of every evaluation, and may end a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import nn

import favano
from favano.errors import BadInput
from favano.specification.keys import Keys

FLEET = favano.Fleet(clients=6)
KEYS: Keys = {
    "selected": 3, "local_steps": 4, "learning_rate": 0.1, "horizon": 140.0,
    "evaluate_every": 35.0, "seeds": 2,
}  # fmt: skip
LOOP: Keys = {**KEYS, "engine": "loop"}


def problem() -> favano.Problem:
    features = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
    labels = (features.sum(dim=1) > 0).long()
    train, test = (features[:240], labels[:240]), (features[240:], labels[240:])
    return favano.Problem(lambda: nn.Linear(4, 2), train, test, split="iid", batch_size=16)


@pytest.mark.parametrize("keys", [KEYS, LOOP], ids=["lanes", "loop"])
def test_rows_are_those_of_the_history(keys: Keys) -> None:
    seen: list[Mapping[str, object]] = []
    both = favano.compare(["favano", "fedavg"], problem(), FLEET, on_evaluate=seen.append, **keys)
    history = both.history
    expected = {tuple(history[name][i] for name in history) for i in range(len(history["seed"]))}
    assert {tuple(row.values()) for row in seen} == expected
    assert len(seen) == len(expected)
    assert list(seen[0]) == list(history)


def test_watching_changes_nothing() -> None:
    plain = favano.simulate("favano", problem(), FLEET, **KEYS)
    watched = favano.simulate("favano", problem(), FLEET, on_evaluate=lambda row: None, **KEYS)
    assert watched.rows == plain.rows


@pytest.mark.quick("lanes-asyncfeded")
@pytest.mark.parametrize("method", ["favano", "fedbuff", "asyncfeded", "scaffold"])
@pytest.mark.parametrize("keys", [KEYS, LOOP], ids=["lanes", "loop"])
def test_a_run_ends_and_the_others_go_on(method: str, keys: Keys, tmp_path: Path) -> None:
    def stop(row: Mapping[str, object]) -> object:
        return favano.STOP if (row["seed"], row["time"]) == (0, 70.0) else None

    if method == "asyncfeded":  # which selects nobody
        keys = {**keys}
        del keys["selected"]
    whole = favano.simulate(method, problem(), FLEET, **keys)
    result = favano.simulate(method, problem(), FLEET, on_evaluate=stop, **keys)  # type: ignore[arg-type]
    kept = [row for row in whole.rows if row.seed == 1 or row.time <= 70]
    assert result.rows == kept
    assert result.status == "stopped"
    assert [run.status for run in result.runs] == ["stopped", "complete"]
    assert result.runs[0].time == 70
    result.save(tmp_path / "mine")
    (read,) = favano.load(tmp_path / "mine").results
    assert read.status == "stopped"
    assert read.participation is None  # the plan was not carried out
    page = result.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "was stopped by its observer: 2 of 2 seeds, at time 70 to 140 of 140." in page
    assert "<strong>Stopped:</strong> 1 of 1 result before the horizon." in page


def test_the_first_evaluation_may_be_the_last() -> None:
    ended = favano.simulate("favano", problem(), FLEET, on_evaluate=lambda row: favano.STOP, **KEYS)
    assert [row.time for row in ended.rows] == [0, 0]
    assert sorted(ended.models) == [0, 1]


@pytest.mark.parametrize("keys", [KEYS, LOOP], ids=["lanes", "loop"])
def test_an_error_of_the_observer_is_the_users_and_keeps_what_was_measured(
    keys: Keys, tmp_path: Path
) -> None:
    failing: list[object] = []  # seeds

    def fail(row: Mapping[str, object]) -> None:
        if row["time"] == 70.0:
            failing.append(row["seed"])
            raise ZeroDivisionError

    whole = favano.simulate("favano", problem(), FLEET, **keys)
    with pytest.raises(ZeroDivisionError) as failed:
        favano.simulate("favano", problem(), FLEET, on_evaluate=fail, **keys)
    kept = failed.value.result  # type: ignore[attr-defined]
    assert kept.status == "partial"
    assert {row.time for row in kept.rows if row.seed in failing} >= {0, 35, 70}
    assert set(map(str, kept.rows)) <= set(map(str, whole.rows))
    kept.save(tmp_path / "kept")
    (read,) = favano.load(tmp_path / "kept").results
    assert (read.status, len(read.rows)) == ("partial", len(kept.rows))


def test_other_answers_are_refused() -> None:
    with pytest.raises(BadInput, match=r"^on_evaluate=True: need None, or favano.STOP"):
        favano.simulate("favano", problem(), FLEET, on_evaluate=lambda row: True, **KEYS)  # type: ignore[arg-type,return-value]
    with pytest.raises(BadInput, match=r"^on_evaluate=3: need a function of a row"):
        favano.simulate("favano", problem(), FLEET, on_evaluate=3, **KEYS)  # type: ignore[arg-type]
