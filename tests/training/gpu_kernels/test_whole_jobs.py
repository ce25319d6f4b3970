"""Jobs that a kernel trains whole: the end models of the plain loop, and of lanes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from favano.training import LocalRule, Work, whole_jobs
from favano.training.whole_jobs import PerceptronJobs
from favano.types import Precision, Stack
from tests.training.gpu_kernels.test_perceptron import (
    PULLED,
    SPACING,
    ends_of,
    jobs,
    layers,
    smooth,
    starts_of,
    trainers,
)


def whole(
    rules: tuple[LocalRule, ...], precision: Precision, order: list[int], *, raw: bool = True
) -> Stack:
    """End models of all jobs, in the order of `jobs`, trained in another order, in two draws."""
    trained = trainers(layers(), rules, raw=raw)
    given, model = jobs(len(rules)), trained[0].model
    trainer = whole_jobs(model, trained, "tf32" if precision == "float32" else precision)
    assert trainer is not None
    kernel = replace(trainer._kernel, precision=precision)
    trainer._kernel = kernel
    some = [given[number] for number in order]
    work = Work(
        np.array([job.client for job in some]), np.array([job.first_step for job in some]),
        np.array([job.steps for job in some]), np.array([job.rate for job in some]),
    )  # fmt: skip
    starts = starts_of(model, len(given))
    models = torch.full((50, starts.shape[1] + 5), torch.nan, device="cuda")[:, : starts.shape[1]]
    models[: len(given)] = starts
    rows = np.array(order)
    trainer.load(rows, 25 + rows, np.array([job.task for job in some]), work)
    half = len(order) // 2
    for first, last in ((0, half), (half, len(order))):
        trainer.draw(first, last)
        trainer.train(models, first, last)
    assert torch.equal(models[: len(given)], starts)
    return models[25 + np.sort(rows)]


@pytest.mark.gpu
@pytest.mark.parametrize("raw", [True, False], ids=["bytes", "floats"])
@pytest.mark.parametrize("rules", [(LocalRule(),), (LocalRule(), PULLED)], ids=["plain", "pulled"])
def test_whole_jobs_are_those_of_many_kernels(rules: tuple[LocalRule, ...], raw: bool) -> None:
    exact = ends_of(trainers(layers(), rules, raw=raw), "float32", whole=False)
    moved = (exact - starts_of(trainers(layers(), rules, raw=raw)[0].model, 20)).norm(dim=1)
    ends = whole(rules, "float32", list(range(20)), raw=raw)
    assert (ends - exact).norm() < 2e-6 * moved.norm()
    for precision, spacing in SPACING.items():
        ends = whole(rules, precision, list(range(20)), raw=raw)  # type: ignore[arg-type]
        assert 0.1 < ((ends - exact).norm(dim=1) / moved).median() / spacing < 3


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_a_job_never_depends_on_those_beside_it(precision: Precision) -> None:
    """To the bit: in another order, in other launches, or without most of the others."""
    ends = whole((LocalRule(),), precision, list(range(20)))
    shuffled = np.random.default_rng(3).permutation(20).tolist()
    assert torch.equal(whole((LocalRule(),), precision, shuffled), ends)
    assert torch.equal(whole((LocalRule(),), precision, [7, 2, 11]), ends[[2, 7, 11]])


@pytest.mark.gpu
def test_other_networks_and_precisions_have_no_such_jobs() -> None:
    assert _jobs(smooth(), "tf32") is None
    assert _jobs(layers(), "float32") is None
    assert _jobs(layers(), "tf32") is not None


def _jobs(network: nn.Module, precision: Precision) -> PerceptronJobs | None:
    trained = trainers(network, (LocalRule(),))
    return whole_jobs(trained[0].model, trained, precision)
