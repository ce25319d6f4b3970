"""A policy of one's own, from a file: planned, run, compared and proved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import favano
from favano.cli.app import app

FILE = Path(__file__).parents[2] / "examples" / "own_policy.py"
OWN = f"{FILE}:Turns"
FLAGS = ["--clients", "6", "--selected", "2", "--horizon", "200", "--local-steps", "3"]


def call(*words: str) -> str:
    told = CliRunner().invoke(app, list(words))
    assert told.exit_code == 0, told.exception
    return told.output


def simulated(**keys: Any) -> favano.Result:
    usual = {"selected": 2, "local_steps": 3, "horizon": 150, "evaluate_every": 20}
    return favano.simulate(OWN, "digits", favano.Fleet(clients=6), **{**usual, **keys})


def test_it_is_run_proved_and_compared(tmp_path: Path) -> None:
    call("run", "--algorithm", OWN, "--dataset", "digits", *FLAGS, "--out", str(tmp_path / "run"))
    assert "proved" in call("verify", str(tmp_path / "run"), "--trust", str(FILE))
    assert "Turns" in call(
        "compare", "--algorithms", f"{OWN},fedavg", "--dataset", "digits", *FLAGS
    )


def test_engines_agree() -> None:
    lanes, loop = (simulated(engine=engine) for engine in ("lanes", "loop"))
    assert [row.local_steps for row in lanes.rows] == [row.local_steps for row in loop.rows]
    assert [row.loss for row in lanes.rows] == pytest.approx([row.loss for row in loop.rows])


@pytest.mark.parametrize("period", [3.0, 11.0])
def test_its_options_are_keys(period: float) -> None:
    fleet = favano.Fleet(clients=6)
    plan = favano.plan(OWN, fleet=fleet, selected=2, period=period, horizon=100)  # type: ignore[call-arg]
    assert {time % period for time in plan.schedule.time.tolist()} == {0.0}


BY_LOSS = FILE.with_name("chosen_by_loss.py")


def test_a_method_that_chooses_by_loss_is_run_and_proved(tmp_path: Path) -> None:
    out, own = str(tmp_path / "run"), ["--algorithm", f"{BY_LOSS}:WorstFirst"]
    call("run", *own, "--dataset", "digits", *FLAGS, "--out", out)
    assert "proved" in call("verify", out, "--trust", str(BY_LOSS))
    with pytest.raises(favano.BadInput, match="cannot be planned: its policy, Rounds, sees loss"):
        favano.plan(f"{BY_LOSS}:WorstFirst")
