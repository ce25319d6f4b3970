"""The kernel of whole steps of perceptrons, against the same steps made by many kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from favano.data import BatchStream, Preprocessing
from favano.models.perceptron import Perceptron
from favano.training import (
    FlatModel,
    Job,
    LaneStack,
    LocalRule,
    LoopTrainer,
    StackLanes,
    Task,
    Work,
)
from favano.training.optimisers import Optimiser
from favano.types import Precision

if TYPE_CHECKING:
    from favano.training.gpu_kernels.perceptron import PerceptronSteps

SHAPE = (2, 5, 7)  # of an image
PARTS = [np.arange(0, 23), np.arange(23, 40), np.arange(40, 90), np.arange(88, 90)]
PULLED, CORRECTED = LocalRule(proximal=0.7), LocalRule(corrected=True)
MOMENTUM = LocalRule(optimiser=Optimiser(momentum=0.5))
PRECISIONS: tuple[Precision, ...] = ("float32", "tf32", "bf16")
SPACING = {"tf32": 2**-10, "bf16": 2**-7}  # of numbers from 1 to 2


def layers(inputs: int = 70, hidden: int = 11, classes: int = 4) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Flatten(), nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, classes)
    )


def trainers(
    network: nn.Module, rules: tuple[LocalRule, ...], *, raw: bool = True, batch: int = 8
) -> list[LoopTrainer]:
    flat = FlatModel(network, device="cuda")
    generator = torch.Generator().manual_seed(0)
    samples = torch.randint(0, 256, (90, *SHAPE), generator=generator, dtype=torch.uint8)
    labels = torch.randint(0, 4, (90,), generator=generator).cuda()
    steps = Preprocessing(scale=255.0, mean=(0.5, 0.3), std=(0.4, 0.2)) if raw else None
    given = samples if raw else samples.float() / 100 - 1
    tasks = [Task(given.cuda(), labels, BatchStream(PARTS, batch, seed), preprocessing=steps)
             for seed in range(1, 1 + len(rules))]  # fmt: skip
    return [LoopTrainer(flat, task, rule) for task, rule in zip(tasks, rules, strict=True)]


def jobs(tasks: int) -> list[Job]:
    return [
        Job(
            number % tasks, number % len(PARTS), 3 * number, 1 + 7 * number % 9, 0.1 + 0.01 * number
        )
        for number in range(20)
    ]


def starts_of(model: FlatModel, number: int) -> Tensor:
    """Another start model for every job."""
    start = model.snapshot().repeat(number, 1)
    return start * (1 + 0.01 * torch.arange(number, device=start.device)[:, None])


def corrections(starts: Tensor, wanted: bool) -> Tensor | None:
    return 0.03 * torch.cos(100 * starts) if wanted else None


def kernel_of(stack: LaneStack, trainer: LoopTrainer, precision: Precision) -> PerceptronSteps:
    """Also for float32, whose results can be compared best."""
    from favano.training.gpu_kernels import perceptron_steps

    roster, slots = stack._roster, stack._slots
    kernel = perceptron_steps(trainer.model.module, trainer.task, roster, slots, precision)
    assert kernel is not None
    return kernel


def ends_of(
    trained: list[LoopTrainer], precision: Precision, *, whole: bool, capacity: int = 20
) -> Tensor:
    """End models of all jobs, in lanes."""
    given, model = jobs(len(trained)), trained[0].model
    stack = LaneStack(model, trained, capacity, precision)
    assert (stack._whole is None) == (precision == "float32")
    stack._whole = kernel_of(stack, trained[0], precision) if whole else None
    starts = starts_of(model, len(given))
    corrected = corrections(starts, any(trainer.rule.corrected for trainer in trained))
    ends, waiting = torch.zeros_like(starts), list(range(len(given)))
    in_lane = np.full(capacity, -1)
    while waiting or (in_lane >= 0).any():
        lanes = stack.free[-3:]  # the last ones, so that lanes are listed
        chosen, waiting = waiting[: len(lanes)], waiting[len(lanes) :]
        if chosen:
            lanes = lanes[: len(chosen)]
            some = [given[number] for number in chosen]
            work = Work(
                np.array([job.client for job in some]),
                np.array([job.first_step for job in some]),
                np.array([job.steps for job in some]),
                np.array([job.rate for job in some]),
                correction=None if corrected is None else corrected[chosen],
            )
            stack.load(lanes, starts[chosen], np.array([job.task for job in some]), work)
            in_lane[lanes] = chosen
        done = stack.launch()
        ends[in_lane[done.lanes]] = done.ends
        in_lane[done.lanes] = -1
    return ends


def check(trained: list[LoopTrainer], precision: Precision, **options: int) -> None:
    """Exact products give the same; others are as far from it as their numbers are apart.

    Of most jobs: where a rectifier switches, a job goes another way.
    """
    exact = ends_of(trained, "float32", whole=False, **options)
    moved = (exact - starts_of(trained[0].model, len(exact))).norm(dim=1)
    assert (moved > 0.01).all()  # they have learned something
    distance = (ends_of(trained, precision, whole=True, **options) - exact).norm(dim=1)
    if precision == "float32":
        assert distance.norm() < 2e-6 * moved.norm()
    else:  # jobs with an optimiser do not use the kernel
        plain = [trained[job.task].rule.optimiser.plain for job in jobs(len(trained))]
        assert 0.1 < (distance / moved)[plain].median() / SPACING[precision] < 3


@pytest.mark.gpu
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("raw", [True, False], ids=["bytes", "floats"])
@pytest.mark.parametrize(
    "rules",
    [
        (LocalRule(),),
        (LocalRule(), PULLED),
        (LocalRule(), CORRECTED),
        (PULLED, CORRECTED),
        (LocalRule(), MOMENTUM),  # whose lanes make their steps the usual way
        (CORRECTED, MOMENTUM, PULLED),
    ],
    ids=["plain", "pulled", "corrected", "both", "momentum", "all"],
)
def test_a_step_is_that_of_many_kernels(
    rules: tuple[LocalRule, ...], raw: bool, precision: Precision
) -> None:
    """Jobs of two tasks, short batches, lanes with gaps between them, other rates and starts."""
    check(trainers(layers(), rules, raw=raw), precision)


@pytest.mark.gpu
@pytest.mark.parametrize(("hidden", "classes"), [(1, 4), (16, 16), (17, 32), (32, 5)])
@pytest.mark.parametrize("batch", [1, 16, 100])
def test_layers_and_batches_of_any_size(hidden: int, classes: int, batch: int) -> None:
    check(trainers(layers(70, hidden, classes), (LocalRule(),), batch=batch), "float32")


@pytest.mark.gpu
@pytest.mark.parametrize("capacity", [3, 32])
def test_our_own_perceptron_and_more_lanes_than_jobs(capacity: int) -> None:
    torch.manual_seed(4)
    check(trainers(Perceptron(SHAPE, 4), (LocalRule(),)), "float32", capacity=capacity)


@pytest.mark.gpu
def test_end_models_are_those_of_the_plain_loop() -> None:
    trained = trainers(layers(), (LocalRule(), PULLED))
    ends, starts = ends_of(trained, "float32", whole=True), starts_of(trained[0].model, 20)
    for job, start, end in zip(jobs(2), starts, ends, strict=True):
        expected = trained[job.task].run(start, job)
        torch.testing.assert_close(end, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
def test_lanes_are_refilled_while_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel looks at all lanes; it must not find one that is half loaded."""
    (trainer,) = trainers(layers(), (LocalRule(),))
    number = np.arange(2000)
    steps, rate = np.where(number % 3, 5, 60), np.linspace(0.1, 0.3, len(number))
    starts = starts_of(trainer.model, len(number))

    def ends(queued: int) -> Tensor:
        monkeypatch.setattr("favano.training.stack_lanes._QUEUED", queued)
        lanes, waiting = StackLanes(LaneStack(trainer.model, [trainer], 600)), number
        models, left = torch.zeros_like(starts), len(number)
        while left:
            now, waiting = np.split(waiting, [lanes.free])
            if len(now):
                work = Work(now % len(PARTS), 3 * now, steps[now], rate[now])
                lanes.load(now, starts[now], 0 * now, work)
            lanes.launch()
            finished = lanes.collect()
            assert finished is not None
            models[finished.jobs] = finished.ends
            left -= len(finished.jobs)
        return models

    assert torch.equal(ends(queued=2), ends(queued=1))


@pytest.mark.gpu
def test_numbers_that_are_not_finite_stay() -> None:
    trained = trainers(layers(), (LocalRule(),))
    stack = LaneStack(trained[0].model, trained, 2)
    starts = starts_of(trained[0].model, 2)
    starts[1, -20] = float("nan")
    ones = np.array([0, 1])
    stack.load(ones, starts, 0 * ones, Work(ones, 0 * ones, 0 * ones + 3, 0.1 + 0.0 * ones))
    assert stack.launch().finite().tolist() == [True, False]


def without_bias() -> nn.Module:
    network = layers()
    network[1] = nn.Linear(70, 11, bias=False)  # type: ignore[operator]
    return network


def frozen() -> nn.Module:
    network = layers()
    network.get_parameter("1.weight").requires_grad_(False)
    return network


def smooth() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(70, 11), nn.Tanh(), nn.Linear(11, 4))


@pytest.mark.gpu
@pytest.mark.parametrize("make", [without_bias, frozen, smooth, lambda: layers(70, 2000)])
def test_other_networks_have_no_such_kernel(make: object) -> None:
    trained = trainers(make(), (LocalRule(),))  # type: ignore[operator]
    assert LaneStack(trained[0].model, trained, 2)._whole is None


@pytest.mark.gpu
def test_other_tasks_and_rules_have_no_such_kernel() -> None:
    (trainer,) = trainers(layers(), (MOMENTUM,))
    assert LaneStack(trainer.model, [trainer], 2)._whole is None
    (trainer,) = trainers(layers(), (LocalRule(),))
    smoothed = Task(trainer.task.features, trainer.task.labels, trainer.task.batches, _smoothed,
                    trainer.task.preprocessing)  # fmt: skip
    assert (
        LaneStack(trainer.model, [LoopTrainer(trainer.model, smoothed, LocalRule())], 2)._whole
        is None
    )


def _smoothed(output: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(output, labels, label_smoothing=0.1)
