"""Kernels are chosen by processor time, scripted here, once, and the choice is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from favano.models import BatchNorm2d
from favano.training import FlatModel, chosen_kernels, default_kernels, kernel_choice
from favano.training.kernel_choice import candidates, fastest_kernels
from favano.types import Kernels
from tests.training.clock import Clock
from tests.training.test_gradient_trace import images, task


class Scripted:
    """Measures nothing, and finds something else every time."""

    def __init__(self, *choices: Kernels) -> None:
        self.found, self.times = choices, 0

    def __call__(self, *given: object) -> Kernels:
        self.times += 1
        return self.found[(self.times - 1) % len(self.found)]


@pytest.fixture
def scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scripted:
    script = Scripted("channels-last", "native", "onednn")
    monkeypatch.setattr(kernel_choice, "fastest_kernels", script)
    monkeypatch.setattr(kernel_choice, "library_there", lambda: True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return script


def model() -> FlatModel:
    return FlatModel(images(BatchNorm2d(4)), device="cpu")


DATA = task(torch.float32)


def test_a_choice_is_made_once(scripted: Scripted, tmp_path: Path) -> None:
    assert [chosen_kernels(model(), DATA) for _ in range(3)] == ["channels-last"] * 3
    assert scripted.times == 1
    (path,) = (tmp_path / "favano" / "kernels").iterdir()
    kept = json.loads(path.read_text())
    assert (kept["kernels"], kept["torch"]) == ("channels-last", torch.__version__)
    assert kept["batch"] == [6, 3, 8, 8]


def test_what_decides_has_a_choice_of_its_own(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = chosen_kernels(model(), DATA)
    double = FlatModel(images(BatchNorm2d(4)), device="cpu", dtype=torch.float64)
    assert chosen_kernels(double, DATA) != first
    chosen_kernels(FlatModel(images(nn.GroupNorm(2, 4)), device="cpu"), DATA)
    monkeypatch.setattr(torch, "__version__", "0.0")
    chosen_kernels(model(), DATA)
    assert scripted.times == 4


def test_a_damaged_file_is_replaced(scripted: Scripted, tmp_path: Path) -> None:
    chosen_kernels(model(), DATA)
    (path,) = (tmp_path / "favano" / "kernels").iterdir()
    for text in ("", "[]", '{"kernels": "magic"}'):
        path.write_text(text)
        chosen = chosen_kernels(model(), DATA)
        assert json.loads(path.read_text())["kernels"] == chosen == chosen_kernels(model(), DATA)
    assert scripted.times == 4


def test_of_two_who_measure_at_once_the_first_is_right(
    scripted: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(*given: object) -> Kernels:
        monkeypatch.setattr(kernel_choice, "fastest_kernels", scripted)
        chosen_kernels(model(), DATA)  # another process: finds channels-last
        return "native"

    monkeypatch.setattr(kernel_choice, "fastest_kernels", meanwhile)
    assert chosen_kernels(model(), DATA) == "channels-last"
    assert len(list((tmp_path / "favano" / "kernels").iterdir())) == 1


def test_where_nothing_can_be_kept_nothing_is_measured(
    scripted: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))  # a folder cannot be made here
    assert chosen_kernels(model(), DATA) == default_kernels()
    assert scripted.times == 0


def test_where_files_cannot_be_linked_they_are_renamed(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    assert [chosen_kernels(model(), DATA) for _ in range(2)] == ["channels-last"] * 2
    assert scripted.times == 1


def test_without_the_library_there_is_no_choice(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_choice, "library_there", lambda: False)
    assert chosen_kernels(model(), DATA) == default_kernels()
    assert scripted.times == 0


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
    monkeypatch.setattr(kernel_choice, "_step", costs(clock, seconds, seen))
    model = FlatModel(images(BatchNorm2d(4)), device="cpu")
    start = model.snapshot()
    others: list[Kernels] = ["native", "channels-last"]
    assert fastest_kernels(model, task(torch.float32), "onednn", others, clock) == best
    assert torch.equal(model.snapshot(), start)
    looks = {name: sum(kernels == name for kernels, _ in seen) for name in seconds}
    assert looks["native"] == 2 or seconds["native"] < 2  # hopeless: not looked at again


def test_what_is_faster_now_and_then_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: dict[str, list[float]] = {"onednn": [1.0, 2.0, 2.0], "native": [1.2, 0.9, 0.9]}
    monkeypatch.setattr(kernel_choice, "processor_seconds", lambda steps, clock: taken)
    model = FlatModel(nn.Sequential(nn.Flatten(), nn.Linear(192, 5)), device="cpu")
    data = task(torch.float32)
    assert fastest_kernels(model, data, "onednn", ["native"]) == "onednn"
    taken["native"][0] = 0.9
    assert fastest_kernels(model, data, "onednn", ["native"]) == "native"


def test_a_machine_may_become_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts is the time within a round."""
    taken = {"onednn": [1.0, 1.0, 2.0], "native": [0.7, 0.7, 1.4]}
    monkeypatch.setattr(kernel_choice, "processor_seconds", lambda steps, clock: taken)
    model = FlatModel(nn.Sequential(nn.Flatten(), nn.Linear(192, 5)), device="cpu")
    assert fastest_kernels(model, task(torch.float32), "onednn", ["native"]) == "native"


def test_of_a_long_batch_a_part_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, seen = Clock(), list[tuple[str, int]]()
    model, data = FlatModel(nn.Linear(2, 2), device="cpu"), task(torch.float32)
    monkeypatch.setattr(kernel_choice, "_PART", 6)
    monkeypatch.setattr(kernel_choice, "_step", costs(clock, {"onednn": 0.1, "native": 0.12}, seen))
    fastest_kernels(model, data, "onednn", ["native"], clock)
    assert {length for _, length in seen} == {1}  # 6, 3, 1
    seen.clear()
    monkeypatch.setattr(kernel_choice, "_LONGEST", 0.35)
    fastest_kernels(model, data, "onednn", ["native"], clock)
    assert {length for _, length in seen} == {1, 3}


def test_a_network_that_insists_on_its_layout_is_left_alone() -> None:
    class Views(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Conv2d(3, 4, 3), nn.Linear(4 * 36, 5)

        def forward(self, inputs: Tensor) -> Tensor:
            outputs: Tensor = self.last(self.first(inputs).view(len(inputs), -1))
            return outputs

    model, data = FlatModel(Views(), device="cpu"), task(torch.float32)
    assert fastest_kernels(model, data, "onednn", ["channels-last"], Clock(look=0.1)) == "onednn"


def test_channels_last_is_tried_where_there_are_convolutions() -> None:
    flat = nn.Sequential(nn.Flatten(), nn.Linear(192, 5))
    data = task(torch.float32)
    model = FlatModel(images(BatchNorm2d(4)), device="cpu")
    assert candidates(model, data, "onednn") == ["native", "channels-last"]
    assert candidates(model, data, "native") == ["onednn", "channels-last"]
    assert candidates(FlatModel(flat, device="cpu"), data, "onednn") == ["native"]
