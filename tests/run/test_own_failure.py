"""Code of the user's that fails in the middle of a run: where it did, and what was measured."""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import favano
import favano.errors
from favano.errors import BadInput, user_line
from favano.policies import ReceivedUpdate
from favano.specification.keys import Keys
from favano.types import Stack, Vector
from tests.engine.by_loss import HighestLoss

FLEET = favano.Fleet(clients=6)
KEYS: Keys = {
    "local_steps": 4, "learning_rate": 0.1, "horizon": 700.0,
    "evaluate_every": 35.0,
}  # fmt: skip
CALLS: list[str] = []  # of what fails, in each process


def fails_late(what: str, last: int) -> None:
    """Fail at a call after so many."""
    CALLS.append(what)
    if CALLS.count(what) > last:
        raise ZeroDivisionError(f"{what} fails")


class Rounds(favano.Method[favano.ModelState]):
    def policy(self) -> favano.Policy:
        return self.context.rounds()

    def aggregate(
        self, state: favano.ModelState, updates: favano.ClientUpdates
    ) -> favano.ModelState:
        return favano.ModelState(updates.end.mean(0))


class Aggregates(Rounds):
    def aggregate(
        self, state: favano.ModelState, updates: favano.ClientUpdates
    ) -> favano.ModelState:
        if updates.version > 3:
            torch.zeros(2) @ torch.zeros(3)
        return favano.ModelState(updates.end.mean(0))


class Continues(Rounds):
    def next_client_model(self, server: Vector, own: Stack) -> Stack:
        fails_late("continues", 10)
        return own


class Steps(Rounds):
    memory = 1

    def local_step(
        self, gradient: Stack, memory: tuple[Stack, ...]
    ) -> tuple[Stack, tuple[Stack, ...]]:
        fails_late("steps", 40)
        return gradient, memory


class Transforms(favano.ServerTransform[tuple[()]]):
    def step(self, state: tuple[()], step: Vector) -> tuple[Vector, tuple[()]]:
        fails_late("transforms", 4)
        return step, state


class Chooses(HighestLoss):
    def receive(self, update: ReceivedUpdate, now: float) -> None:
        if update.loss < 0.4:  # before the run it is NaN
            raise ZeroDivisionError("chooses fails")
        HighestLoss.receive(self, update, now)


class Net(nn.Module):
    """It fails once its weights are large."""

    def __init__(self, most: float = math.inf) -> None:
        super().__init__()
        self.layer, self.most = nn.Linear(4, 2), most

    def forward(self, inputs: Tensor) -> Tensor:
        if self.layer.weight.detach().abs().sum() > self.most:
            raise ZeroDivisionError("net fails")
        output: Tensor = self.layer(inputs)
        return output


def costs(output: Tensor, target: Tensor) -> Tensor:
    cost = functional.cross_entropy(output, target)
    if cost.detach() < 0.4:
        raise ZeroDivisionError("costs fails")
    return cost


def scores(output: Tensor, target: Tensor) -> Tensor:
    fails_late("scores", 6)
    return (output.argmax(1) == target).float()


def problem(net: nn.Module | None = None, **parts: Any) -> favano.Problem:
    features = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
    labels = (features.sum(dim=1) > 0).long()
    train, test = (features[:240], labels[:240]), (features[240:], labels[240:])
    return favano.Problem(net or Net(), train, test, split="iid", batch_size=16, **parts)


# What is run, what of it fails, the line that does, and how the sentence begins.
FAILING: dict[str, tuple[Any, Any, dict[str, Any], str, str]] = {
    "aggregate": (Aggregates(), problem(), {}, "torch.zeros(2) @ torch.zeros(3)",
                  "method=aggregates: aggregate raises RuntimeError: "),
    "next_client_model": (Continues(), problem(), {}, 'raise ZeroDivisionError(f"{what} fails")',
                          "function=fails_late: raises ZeroDivisionError: continues fails"),
    "local_step": (Steps(), problem(), {}, 'raise ZeroDivisionError(f"{what} fails")',
                   "function=fails_late: raises ZeroDivisionError: steps fails"),
    "transform": ("fedavg", problem(), {"server": [Transforms()]},
                  'raise ZeroDivisionError(f"{what} fails")',
                  "server=transforms: step raises ZeroDivisionError: transforms fails"),
    "policy": ("fedavg", problem(), {"policy": Chooses()},
               'raise ZeroDivisionError("chooses fails")',
               "policy=Chooses: raises ZeroDivisionError: chooses fails"),
    "forward": ("favano", problem(Net(3.0)), {}, 'raise ZeroDivisionError("net fails")',
                "function=Net.forward: raises ZeroDivisionError: net fails"),
    "loss": ("favano", problem(loss=costs), {}, 'raise ZeroDivisionError("costs fails")',
             "function=costs: raises ZeroDivisionError: costs fails"),
    "metric": ("favano", problem(metrics={"scores": scores}), {},
               'raise ZeroDivisionError(f"{what} fails")',
               "function=fails_late: raises ZeroDivisionError: scores fails"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _none_called(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    CALLS.clear()
    monkeypatch.setattr("favano.run.engines.usable_cores", lambda: 2)
    yield
    CALLS.clear()


@pytest.mark.parametrize("engine", ["lanes", "loop"])
@pytest.mark.parametrize("what", FAILING)
def test_it_says_where_and_keeps_what_was_measured(what: str, engine: str) -> None:
    method, given, keys, line, sentence = FAILING[what]
    with pytest.raises(BadInput) as failed:
        favano.simulate(method, given, FLEET, **{**KEYS, **keys, "engine": engine})
    place = rf"\(.*test_own_failure\.py, line \d+: {re.escape(line)}\)$"
    assert re.match(re.escape(sentence) + ".*" + place, str(failed.value))
    cause = failed.value.__cause__
    assert cause is not None
    assert type(cause).__name__ in sentence
    kept = failed.value.result  # type: ignore[attr-defined]
    assert kept.status == "partial"
    assert [row.time for row in kept.rows] == [35.0 * n for n in range(len(kept.rows))]
    assert 0 < len(kept.rows) < 21
    assert math.isnan(kept.runs[0].mean_model["loss"]) == (what == "metric")


@pytest.mark.parametrize("what", ["aggregate", "metric"])
def test_the_other_runs_of_a_comparison_are_kept(what: str) -> None:
    method, given, keys, _, _ = FAILING[what]
    with pytest.raises(BadInput) as failed:
        favano.compare(["fedavg", method], given, FLEET, **{**KEYS, **keys, "engine": "loop"})
    first = failed.value.result.results[0]  # type: ignore[attr-defined]
    assert first.status == ("complete" if what == "aggregate" else "partial")
    assert first.rows


def test_a_search_says_it_too() -> None:
    name, grid = f"{__file__}:Aggregates", {"learning_rate": [0.1, 0.2]}
    with pytest.raises(BadInput, match=r"^method=aggregates: aggregate raises .*, line "):
        favano.tune(["fedavg", name], problem(), FLEET, grid=grid, **KEYS)


def test_before_anything_is_measured_there_is_no_result() -> None:
    CALLS.extend(["scores"] * 9)
    with pytest.raises(BadInput, match=r"^metrics=scores: raises ZeroDivisionError") as failed:
        favano.simulate("favano", problem(metrics={"scores": scores}), FLEET, **KEYS)
    assert not hasattr(failed.value, "result")


class Unsendable(Exception):
    def __init__(self, first: int, second: int) -> None:
        super().__init__("two")


def refusal(error: Exception) -> BadInput:
    with pytest.raises(BadInput) as refused, favano.errors.in_hook("method", "mine", "init"):
        raise error
    return refused.value


@pytest.mark.parametrize("error", [KeyError("a"), Unsendable(1, 2)])
def test_a_refusal_goes_to_another_process_with_its_cause(error: Exception) -> None:
    refused = refusal(error)
    sent = pickle.loads(pickle.dumps(refused))
    assert str(sent) == str(refused)
    cause = sent.__cause__
    assert type(cause) is (KeyError if isinstance(error, KeyError) else RuntimeError)
    assert "in refusal\n    raise error\n" in cause.__notes__[0]


def test_the_line_is_the_users_and_no_librarys() -> None:
    with pytest.raises(RuntimeError) as failed:
        functional.linear(torch.zeros(2), torch.zeros(3, 3))
    line = user_line(failed.value)
    assert line is not None
    assert line.code == "functional.linear(torch.zeros(2), torch.zeros(3, 3))"
    assert user_line(KeyError("never raised")) is None
