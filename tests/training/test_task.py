"""Mini-batches are the same whether their samples are copied one batch at a time or many."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from favano.data import BatchStream, Preprocessing
from favano.data.batches import Order
from favano.data.transforms import augment, augmentation_draws, to_float
from favano.training import FlatModel, Job, LocalRule, LoopTrainer, Task, task

ORDERS: tuple[Order, ...] = ("epoch", "continuous", "replacement")
PARTS = [np.arange(0, 23), np.arange(23, 40)]
SHAPE, BATCH, STEPS = (1, 4, 8), 8, 11
KINDS = (
    "float32",
    "float64",
    "integers",
    "not aligned",
    "not contiguous",
    "memory-mapped",
    "scaled",
    "augmented",
)


def features(kind: str, folder: Path) -> Tensor:
    numbers = torch.randint(0, 256, (40, *SHAPE), generator=torch.Generator().manual_seed(2))
    if kind in ("scaled", "augmented"):
        return numbers.to(torch.uint8)
    if kind == "memory-mapped":
        np.save(folder / "features.npy", numbers.float().numpy())
        return torch.from_numpy(np.load(folder / "features.npy", mmap_mode="c"))
    by_kind = {
        "float32": numbers.float(),
        "float64": numbers.double(),
        "integers": numbers,
        "not aligned": numbers.float()[..., :7].contiguous(),
        "not contiguous": numbers.float().transpose(0, 3).contiguous().transpose(0, 3),
    }
    return by_kind[kind]


def make_task(kind: str, order: Order, folder: Path) -> Task:
    preprocessing = {
        "scaled": Preprocessing(scale=255.0, mean=(0.5,), std=(0.3,)),
        "augmented": Preprocessing(scale=255.0, crop_padding=1, flip=True),
    }.get(kind)
    labels = torch.arange(40) % 3
    stream = BatchStream(PARTS, BATCH, seed=3, order=order)
    return Task(features(kind, folder), labels, stream, preprocessing=preprocessing)


def written_out(data: Task, client: int, step: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    chosen = torch.from_numpy(data.batches.indices(client, step))
    inputs, how = data.features[chosen], data.preprocessing
    if how is not None and how.augments:
        draws = augmentation_draws(data.batches.seed, client, step, len(chosen))
        inputs = augment(inputs, how, torch.from_numpy(draws).float())
    return inputs if how is None else to_float(inputs, how, dtype), data.labels[chosen]


@pytest.mark.parametrize("at_once", [1, 3 * BATCH * 4 * 32, 2**23])  # bytes: 1, 3, all batches
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", KINDS)
def test_batches_of_many_steps_are_those_of_each_step(
    kind: str, order: Order, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "_AT_ONCE", at_once)
    data, dtype = make_task(kind, order, tmp_path), torch.float32
    for client, first in ((0, 0), (1, 5)):
        steps = first
        for batches in data.runs(client, first, STEPS, dtype):
            assert len({samples.shape for samples, _ in batches}) == 1
            for samples, labels in batches:
                inputs, wanted = written_out(data, client, steps, dtype)
                assert samples.dtype == inputs.dtype
                assert torch.equal(samples, inputs)
                assert torch.equal(labels, wanted)
                assert torch.equal(data.batch(client, steps, dtype)[0], inputs)
                steps += 1
        assert steps == first + STEPS


def test_few_samples_are_in_memory_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A copy has at most `_AT_ONCE` bytes, or one batch; inputs are always aligned."""
    sample, batches = 4 * 32, []
    monkeypatch.setattr(task, "_AT_ONCE", 3 * BATCH * sample)
    for kind, most in (("float32", 3), ("not aligned", 1)):
        data = make_task(kind, "continuous", tmp_path)
        runs = list(data.runs(0, 0, STEPS, torch.float32))
        assert [len(run) for run in runs] == [most] * (STEPS // most) + [2] * (most == 3)
        batches += [features for run in runs for features, _ in run]
    assert max(batch.untyped_storage().nbytes() for batch in batches) == 3 * BATCH * sample
    assert {batch.data_ptr() % 64 for batch in batches} == {0}


@pytest.mark.parametrize("kind", ["float32", "float64", "augmented", "not aligned"])
def test_a_job_ends_in_the_same_bits_however_samples_are_copied(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = make_task(kind, "epoch", tmp_path)
    dtype = torch.float64 if kind == "float64" else torch.float32
    torch.manual_seed(1)
    inputs = data.features[0].numel()
    flat = FlatModel(nn.Sequential(nn.Flatten(), nn.Linear(inputs, 3)), device="cpu", dtype=dtype)
    trainer, start = LoopTrainer(flat, data, LocalRule()), flat.snapshot()
    ends = []
    for at_once in (1, 3 * BATCH * 4 * 32, 2**23):
        monkeypatch.setattr(task, "_AT_ONCE", at_once)
        ends.append(trainer.run(start, Job(0, 1, 2, STEPS, 1e-6)))
    assert not torch.equal(ends[0], start)
    assert all(torch.equal(ends[0], end) for end in ends)
