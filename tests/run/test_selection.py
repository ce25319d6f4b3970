"""Selection rules from the command line, from files and from Python: planned, run and proved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn
from typer.testing import CliRunner

import favano
from favano.cli.app import app
from favano.planning.planned import plan_seed
from favano.run.samples import load_samples

RULE = """from favano import Candidates, Selection, option

class Rarest(Selection):
    '''Those that were selected the fewest times; of equal ones the first, or the last.'''

    descending: bool = option(False, "the last")

    def select(self, clients: Candidates, size: int) -> list[int]:
        number = -clients.client if self.descending else clients.client
        ranked = sorted(zip(clients.times, number, clients.client))
        return [client for _, _, client in ranked[:size]]
"""
FLAGS = ["--clients", "6", "--selected", "2", "--horizon", "300", "--local-steps", "3"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(RULE)
    return path


def call(*words: str) -> str:
    told = CliRunner().invoke(app, list(words))
    assert told.exit_code == 0, told.exception
    return told.output


def planned(method: str = "fedavg", **keys: Any) -> list[int]:
    usual: dict[str, Any] = {"selected": 2, "local_steps": 3, "horizon": 300}
    plan = favano.plan(method, fleet=favano.Fleet(clients=6), **{**usual, **keys})
    asked: list[int] = plan.schedule.client[: plan.schedule.jobs].tolist()
    return asked


class Last(favano.Selection):
    """Always the same clients."""

    def select(self, clients: favano.Candidates, size: int) -> Sequence[int]:
        return [int(client) for client in clients.client[-size:]]


@pytest.mark.slow
def test_a_rule_in_a_file_is_run_proved_and_compared(file: Path, tmp_path: Path) -> None:
    flags = ["--selection", f"{file}:Rarest", "--dataset", "digits", *FLAGS]
    call("run", "--algorithm", "fedavg", *flags, "--out", str(tmp_path / "run"))
    assert (
        f'selection = "{file}:Rarest:descending=False"'
        in (tmp_path / "run" / "spec.toml").read_text()
    )
    with pytest.raises(favano.BadInput, match="would be executed"):
        favano.verify(tmp_path / "run")
    assert "proved" in call("verify", str(tmp_path / "run"), "--trust", str(file))
    assert "fedavg" in call("compare", "--algorithms", "fedavg,favano,fedasync", "--weights",
                            "empirical", *flags)  # fmt: skip


def test_a_file_of_keys_may_name_a_rule(file: Path, tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    text = f'[clock]\nselected = 2\nselection = "{file}:Rarest:descending=true"\n'
    config.write_text(
        text + '[fleet]\nclients = 6\n[run]\nhorizon = 300\n[[method]]\nname="fedavg"'
    )
    told = call("plan", str(config))
    assert "mine.py (SHA-256" in told.replace("\n", " ")


def test_a_rule_decides_who_is_asked(file: Path) -> None:
    first = planned(selection=f"{file}:Rarest")
    assert first[:12] == [0, 1, 2, 3, 4, 5] * 2
    assert planned(selection=f"{file}:Rarest:true")[:6] == [4, 5, 2, 3, 0, 1]
    assert set(planned(selection=Last)) == {4, 5}
    by_name, by_object = (
        planned(selection=each) for each in ("least-recent", favano.LeastRecent())
    )
    assert by_name == by_object != planned()
    assert sorted(by_name[:6]) == list(range(6))


def test_a_rule_from_python_is_proved_from_python(tmp_path: Path) -> None:
    fleet, keys = favano.Fleet(clients=6), {"selected": 2, "local_steps": 3, "horizon": 200}
    result = favano.simulate("fedavg", "digits", fleet, selection=Last, progress=False, **keys)  # type: ignore[arg-type]
    assert result.participation is not None
    assert np.flatnonzero(result.participation.listed.contacts).tolist() == [4, 5]
    result.save(tmp_path / "run")
    with pytest.raises(favano.BadInput, match="was made with a class of its own, last"):
        favano.verify(tmp_path / "run")
    verdicts = favano.verify(tmp_path / "run", selection=Last)
    assert [verdict.outcome for verdict in verdicts] == ["proved", "proved"]


def test_samples_are_those_of_the_data() -> None:
    """Of writers' own samples the clients with more are asked more often."""
    x = np.random.default_rng(0).normal(size=(128, 3)).astype("float32")
    y = (x[:, 0] > 0).astype("int64")
    parts = [slice(0, 100), slice(100, 110), slice(110, 119), slice(119, 128)]
    clients = [(x[part], y[part]) for part in parts]
    problem = favano.Problem(nn.Linear(3, 2), train=clients, test=(x, y))
    plan = favano.plan("fedavg", problem, selected=1, horizon=20_000, selection="samples")
    counts = np.bincount(plan.schedule.client[: plan.schedule.jobs], minlength=4)
    assert counts[0] / counts.sum() == pytest.approx(100 / 128, abs=0.1)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"selection": "lest-recent"}, "selection=lest-recent: unknown; did you mean least-recent"),
        ({"selection": "weighted"}, "selection=weighted: .*need one number per speed class"),
        ({"selection": "weighted:1,0"}, "selection=weighted:1,0: weights.1=0: need greater than 0"),
        ({"selection": "weighted:1,2,3"}, "selection=.*need 1, 2, 6 numbers, found 3"),
        ({"selection": "uniform:3"}, "selection=uniform:3: need uniform"),
        ({"selection": 3}, "selection=int: need a name, file.py:Name, or an object"),
        (
            {"selection": "samples", "selected": 6},
            "selection=samples: has no effect: all 6 clients",
        ),
        ({"selection": "least-recent", "method": "fedasync"}, "has no effect with fedasync"),
    ],
)
def test_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(favano.BadInput, match=message):
        planned(**keys)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "selection"), [("fedavg", "power-of-choice:4"), ("fedbuff", "oort")]
)
def test_rules_that_see_losses_run_alike_in_both_engines(
    method: str, selection: str, tmp_path: Path
) -> None:
    fleet = favano.Fleet(clients=6)
    keys: dict[str, Any] = {"selected": 2, "local_steps": 3, "horizon": 300, "selection": selection}
    keys |= {"buffer": 2} if method == "fedbuff" else {}
    lanes, loop = (
        favano.simulate(method, "digits", fleet, progress=False, engine=engine, **keys)
        for engine in ("lanes", "loop")
    )
    assert [row.local_steps for row in lanes.rows] == [row.local_steps for row in loop.rows]
    assert [row.loss for row in lanes.rows] == pytest.approx([row.loss for row in loop.rows])
    assert lanes.participation == loop.participation is not None
    assert lanes.participation is not None
    listed = lanes.participation.listed
    assert sum(listed.steps) == lanes.rows[-1].contributed_steps
    forecast = plan_seed(lanes.spec, 0, load_samples(lanes.spec, None).traits).schedule
    contacts = np.bincount(forecast.client[: forecast.jobs], minlength=6)
    assert list(listed.contacts) != contacts.tolist()
    lanes.save(tmp_path / "run")
    assert {each.outcome for each in favano.verify(tmp_path / "run")} == {"proved"}
    with pytest.raises(favano.BadInput, match="cannot be planned"):
        favano.plan(method, "digits", fleet, **keys)


def test_a_policy_that_the_run_names_takes_the_rule() -> None:
    own = planned(selection="least-recent")
    assert planned(selection="least-recent", policy="rounds") == own
    assert planned(policy="rounds") != own
