"""The user's targets: classes, or numbers of any shape."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from favano.errors import require
from favano.training import IGNORED, Loss


class Targets(NamedTuple):
    """Targets of the training and of the test set."""

    train: Tensor  # (N, ...)
    test: Tensor  # (M, ...)
    classes: int  # 0: they are not classes


def as_targets(train: Tensor, test: Tensor, inputs: torch.dtype, loss: Loss | None) -> Targets:
    """Whole numbers from 0 on are classes; everything else needs a loss of the user's own.

    In classes, -100 is a label that counts nowhere.

    Floats, and with such a loss also booleans, become numbers of the type of the inputs, so that
    they fit the outputs of a network.
    """
    whole = not (train.is_floating_point() or train.is_complex())
    rule = "need whole numbers as labels; other targets need a loss, as favano.Problem(..., loss=f)"
    require(whole or loss is not None, "train", train.dtype, rule)
    rule = f"need targets like those of train, {_described(train)}"
    require(_described(test) == _described(train), "test", _described(test), rule)
    if train.is_complex():
        return Targets(train, test.to(train.dtype), 0)
    if not whole or (loss is not None and train.dtype == torch.bool):
        number = inputs if inputs.is_floating_point else torch.float32
        return Targets(train.to(number), test.to(number), 0)
    train, test = train.long(), test.long()
    parts = [train, test]
    if loss is None or loss is functional.cross_entropy or _ignores(loss):
        parts = [_counted(name, part) for name, part in (("train", train), ("test", test))]
    lowest = int(min(part.min() for part in parts))
    require(lowest >= 0 or loss is not None, "train", lowest, "need labels from 0 on")
    classes = int(max(part.max() for part in parts)) + 1 if lowest >= 0 else 0
    return Targets(train, test, classes)


def _ignores(loss: Loss) -> bool:
    return isinstance(loss, nn.CrossEntropyLoss) and loss.ignore_index == IGNORED


def _counted(name: str, labels: Tensor) -> Tensor:
    """The labels that count; refused where a sample has none, whose mean loss would be NaN."""
    counts = labels != IGNORED
    if bool(counts.all()):
        return labels
    check_counted(name, labels)
    return labels[counts]


def check_counted(name: str, labels: Tensor) -> None:
    """Refuse samples without a label that counts."""
    there = (labels != IGNORED).reshape(len(labels), -1).any(dim=1)
    rule = f"has no label but {IGNORED}: nothing can be learnt from it; remove it"
    require(bool(there.all()), name, f"sample {int(there.long().argmin())}", rule)


def _described(targets: Tensor) -> str:
    kind = "floats" if targets.is_floating_point() else "whole numbers"
    kind = "complex numbers" if targets.is_complex() else kind
    kind = "booleans" if targets.dtype == torch.bool else kind
    return f"{kind} of shape {tuple(targets.shape[1:])}"
