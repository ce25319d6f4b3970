"""Chains of server transforms: their order, and own ones that cannot be used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import favano
from favano.aggregation import ServerChain
from favano.errors import BadInput
from favano.methods import ClientUpdates
from favano.methods.fedavg import FedAvg
from favano.methods.fedbuff import FedBuff
from favano.transforms import as_transform
from favano.types import Stack, Vector
from tests.methods.bound import bound

DELTAS = torch.tensor([[1.0], [2.0], [9.0]], dtype=torch.float64)
WEIGHT = np.full(3, 1 / 3)


def updates() -> ClientUpdates:
    client, start = np.arange(3), torch.full((3, 1), 7.0, dtype=torch.float64)
    return ClientUpdates(client, client + 1, client, np.ones(3), 0, start, start + DELTAS)


def transformed(*texts: str) -> list[float]:
    """Deltas after these transforms."""
    chain = ServerChain(bound(FedAvg(), selected=3), [as_transform(text) for text in texts])
    end = chain.deltas(chain.init(torch.zeros(1)), updates(), WEIGHT)[0].end
    return [float(value) for value in (end - updates().start).flatten()]


def test_deltas_are_transformed_in_the_order_of_the_list() -> None:
    assert transformed("clip:1.5") == pytest.approx([1.0, 1.5, 1.5])
    assert transformed("median") == pytest.approx([2.0] * 3)
    assert transformed("clip:5", "mine") == pytest.approx([2.0, 4.0, 10.0])
    assert transformed("mine", "clip:5") == pytest.approx([2.0, 4.0, 5.0])


@pytest.fixture(autouse=True)
def _mine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transform that doubles, by the name `mine`."""
    from favano.transforms import registry

    usual = registry.transform_class
    monkeypatch.setattr(
        registry, "transform_class", lambda name: Twice if name == "mine" else usual(name)
    )


class Twice(favano.ServerTransform[tuple[()]]):
    """Doubles deltas."""

    def deltas(self, state: Any, deltas: Stack, updates: ClientUpdates) -> Any:
        return 2 * deltas, state


class Squares(favano.ServerTransform[int]):
    """Squares steps, and counts them."""

    def init(self, model: Vector) -> int:
        return 0

    def step(self, state: int, step: Vector) -> tuple[Vector, int]:
        return step * step, state + 1


def test_steps_are_transformed_in_the_order_of_the_list() -> None:
    half, before, after = favano.momentum(0.0, rate=0.5), torch.zeros(1), torch.full((1,), 4.0)
    for chain, expected in (([half, Squares()], 4.0), ([Squares(), half], 8.0)):
        made = ServerChain(bound(FedAvg(), selected=3), [as_transform(part) for part in chain])
        model, states = made.step(made.init(before), before, after)
        assert float(model) == expected
        assert 1 in states


def test_a_delta_that_is_left_alone_is_left_to_the_bit() -> None:
    weight, given = np.array([0.1, 0.7, 0.3]), updates()
    chain = ServerChain(bound(FedAvg(), selected=3), [as_transform("clip:3")])
    end = chain.deltas(((),), given, weight)[0].end
    assert torch.equal(end[0], given.end[0])
    assert not torch.equal(end[2], given.end[2])


def test_what_is_far_too_long_is_clipped_and_does_not_overflow() -> None:
    start = torch.zeros(3, 2)
    lie = torch.full((3, 2), 3e38)
    given = ClientUpdates(*(np.ones(3, np.int64),) * 3, np.ones(3), 0, start, lie)
    chain = ServerChain(bound(FedAvg(), selected=3), [as_transform("clip:3")])
    assert bool(chain.deltas(((),), given, np.full(3, 10.0))[0].end.isfinite().all())


@dataclass
class Wrong:
    """A class of a user's, and what is said of it."""

    body: dict[str, Any]
    said: str


def changes(self: Any, state: Any, step: Any) -> Any:
    step += 1
    return step, state


def remembers(self: Any, state: Any, step: Any) -> Any:
    type(self).calls = getattr(type(self), "calls", 0) + 1
    return step + type(self).calls, state


WRONG = {
    "shape": Wrong(
        {"step": lambda self, state, step: (step[:2], state)},
        r"server=own: step returns numbers of shape \(2,\); need \(5,\)",
    ),
    "rows": Wrong(
        {"deltas": lambda self, state, deltas, updates: (deltas.mean(0), state)},
        r"server=own: deltas returns numbers of shape \(5,\); need \(3, 5\)",
    ),
    "infinite": Wrong(
        {"step": lambda self, state, step: (step / 0, state)},
        "server=own: step makes NaN or infinity of finite numbers",
    ),
    "inputs": Wrong({"step": changes}, "server=own: changes its inputs in step"),
    "random": Wrong({"step": remembers}, "server=own: gives another result for the same inputs"),
    "no state": Wrong(
        {"step": lambda self, state, step: step},
        "server=own: step must return a pair of a tensor and the next state",
    ),
    "raises": Wrong(
        {"step": lambda self, state, step: step + state.mean},
        "server=own: step raises AttributeError",
    ),
    "init": Wrong(
        {"init": lambda self, model: model.nothing, "step": Squares.step},
        "server=own: init raises AttributeError",
    ),
    "nothing": Wrong({}, "server=own: has neither deltas nor step"),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_own_transform_that_cannot_be_used_is_refused_by_its_name(name: str) -> None:
    def run() -> None:
        own = type("Own", (favano.ServerTransform,), WRONG[name].body)()
        favano.simulate("fedavg", "digits", server=[own], horizon=40, selected=3)

    with pytest.raises(BadInput, match=WRONG[name].said):
        run()


def test_one_that_divides_by_zero_later_is_refused_then() -> None:
    def late(self: Any, state: int, step: Any) -> Any:
        return (step / 0 if state == 3 else step), state + 1

    own = type("Late", (favano.ServerTransform,), {"init": lambda *_: 0, "step": late})()
    with pytest.raises(BadInput, match="server=late: step makes NaN or infinity"):
        favano.simulate("fedavg", "digits", server=[own], horizon=900, selected=2, local_steps=2)


def test_what_acts_on_deltas_comes_before_what_acts_on_the_step() -> None:
    method = bound(FedBuff(buffer=3), selected=3)
    adam, clip, both = map(as_transform, ("adam", "clip:1", Twice()))
    ServerChain(method, [clip, both, adam])
    rule = "server=clip: changes client deltas, which come before the step: put it before adam"
    for chain in ([adam, clip], [both, adam, clip]):
        with pytest.raises(BadInput, match=rule):
            ServerChain(method, chain)
