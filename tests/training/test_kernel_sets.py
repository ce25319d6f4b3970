"""Kernels differ in their last bits alone, and a run keeps to those it has."""

from __future__ import annotations

import platform
from typing import get_args

import numpy as np
import pytest
import torch
from torch import nn

from favano.errors import BadInput
from favano.models import BatchNorm2d
from favano.training import (
    FlatModel,
    GradientTrace,
    Job,
    LocalRule,
    LoopTrainer,
    Work,
    WorkerLanes,
    check_kernels,
    default_kernels,
    kernel_sets,
    one_thread,
    trace_gradients,
)
from favano.training.kernel_sets import arranged, using
from favano.types import Kernels
from tests.forks import FORKS
from tests.training.clock import trace_all
from tests.training.test_gradient_trace import images, task

ALL: tuple[Kernels, ...] = get_args(Kernels)
JOB = Job(task=0, client=1, first_step=1, steps=7, rate=0.1)


def trainer(
    dtype: torch.dtype, chosen: Kernels | None, gradient: GradientTrace | None = None
) -> LoopTrainer:
    torch.manual_seed(3)
    model = FlatModel(images(BatchNorm2d(4)), device="cpu", dtype=dtype)
    return LoopTrainer(model, task(dtype), LocalRule(), gradient, chosen)


@pytest.mark.parametrize("chosen", ALL)
def test_every_choice_computes_what_the_plain_loop_computes(chosen: Kernels) -> None:
    plain, other = (trainer(torch.float64, kernels) for kernels in (None, chosen))
    start = plain.model.snapshot()
    with one_thread():
        expected, end = plain.run(start, JOB), other.run(start, JOB)
    moved = float((expected - start).norm())
    assert moved > 0.1
    assert float((end - expected).norm()) < 1e-10 * moved


@FORKS
@pytest.mark.parametrize("chosen", ALL)
def test_workers_and_traces_give_the_bits_of_the_loop(
    chosen: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace_all(monkeypatch)
    alone = trainer(torch.float32, chosen)
    start = alone.model.snapshot()
    gradient = GradientTrace(alone.model, alone.task.loss, chosen)
    with one_thread():
        expected = alone.run(start, JOB)
        assert trace_gradients(gradient, alone.task, 10**6).lengths == (6, 4, 3)
        fast = LoopTrainer(alone.model, alone.task, alone.rule, gradient, chosen)
        assert torch.equal(fast.run(start, JOB), expected)
        with WorkerLanes(alone.model, [fast], workers=2) as lanes:
            task, client, first_step, steps, rate, _ = (np.array([value]) for value in JOB)
            work = Work(client, first_step, steps, rate)
            lanes.load(np.array([3]), start[None], task, work)
            done = lanes.collect()
    assert done is not None
    assert done.jobs.tolist() == [3]
    assert torch.equal(done.ends[0], expected)


def test_a_job_leaves_the_kernels_of_the_process_alone() -> None:
    before = bool(torch.backends.mkldnn.enabled)
    seen = []

    class Looking(nn.Linear):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            seen.append((bool(torch.backends.mkldnn.enabled), inputs.flatten(1).shape[1]))
            return super().forward(inputs.flatten(1))

    model = FlatModel(Looking(192, 5), device="cpu")
    for chosen in ("native", "onednn"):
        LoopTrainer(model, task(torch.float32), LocalRule(), None, chosen).run(
            model.snapshot(), JOB
        )
    assert seen == [(False, 192)] * JOB.steps + [(True, 192)] * JOB.steps
    assert bool(torch.backends.mkldnn.enabled) == before


def test_channels_last_is_about_images_alone() -> None:
    batch = torch.randn(2, 3, 4, 5)
    last = arranged(batch, "channels-last")
    assert last.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(last, batch)
    assert arranged(batch, "onednn") is batch
    assert arranged(batch[0], "channels-last").is_contiguous()


def test_the_default_has_no_library_that_starts_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    with using("onednn"):
        monkeypatch.setattr(platform, "machine", lambda: "x86_64")
        assert default_kernels() == "onednn"
        monkeypatch.setattr(platform, "machine", lambda: "aarch64")
        assert default_kernels() == "native"
    with using("native"):
        monkeypatch.setattr(platform, "machine", lambda: "x86_64")
        assert default_kernels() == "native"  # somebody switched it off


def test_what_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_sets, "library_there", lambda: False)
    assert check_kernels("native") == "native"
    with pytest.raises(BadInput, match="kernels=onednn: this PyTorch was built without oneDNN"):
        check_kernels("onednn")
