"""Inputs of the lanes against those of the plain loop: the same bits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from favano.data import BatchStream, Preprocessing
from favano.data.transforms import byte_table, to_float
from favano.training import Task
from favano.training.lane_inputs import LaneInputs
from favano.training.roster import make_roster

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
PREPROCESSINGS = {
    "floats": None,
    "scaled": Preprocessing(255.0),
    "normalised": Preprocessing(255.0, MEAN, STD),
    "one mean": Preprocessing(16.0, (0.3,), (0.7,)),
    "cropped": Preprocessing(255.0, MEAN, STD, crop_padding=2),
    "flipped": Preprocessing(255.0, flip=True),
    "both": Preprocessing(255.0, MEAN, STD, crop_padding=3, flip=True),
    "tokens": Preprocessing(1.0, tokens=True),
}
EVERY = pytest.mark.parametrize("steps", PREPROCESSINGS.values(), ids=PREPROCESSINGS)
PLACES = [(0, 0), (1, 5), (2, 3), (0, 7)]  # client and step of each lane


def make_task(steps: Preprocessing | None, device: str, dtype: torch.dtype = torch.uint8) -> Task:
    generator = torch.Generator().manual_seed(0)
    features = torch.randint(0, 256, (60, 3, 5, 7), generator=generator).to(dtype)
    if steps is None:
        features = torch.randn(features.shape, generator=generator)
    parts = [np.arange(0, 20), np.arange(20, 36), np.arange(36, 60)]
    batches = BatchStream(parts, 4, 1)
    return Task(features.to(device), torch.zeros(60, device=device), batches, preprocessing=steps)


def inputs_of(task: Task, *, half: bool = False) -> Tensor:
    """The inputs of all lanes at once."""
    device = task.features.device
    roster = make_roster([task.batches], device)
    chosen = np.stack([task.batches.indices(client, step, 1) for client, step in PLACES])
    rows, steps = torch.tensor(PLACES, device=device).T
    inputs = LaneInputs(task, roster, torch.zeros(1, device=device), half=half)
    return inputs.of(torch.from_numpy(chosen).to(device), rows, steps)


def check(task: Task) -> None:
    wanted = torch.stack([task.batch(*place, torch.float32)[0] for place in PLACES])
    inputs, rounded = inputs_of(task), inputs_of(task, half=True)
    assert inputs.dtype == wanted.dtype
    assert torch.equal(inputs, wanted)
    if wanted.is_floating_point():
        assert rounded.dtype == torch.bfloat16
        assert torch.equal(rounded, wanted.bfloat16())
    else:
        assert torch.equal(rounded, wanted)


@EVERY
def test_inputs_of_lanes_are_those_of_the_loop(steps: Preprocessing | None) -> None:
    check(make_task(steps, "cpu"))


@pytest.mark.gpu
@EVERY
def test_inputs_of_lanes_are_those_of_the_loop_on_cuda(steps: Preprocessing | None) -> None:
    check(make_task(steps, "cuda"))


@pytest.mark.gpu
def test_raw_images_without_a_kernel_on_cuda() -> None:
    """Images of floats, and images whose channels are last in memory."""
    check(make_task(PREPROCESSINGS["both"], "cuda", torch.float32))
    task = make_task(PREPROCESSINGS["both"], "cuda")
    last = task.features.contiguous(memory_format=torch.channels_last)
    check(Task(last, task.labels, task.batches, preprocessing=task.preprocessing))


@pytest.mark.parametrize("name", ["scaled", "normalised", "one mean"])
def test_a_table_of_bytes_has_the_bits_of_scaling(name: str) -> None:
    steps = PREPROCESSINGS[name]
    assert steps is not None
    images = torch.randint(0, 256, (50, 3, 4, 6), dtype=torch.uint8)
    table = byte_table(steps, images, torch.float32)
    channel = torch.arange(3)[:, None, None]
    assert torch.equal(table[channel, images.long()], to_float(images, steps))
