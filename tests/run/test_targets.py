"""Which targets are classes, and what becomes of the others."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from favano.errors import BadInput
from favano.run.targets import as_targets


def own_loss(output: Tensor, targets: Tensor) -> Tensor:
    return (output - targets).square().mean()


def test_classes_are_counted_in_train_and_test() -> None:
    parts = as_targets(torch.tensor([0, 2], dtype=torch.uint8), torch.tensor([4]), torch.half, None)
    assert (parts.classes, parts.train.dtype, parts.test.dtype) == (5, torch.int64, torch.int64)
    assert as_targets(torch.tensor([4]), torch.tensor([0]), torch.half, None).classes == 5


@pytest.mark.parametrize(("train", "test"), [([-1], [0]), ([0], [-1])])
def test_negative_labels_need_a_loss(train: list[int], test: list[int]) -> None:
    """With one, they are numbers and not classes."""
    given = torch.tensor(train), torch.tensor(test), torch.float32
    with pytest.raises(BadInput, match=r"^train=-1: need labels from 0 on$"):
        as_targets(*given, None)
    assert as_targets(*given, own_loss).classes == 0


def test_booleans_are_two_classes_or_numbers_of_a_loss() -> None:
    given = torch.tensor([True, False]), torch.tensor([True]), torch.float64
    assert as_targets(*given, None).classes == 2
    parts = as_targets(*given, own_loss)
    assert (parts.classes, parts.train.tolist(), parts.test.dtype) == (0, [1, 0], torch.float64)


def test_floats_take_the_type_of_the_inputs_if_those_are_floats() -> None:
    given = torch.tensor([0.5]), torch.tensor([1.5])
    assert as_targets(*given, torch.float64, own_loss).train.dtype == torch.float64
    assert as_targets(*given, torch.int64, own_loss).train.dtype == torch.float32
    with pytest.raises(BadInput, match="need whole numbers as labels; other targets need a loss"):
        as_targets(*given, torch.float64, None)
    with pytest.raises(BadInput, match="need targets like those of train"):
        as_targets(given[0], torch.tensor([[1.5]]), torch.float64, own_loss)
