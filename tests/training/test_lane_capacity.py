"""How many lanes fit, by arithmetic for an H200, and by trying on a GPU that is there."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from favano.models.norm import BatchNorm2d
from favano.training import LaneMaker, LaneStack, LocalRule, Work
from favano.training.lane_capacity import LaneMemory, StackSize, lanes_that_fit
from tests.training.test_stack_lanes import perceptron, trainers, with_batch_norm

GIGA, MEGA = 10**9, 10**6
RESNET_18, RESNET_20 = 45 * MEGA, 1.1 * MEGA


def test_resnet_18_leaves_room_for_its_activations() -> None:
    """2.7 GB of activations and copies a lane: eight lanes a launch, not 32."""
    needs = LaneMemory(kept=6 * RESNET_18, launch=2700 * MEGA)
    fit = lanes_that_fit(114 * GIGA, needs, widest=32)
    assert fit == StackSize(capacity=256, widest=8)
    assert fit.capacity * needs.kept + 2 * fit.widest * needs.launch < 114 * GIGA


def test_resnet_20_has_all_its_lanes() -> None:
    needs = LaneMemory(kept=int(6 * RESNET_20), launch=400 * MEGA)
    assert lanes_that_fit(130 * GIGA, needs, widest=32) == StackSize(2048, 32)


def test_launches_of_half_of_the_lanes_count_with_each_lane() -> None:
    needs = LaneMemory(kept=600_000, launch=1_200_000)
    assert lanes_that_fit(100 * GIGA, needs, widest=None) == StackSize(2048, 1024)
    assert lanes_that_fit(GIGA, needs, widest=None) == StackSize(512, 256)


@pytest.mark.parametrize("room", [-5, 0, 10])
def test_there_is_always_a_lane(room: int) -> None:
    for widest in (None, 32):
        assert lanes_that_fit(room, LaneMemory(7, 9), widest=widest) == StackSize(1, 1)


def test_lanes_are_halved_until_a_launch_goes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of memory, or too many numbers for a kernel."""
    rules = [LocalRule(), LocalRule()]
    both = trainers(perceptron(), raw=False, loss=functional.cross_entropy, rules=rules)
    maker = LaneMaker(both[0].model, both)

    def launch(stack: LaneStack) -> None:
        if stack.capacity > 6:
            raise RuntimeError("numel: integer multiplication overflow")

    monkeypatch.setattr(LaneStack, "try_launch", launch)
    assert maker.at_most(32).capacity == 4


@pytest.mark.gpu
@pytest.mark.parametrize("make", [perceptron, with_batch_norm])
def test_what_fits_is_seen_in_a_small_launch(make: object) -> None:
    assert callable(make)
    rules = [LocalRule(), LocalRule()]
    loss = functional.cross_entropy
    both = trainers(make(), raw=False, loss=loss, rules=rules, device="cuda")
    maker = LaneMaker(both[0].model, both, ahead=4)
    many = maker.fitting(2 * GIGA)
    few = maker.fitting(MEGA)
    assert many.capacity == 2048
    assert few.capacity < 128


def wide() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 256, 3), BatchNorm2d(256), nn.ReLU(), nn.Flatten(), nn.Linear(4096, 4)
    )


def one_stack(device: str) -> LaneStack:
    """A stack of 64 lanes."""
    rules, loss = [LocalRule(), LocalRule()], functional.cross_entropy
    both = trainers(wide(), raw=False, loss=loss, rules=rules, device=device)
    return LaneStack(both[0].model, both, 64)


def launch(stack: LaneStack, count: int) -> None:
    """One step of so many lanes, twice, so that it is captured."""
    lanes = np.arange(count)
    zeros = np.zeros_like(lanes)
    for _ in range(2):
        models = stack._lanes.models[:count].clone()
        stack.load(lanes, models, zeros, Work(zeros, zeros, zeros + 1, np.full(count, 0.1)))
        stack.launch().finite()


class Noted:
    """Graphs that are not captured, and the order in which they would be."""

    def __init__(self) -> None:
        self.shapes, self.warm = list[Hashable](), set[Hashable]()

    def __contains__(self, shape: Hashable) -> bool:
        return self.shapes.count(shape) > 1

    def run(self, shape: Hashable, launch: Callable[..., None], *given: Tensor, warm: bool) -> None:
        self.shapes.append(shape)
        self.warm |= {shape} if warm else set()
        launch(*given)


def test_the_widest_launch_is_captured_first() -> None:
    stack, noted = one_stack("cpu"), Noted()
    stack._captured = noted  # type: ignore[assignment]
    launch(stack, 5)
    launch(stack, 3)
    widths = [shape[0] for shape in noted.shapes if isinstance(shape, tuple) and shape[1] == 8]
    assert widths == [64, 64, 8, 8, 4, 4]
    assert noted.warm == {(8, 8), (4, 8)}  # the same libraries as in the widest


@pytest.mark.gpu
def test_narrow_launches_find_room_in_the_widest() -> None:
    """Graphs share their memory, though launches become wider and wider."""
    stack = one_stack("cuda")

    def reserved() -> int:
        torch.cuda.empty_cache()
        return torch.cuda.memory_reserved()

    before = reserved()
    launch(stack, 4)
    first = reserved() - before
    for count in range(8, 65, 4):
        launch(stack, count)
    assert reserved() - before < 1.5 * first
