"""A choice of kernels is made once, and kept where it can be kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from favano.models import BatchNorm2d
from favano.training import FlatModel, choice, chosen_kernels, default_kernels
from favano.types import Kernels
from tests.training.test_traced import images, task


class Scripted:
    """Measures nothing, and finds something else every time."""

    def __init__(self, *found: Kernels) -> None:
        self.found, self.times = found, 0

    def __call__(self, *given: object) -> Kernels:
        self.times += 1
        return self.found[(self.times - 1) % len(self.found)]


@pytest.fixture
def scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scripted:
    found = Scripted("channels-last", "native", "onednn")
    monkeypatch.setattr(choice, "fastest", found)
    monkeypatch.setattr(choice, "library_there", lambda: True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return found


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
        found = chosen_kernels(model(), DATA)
        assert json.loads(path.read_text())["kernels"] == found == chosen_kernels(model(), DATA)
    assert scripted.times == 4


def test_of_two_who_measure_at_once_the_first_is_right(
    scripted: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(*given: object) -> Kernels:
        monkeypatch.setattr(choice, "fastest", scripted)
        chosen_kernels(model(), DATA)  # another process: finds channels-last
        return "native"

    monkeypatch.setattr(choice, "fastest", meanwhile)
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
    monkeypatch.setattr(choice, "library_there", lambda: False)
    assert chosen_kernels(model(), DATA) == default_kernels()
    assert scripted.times == 0
