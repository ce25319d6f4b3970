"""Networks for texts in stacked lanes against the plain loop: whole numbers are embedded."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from favano.data import BatchStream
from favano.models import build, transformer
from favano.training import (
    FlatModel,
    LaneStack,
    LocalRule,
    LoopTrainer,
    StackLanes,
    Task,
    check_fit,
)

from .test_stack_lanes import check_ends, shifted


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("name", ["transformer"])
def test_texts_in_lanes_equal_the_loop(
    name: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transformer, "_WIDTH", 16)
    torch.manual_seed(0)
    network = build(name, input_shape=(5,), classes=11)
    flat = FlatModel(network, device=device, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    texts = torch.randint(0, 11, (90, 5), generator=generator, dtype=torch.uint8).to(device)
    labels = torch.randint(0, 11, (90,), generator=generator).to(device)
    parts = [np.arange(0, 23), np.arange(23, 40), np.arange(40, 90)]
    loss = functional.cross_entropy
    tasks = [Task(texts, labels, BatchStream(parts, 8, seed), loss) for seed in (1, 2)]
    check_fit(flat, tasks[0], classes=11)
    both = [LoopTrainer(flat, task, LocalRule()) for task in tasks]
    check_ends(StackLanes([LaneStack(flat, both, capacity=4)]), both, shifted(flat.snapshot()))
