"""What is taken is what takes the least time, scripted here; nothing is changed by measuring."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from favano.models import BatchNorm2d
from favano.training import FlatModel, measured
from favano.training.measured import candidates, fastest, sampled
from favano.types import Kernels
from tests.training.clock import Clock
from tests.training.test_traced import images, task


def costs(
    clock: Clock, seconds: dict[str, float], seen: list[tuple[str, int]]
) -> Callable[..., None]:
    """A step that takes so long a sample with each of the kernels."""

    def step(
        model: FlatModel, loss: object, features: Tensor, labels: Tensor, kernels: Kernels
    ) -> None:
        clock.now += seconds[kernels] * len(features)
        seen.append((kernels, len(features)))
        model.vector.add_(1.0)

    return step


@pytest.mark.parametrize(
    ("seconds", "best"),
    [
        ({"onednn": 1.0, "native": 2.5, "channels-last": 0.8}, "channels-last"),
        ({"onednn": 1.0, "native": 0.7, "channels-last": 0.8}, "native"),
        ({"onednn": 1.0, "native": 0.95, "channels-last": 0.92}, "onednn"),  # not clearly
        ({"onednn": 1.0, "native": 2.5, "channels-last": 1.2}, "onednn"),
        ({"onednn": 3.0, "native": 1.0, "channels-last": 2.5}, "native"),
    ],
)
def test_the_fastest_is_taken_if_it_clearly_is(
    seconds: dict[str, float], best: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, seen = Clock(), list[tuple[str, int]]()
    monkeypatch.setattr(measured, "_step", costs(clock, seconds, seen))
    model = FlatModel(images(BatchNorm2d(4)), device="cpu")
    start = model.snapshot()
    others: list[Kernels] = ["native", "channels-last"]
    assert fastest(model, task(torch.float32), "onednn", others, clock) == best
    assert torch.equal(model.snapshot(), start)
    looks = {name: sum(one == name for one, _ in seen) for name in seconds}
    assert looks["native"] == 2 or seconds["native"] < 2  # hopeless: not looked at again


def test_what_is_faster_now_and_then_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: dict[str, list[float]] = {"onednn": [1.0, 2.0, 2.0], "native": [1.2, 0.9, 0.9]}
    monkeypatch.setattr(measured, "sampled", lambda steps, clock: taken)
    model = FlatModel(nn.Sequential(nn.Flatten(), nn.Linear(192, 5)), device="cpu")
    data = task(torch.float32)
    assert fastest(model, data, "onednn", ["native"]) == "onednn"
    taken["native"][0] = 0.9
    assert fastest(model, data, "onednn", ["native"]) == "native"


def test_of_a_long_batch_a_part_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, seen = Clock(), list[tuple[str, int]]()
    model, data = FlatModel(nn.Linear(2, 2), device="cpu"), task(torch.float32)
    monkeypatch.setattr(measured, "_PART", 6)
    monkeypatch.setattr(measured, "_step", costs(clock, {"onednn": 0.1, "native": 0.12}, seen))
    fastest(model, data, "onednn", ["native"], clock)
    assert {length for _, length in seen} == {1}  # 6, 3, 1
    seen.clear()
    monkeypatch.setattr(measured, "_LONGEST", 0.35)
    fastest(model, data, "onednn", ["native"], clock)
    assert {length for _, length in seen} == {1, 3}


def test_short_steps_are_repeated() -> None:
    clock, counts = Clock(), {"short": 0, "long": 0}

    def work(name: str, seconds: float) -> Callable[[], None]:
        def step() -> None:
            counts[name] += 1
            clock.now += seconds

        return step

    found = sampled({"short": work("short", 0.0005), "long": work("long", 0.1)}, clock)
    assert found == {"short": pytest.approx([0.0005] * 3), "long": pytest.approx([0.1] * 3)}
    assert counts["long"] == 4
    assert counts["short"] >= 3 * 50


def test_a_network_that_insists_on_its_layout_is_left_alone() -> None:
    class Views(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Conv2d(3, 4, 3), nn.Linear(4 * 36, 5)

        def forward(self, inputs: Tensor) -> Tensor:
            outputs: Tensor = self.last(self.first(inputs).view(len(inputs), -1))
            return outputs

    model, data = FlatModel(Views(), device="cpu"), task(torch.float32)
    assert fastest(model, data, "onednn", ["channels-last"], Clock(look=0.1)) == "onednn"


def test_channels_last_is_tried_where_there_are_convolutions() -> None:
    flat = nn.Sequential(nn.Flatten(), nn.Linear(192, 5))
    data = task(torch.float32)
    model = FlatModel(images(BatchNorm2d(4)), device="cpu")
    assert candidates(model, data, "onednn") == ["native", "channels-last"]
    assert candidates(model, data, "native") == ["onednn", "channels-last"]
    assert candidates(FlatModel(flat, device="cpu"), data, "onednn") == ["native"]
