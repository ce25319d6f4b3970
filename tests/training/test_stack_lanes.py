"""Stacked lanes against the plain loop: same jobs, same end models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from favano.data import BatchStream, Preprocessing
from favano.methods.asofed import AsoFed
from favano.models.norm import BatchNorm2d
from favano.preflight.task import check_fit
from favano.quantisation import Recipe, quantised
from favano.screening import finite_rows
from favano.training import (
    FlatModel,
    Job,
    LaneStack,
    LaunchResult,
    LocalRule,
    LoopTrainer,
    Loss,
    StackLanes,
    Task,
    Work,
    lane_stack,
)
from favano.training.lane_state import LaneState
from favano.training.lane_steps import LaneSteps
from favano.training.optimisers import SGD, Optimiser


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 7), nn.Tanh(), nn.Linear(7, 4))


def with_batch_norm() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 4)
    )


def with_stock_batch_norm() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 4)
    )


def with_statistics_of_the_batch_alone() -> nn.Module:
    """No buffers, and yet the samples of a mini-batch depend on each other."""
    norm = nn.BatchNorm2d(3, track_running_stats=False)
    return nn.Sequential(nn.Conv2d(1, 3, 3), norm, nn.ReLU(), nn.Flatten(), nn.Linear(48, 4))


def of_single_pixels() -> nn.Module:
    """A batch normalisation of images of one pixel: a single sample has no variance."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 6), BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(6, 4)
    )


def partly_trained() -> nn.Module:
    """With a layer that is frozen, and one parameter that is not used."""
    network = perceptron()
    network.get_parameter("1.weight").requires_grad_(False)
    network.register_parameter("unused", nn.Parameter(torch.ones(3)))
    return network


def deeper() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 4, 3, padding=1),
        nn.ReLU(), nn.Flatten(), nn.Linear(64, 6), nn.ReLU(), nn.Linear(6, 4),
    )  # fmt: skip


class Rows(nn.Module):
    """An LSTM over the rows of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.classes = nn.LSTM(6, 5, 2, batch_first=True), nn.Linear(5, 4)

    def forward(self, images: Tensor) -> Tensor:
        states, _ = self.rows(images.flatten(1, 2))
        logits: Tensor = self.classes(states[:, -1])
        return logits


class Attention(nn.Module):
    """A transformer layer over the rows of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True)
        self.classes = nn.Linear(6, 4)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.classes(self.rows(images.flatten(1, 2)).mean(1))
        return logits


class Buffered(nn.Module):
    """Buffers of all kinds: indices, masks, complex numbers, and statistics."""

    order: Tensor
    shown: Tensor
    mask: Tensor
    turns: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.classes, self.norm = nn.Linear(6, 4), nn.BatchNorm1d(6)
        self.register_buffer("order", torch.tensor([3, 1, 2, 5, 4, 0]))
        self.register_buffer("shown", torch.ones(6, 6, dtype=torch.bool).tril())
        self.register_buffer("mask", torch.zeros(6, 6).masked_fill(~self.shown, -torch.inf))
        turns = torch.polar(torch.ones(3), torch.arange(3.0)).to(torch.complex128)
        self.register_buffer("turns", turns, persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        rows = self.norm(images.flatten(1, 2))[:, self.order]
        turned = torch.view_as_complex(rows.unflatten(-1, (3, 2)).contiguous()) * self.turns
        rows = torch.view_as_real(turned).flatten(-2)
        weights = (rows @ rows.mT + self.mask).softmax(-1) * self.shown
        output: Tensor = self.classes((weights @ rows).mean(1))
        return output


class Spectrum(nn.Module):
    """Layers of several libraries, and batch statistics, so that short batches are not padded."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(6, 5, 3, padding=1), nn.BatchNorm1d(5), nn.Tanh(), nn.Flatten(),
            nn.Linear(20, 36), nn.Unflatten(1, (4, 3, 3)), nn.ConvTranspose2d(4, 2, 2),
            nn.Flatten(), nn.Linear(32, 4),
        )  # fmt: skip

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.layers(torch.fft.rfft(images.flatten(1, 2)).abs())
        return logits


def doubled(output: Tensor, labels: Tensor) -> Tensor:
    return 2 * functional.cross_entropy(output, labels)


def trainers(
    network: nn.Module,
    *,
    raw: bool,
    loss: Loss,
    rules: list[LocalRule],
    device: str = "cpu",
    dtype: torch.dtype = torch.float64,
) -> list[LoopTrainer]:
    flat = FlatModel(network, device=device, dtype=dtype)
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(90, 1, 6, 6, generator=generator, dtype=torch.float64).to(dtype)
    if raw:
        images = torch.randint(0, 255, (90, 1, 6, 6), generator=generator, dtype=torch.uint8)
    labels = torch.randint(0, 4, (90,), generator=generator)
    parts = [np.arange(0, 23), np.arange(23, 40), np.arange(40, 90)]
    steps = Preprocessing(scale=255.0, crop_padding=1, flip=True) if raw else None
    tasks = [
        Task(images.to(device), labels.to(device), BatchStream(parts, 8, seed), loss, steps)
        for seed in (1, 2)
    ]
    check_fit(flat, tasks[0], classes=4)
    return [LoopTrainer(flat, task, rule) for task, rule in zip(tasks, rules, strict=True)]


JOBS = [
    Job(0, 0, 0, 5, 0.3),
    Job(1, 0, 0, 5, 0.3),
    Job(0, 1, 4, 1, 0.5),
    Job(0, 2, 13, 9, 0.1, steps_before=6),
    Job(1, 2, 2, 4, 0.2, steps_before=2),
    Job(1, 1, 7, 12, 0.05),
    Job(0, 0, 5, 2, 0.3),
]


def shifted(start: Tensor) -> Tensor:
    """Another start model for every job."""
    starts = start.repeat(len(JOBS), 1)
    starts[:, :30] += 0.01 * torch.arange(len(JOBS), device=start.device)[:, None]
    return starts


def corrections(start: Tensor, corrected: int | None) -> Tensor | None:
    """A correction for the jobs of one task, another for every client and place."""
    if corrected is None:
        return None
    correction = torch.zeros(len(JOBS), len(start), dtype=torch.float64)
    for number, job in enumerate(JOBS):
        if job.task == corrected:
            generator = torch.Generator().manual_seed(10 * job.client + job.first_step)
            correction[number] = torch.randn(len(start), generator=generator, dtype=torch.float64)
    return correction.to(start.device)


def trained(lanes: StackLanes, starts: Tensor, correction: Tensor | None = None) -> Tensor:
    """End models of all jobs; they are loaded as lanes become free."""
    task, *columns = (np.array(column) for column in zip(*JOBS, strict=True))
    waiting, left, ends = np.arange(len(JOBS)), len(JOBS), torch.empty_like(starts)
    while left:
        now, waiting = np.split(waiting, [lanes.free])
        if len(now):
            client, first_step, steps, rate, before = (column[now] for column in columns)
            given = None if correction is None else correction[now]
            work = Work(client, first_step, steps, rate, given, before)
            lanes.load(now, starts[now], task[now], work)
        try:
            lanes.launch()
        except torch.cuda.OutOfMemoryError:
            waiting = np.concatenate([lanes.halve(), waiting])
        finished = lanes.collect()
        if finished is not None:
            assert finished.finite.all()
            ends[finished.jobs, : finished.ends.shape[1]] = finished.ends
            left -= len(finished.jobs)
    return ends


def check_ends(
    lanes: StackLanes, both: list[LoopTrainer], starts: Tensor, correction: Tensor | None = None
) -> None:
    """The end models are those of the loop, and start models stay as they are."""
    before = starts.clone()
    ends = trained(lanes, starts, correction)
    assert torch.equal(starts, before)
    for number, job in enumerate(JOBS):
        trainer = both[job.task]
        width, own = trainer.width, None if correction is None else correction[number]
        expected = trainer.run(starts[number, :width], job, own)
        torch.testing.assert_close(ends[number, :width], expected, rtol=1e-10, atol=1e-10)


CASES = pytest.mark.parametrize(
    ("make", "raw", "loss", "proximal"),
    [
        (perceptron, False, functional.cross_entropy, 0.0),
        (perceptron, True, functional.cross_entropy, 0.5),
        (perceptron, False, doubled, 0.0),
        (with_batch_norm, False, functional.cross_entropy, 0.0),
        (with_batch_norm, True, functional.cross_entropy, 0.0),
        (with_stock_batch_norm, False, functional.cross_entropy, 0.0),
        (with_statistics_of_the_batch_alone, False, functional.cross_entropy, 0.0),
        (Rows, False, functional.cross_entropy, 0.0),
        (Attention, False, functional.cross_entropy, 0.0),
        (Spectrum, False, functional.cross_entropy, 0.0),
        (Buffered, False, functional.cross_entropy, 0.0),
    ],
)


def check_equal(
    make: object,
    raw: bool,
    loss: Loss,
    proximal: float,
    capacity: int,
    device: str,
    corrected: int | None = None,
    widest: int = lane_stack.WIDEST,
    recipe: Recipe | None = None,
) -> None:
    """Two tasks, the first with a proximal term, and a drift correction in one of them if asked."""
    torch.manual_seed(5)
    assert callable(make)
    rules = [LocalRule(proximal, corrected == 0), LocalRule(0.0, corrected == 1)]
    both = trainers(quantised(make(), recipe), raw=raw, loss=loss, rules=rules, device=device)
    start = both[0].model.snapshot()
    lanes = StackLanes(LaneStack(both[0].model, both, capacity, widest=widest))
    correction = corrections(start[: both[0].model.layout.parameters], corrected)
    check_ends(lanes, both, shifted(start), correction)


@pytest.mark.quick(
    "1-with_stock_batch_norm-False-cross_entropy-0.0",
    "3-perceptron-False-cross_entropy-0.0",
    "3-with_statistics_of_the_batch_alone-False-cross_entropy-0.0",
    "16-perceptron-True-cross_entropy-0.5",
    "16-Rows-False-cross_entropy-0.0",
)
@CASES
@pytest.mark.parametrize("capacity", [1, 3, 16])
def test_lanes_equal_the_loop(
    make: object, raw: bool, loss: Loss, proximal: float, capacity: int
) -> None:
    check_equal(make, raw, loss, proximal, capacity, "cpu")


@pytest.mark.parametrize("make", [perceptron, with_batch_norm])
@pytest.mark.parametrize("corrected", [0, 1])
@pytest.mark.parametrize("capacity", [1, 3, 16])
def test_corrected_and_plain_jobs_share_lanes(make: object, corrected: int, capacity: int) -> None:
    check_equal(make, False, functional.cross_entropy, 0.5, capacity, "cpu", corrected)


def momentum(gradient: Tensor, memory: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
    """A rule with one vector; it would fail with two."""
    (last,) = memory
    moved = 0.9 * last + gradient
    return moved, (moved,)


MEMORIES = {
    "beside plain": [
        LocalRule(0.5, memory=2, step=AsoFed(memory_decay=0.3).local_step),
        LocalRule(),
    ],
    "of two lengths": [
        LocalRule(memory=2, step=AsoFed(memory_decay=0.3).local_step),
        LocalRule(0.5, memory=1, step=momentum),
    ],
    "corrected": [
        LocalRule(0.5, corrected=True, memory=1, step=momentum),
        LocalRule(0.2, memory=2, step=AsoFed().local_step),
    ],
}


# Gradients of biases before BatchNorm are rounding errors; a large epsilon keeps them small.
ADAM = Optimiser("adam", momentum=0.8, beta2=0.95, epsilon=1e-3)
ADAMW = replace(ADAM, name="adamw", weight_decay=0.3)
HEAVY = Optimiser(momentum=0.9, weight_decay=0.1)
OPTIMISERS = {
    "momentum": [HEAVY, SGD],
    "nesterov": [replace(HEAVY, nesterov=True), HEAVY],
    "clipped": [Optimiser(clip=0.1), Optimiser(clip=0.4, weight_decay=0.2)],
    "adam": [ADAM, replace(ADAM, momentum=0.5, beta2=0.8, epsilon=1e-2, clip=0.2)],
    "adamw": [ADAMW, replace(ADAM, weight_decay=0.2)],
    "kept": [replace(ADAM, state="kept"), replace(HEAVY, state="kept")],
    "kept and fresh": [replace(HEAVY, state="kept"), ADAMW],
}


def rules_of(optimisers: list[Optimiser]) -> list[LocalRule]:
    """The first task also has a pull and corrections."""
    return [LocalRule(0.5, True, optimiser=optimisers[0]), LocalRule(optimiser=optimisers[1])]


def with_memory(optimisers: list[Optimiser]) -> list[LocalRule]:
    """The first task has a method whose clients remember, too."""
    step = AsoFed(memory_decay=0.3).local_step
    return [LocalRule(0.2, memory=2, step=step, optimiser=optimisers[0]),
            LocalRule(optimiser=optimisers[1])]  # fmt: skip


EVERY_OPTIMISER = pytest.mark.parametrize("optimisers", OPTIMISERS.values(), ids=OPTIMISERS)
EVERY_NETWORK = pytest.mark.parametrize("make", [perceptron, with_batch_norm, partly_trained])
MADE_BY = pytest.mark.parametrize("rules_by", [rules_of, with_memory])
Rules: TypeAlias = Callable[[list[Optimiser]], list[LocalRule]]


def check_memories(make: object, rules: list[LocalRule], capacity: int, device: str) -> None:
    """Two tasks, one or both with clients that remember."""
    torch.manual_seed(5)
    assert callable(make)
    loss = functional.cross_entropy
    both = trainers(make(), raw=False, loss=loss, rules=rules, device=device)
    start, parameters = both[0].model.snapshot(), both[0].model.layout.parameters
    corrected = next((task for task, rule in enumerate(rules) if rule.corrected), None)
    shape = len(JOBS), max(rule.kept for rule in rules) * parameters
    generator = torch.Generator().manual_seed(1)
    memories = torch.rand(shape, generator=generator, dtype=start.dtype).to(device)
    starts = torch.cat([shifted(start), 0.1 * memories], dim=1)
    lanes = StackLanes(LaneStack(both[0].model, both, capacity))
    check_ends(lanes, both, starts, corrections(start[:parameters], corrected))


@pytest.mark.quick("1-corrected-perceptron", "3-corrected-perceptron", "16-corrected-perceptron")
@pytest.mark.parametrize("make", [perceptron, with_batch_norm])
@pytest.mark.parametrize("rules", MEMORIES.values(), ids=MEMORIES)
@pytest.mark.parametrize("capacity", [1, 3, 16])
def test_clients_with_a_memory_share_lanes(
    make: object, rules: list[LocalRule], capacity: int
) -> None:
    """The memory of a job is its own, whoever had the lane before or has the one beside."""
    check_memories(make, rules, capacity, "cpu")


@pytest.mark.quick(
    "rules_of-nesterov-with_batch_norm",
    "rules_of-adam-with_batch_norm",
    "rules_of-kept-with_batch_norm",
    "with_memory-momentum-with_batch_norm",
    "with_memory-clipped-with_batch_norm",
    "with_memory-adamw-with_batch_norm",
    "with_memory-kept and fresh-with_batch_norm",
)
@EVERY_NETWORK
@EVERY_OPTIMISER
@MADE_BY
def test_lanes_equal_the_loop_with_any_optimiser(
    make: object, optimisers: list[Optimiser], rules_by: Rules
) -> None:
    """Runs with different optimisers share lanes; some have vectors that begin anew in each job."""
    check_memories(make, rules_by(optimisers), 3, "cpu")


def test_an_unused_parameter_stays_as_it_is_and_a_frozen_one_is_no_part_of_a_lane() -> None:
    """Also with weight decay."""
    rules = [LocalRule(optimiser=ADAMW), LocalRule()]
    both = trainers(partly_trained(), raw=False, loss=functional.cross_entropy, rules=rules)
    start = both[0].model.snapshot()
    lanes = StackLanes(LaneStack(both[0].model, both, 3))
    ends = trained(lanes, start.repeat(len(JOBS), 1))
    before, frozen = both[0].model.named_weights(start), both[0].model.frozen["1.weight"]
    kept = frozen.clone()
    assert "1.weight" not in before
    for end in ends:
        after = both[0].model.named_weights(end)
        assert torch.equal(after["unused"], before["unused"])
        assert not torch.equal(after["3.weight"], before["3.weight"])
    assert torch.equal(frozen, kept)


def test_vectors_that_begin_anew_are_not_handed_in() -> None:
    """Whether an end model is finite does not depend on them: a huge gradient squared is not."""
    rules = [LocalRule(optimiser=ADAM), LocalRule()]

    def huge(output: Tensor, labels: Tensor) -> Tensor:
        return 1e200 * functional.cross_entropy(output, labels)

    both = trainers(perceptron(), raw=False, loss=huge, rules=rules)
    start, ones = both[0].model.snapshot(), np.array([1])
    work = Work(ones, ones, ones, np.array([0.1]))
    lanes = StackLanes(LaneStack(both[0].model, both, 1))
    lanes.load(ones, start[None], ones - 1, work)
    lanes.launch()
    finished = lanes.collect()
    assert finished is not None
    assert finished.ends.shape == (1, len(start))
    assert finished.finite.tolist() == [True]
    assert finite_rows(both[0].train(start[None], work)) == [True]


def test_a_memory_with_nan_is_gone_with_its_job() -> None:
    """A plain job that follows in the lane is finite, though it has no memory to overwrite it."""
    rules = [LocalRule(memory=1, step=momentum), LocalRule()]
    loss = functional.cross_entropy
    remembering, plain = trainers(perceptron(), raw=False, loss=loss, rules=rules)
    start, ones = plain.model.snapshot(), np.array([1])
    lanes = StackLanes(LaneStack(plain.model, [remembering, plain], 1))
    for task, width, rate in ((0, remembering.width, np.inf), (1, plain.width, 0.1)):
        model = functional.pad(start, (0, width - len(start)))[None]
        lanes.load(ones, model, np.array([task]), Work(ones, ones, ones + 1, np.array([rate])))
        lanes.launch()
        finished = lanes.collect()
        assert finished is not None
        assert finished.finite.tolist() == [task == 1]


RECIPES = {
    "luq": Recipe(),
    "gradients of weights": Recipe(quantised_gradients="weights", gradient_samples=2),
    "several draws": Recipe(gradient_samples=3, gradient_levels=8, clipped_gradients="mask"),
    "released, all layers": Recipe(quantiser_grid="released", quantised_layers="all"),
}


@pytest.mark.quick(
    "5-perceptron-False-gradients of weights", "5-perceptron-True-released, all layers"
)
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
@pytest.mark.parametrize(("make", "raw"), [(perceptron, False), (perceptron, True), (deeper, True)])
@pytest.mark.parametrize("capacity", [1, 5])
def test_quantised_lanes_equal_the_loop(
    make: object, raw: bool, capacity: int, recipe: Recipe
) -> None:
    """Short batches too: every lane has its own clips, levels and draws."""
    check_equal(make, raw, functional.cross_entropy, 0.5, capacity, "cpu", recipe=recipe)


@pytest.mark.quick(
    "5-perceptron-True-cross_entropy-0.5",
    "5-Rows-False-cross_entropy-0.0",
    "12-perceptron-False-doubled-0.0",
    "12-Attention-False-cross_entropy-0.0",
)
@CASES
@pytest.mark.parametrize("launches", [5, 12])
def test_refilling_may_wait(
    make: object,
    raw: bool,
    loss: Loss,
    proximal: float,
    launches: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Lanes that are done early stand still while the others go on, for several epochs."""
    monkeypatch.setattr(lane_stack, "_MANY", 1)
    monkeypatch.setattr(lane_stack, "_LAUNCHES", launches)
    check_equal(make, raw, loss, proximal, 5, "cpu")


@pytest.mark.parametrize(("widest", "sizes"), [(1, {1}), (3, {3}), (16, {4, 8})])
def test_launches_are_as_wide_as_their_lanes(
    widest: int, sizes: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nearly: up to the next multiple of four, and less wide where memory allows no more."""
    made, launched = LaneSteps.__call__, []

    def step(self: LaneSteps, lanes: LaneState, some: Tensor, length: int) -> None:
        launched.append((len(some), int((some == 16).sum())))  # lane 16 is the extra one
        made(self, lanes, some, length)

    monkeypatch.setattr(LaneSteps, "__call__", step)
    loss = functional.cross_entropy
    check_equal(with_batch_norm, False, loss, 0.0, 16, "cpu", widest=widest)
    assert {size for size, _ in launched} == sizes
    assert max(idle for _, idle in launched) < min(widest, 4)


@pytest.mark.parametrize("at", [{1}, {3, 4}])
def test_where_memory_is_short_jobs_begin_anew(
    at: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With half the lanes; those that find none wait."""
    made, calls, fewer = LaneStack.launch, [0], []

    def launch(self: LaneStack) -> object:
        calls[0] += 1
        if calls[0] in at:
            made(self)  # some steps were made
            raise torch.cuda.OutOfMemoryError
        return made(self)

    monkeypatch.setattr(LaneStack, "launch", launch)
    rules = [LocalRule(), LocalRule()]
    both = trainers(with_batch_norm(), raw=False, loss=functional.cross_entropy, rules=rules)

    def make(capacity: int) -> LaneStack:
        fewer.append(capacity)
        return LaneStack(both[0].model, both, capacity)

    lanes = StackLanes(LaneStack(both[0].model, both, 6), make)
    check_ends(lanes, both, shifted(both[0].model.snapshot()))
    assert fewer == [3, 1][: len(at)]


@pytest.mark.parametrize("make", [perceptron, with_batch_norm])
@pytest.mark.parametrize("queued", [1, 2, 3])
def test_launches_are_queued(
    queued: int, make: Callable[[], nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest is collected first, and only then its lanes take other jobs."""
    monkeypatch.setattr("favano.training.stack_lanes._QUEUED", queued)
    rules = [LocalRule(), LocalRule()]
    both = trainers(make(), raw=False, loss=functional.cross_entropy, rules=rules)
    lanes = StackLanes(LaneStack(both[0].model, both, 4))
    assert lanes.free == lanes.capacity == 4
    assert lanes.collect() is None
    check_ends(lanes, both, shifted(both[0].model.snapshot()))
    assert lanes.free == lanes.capacity


@pytest.mark.parametrize(("quick", "expected"), [(False, 2), (True, 1)])
def test_quick_launches_do_not_wait_for_each_other(
    quick: bool, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LaneStack, "quick", quick)
    rules = [LocalRule(), LocalRule()]
    both = trainers(perceptron(), raw=False, loss=functional.cross_entropy, rules=rules)
    stack = LaneStack(both[0].model, both, 2)
    lanes, launch, launched = StackLanes(stack), stack.launch, list[int]()

    def launching() -> LaunchResult:
        launched.append(len(launched))
        return launch()

    monkeypatch.setattr(stack, "launch", launching)
    zeros = np.zeros(2, dtype=np.int64)
    work = Work(zeros, zeros, zeros + 20, np.full(2, 0.1))
    lanes.load(np.arange(2), shifted(both[0].model.snapshot())[:2], zeros, work)
    for _ in range(2):
        lanes.launch()
        assert len(launched) == expected


@pytest.mark.gpu
@CASES
@pytest.mark.parametrize("capacity", [3, 16])
def test_lanes_equal_the_loop_on_cuda(
    make: object, raw: bool, loss: Loss, proximal: float, capacity: int
) -> None:
    check_equal(make, raw, loss, proximal, capacity, "cuda")


@pytest.mark.gpu
@pytest.mark.parametrize("make", [with_batch_norm, with_stock_batch_norm, of_single_pixels])
def test_short_batches_are_launched_with_full_ones_on_cuda(
    make: Callable[[], nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or with halves and quarters, in float32 by our kernels."""
    made, lengths = LaneSteps.__call__, set[int]()

    def step(self: LaneSteps, lanes: LaneState, some: Tensor, length: int) -> None:
        lengths.add(length)
        made(self, lanes, some, length)

    monkeypatch.setattr(LaneSteps, "__call__", step)
    torch.manual_seed(5)
    network, rules = make(), [LocalRule(), LocalRule()]
    loss, ends = functional.cross_entropy, list[Tensor]()
    for device, dtype in (("cuda", torch.float32), ("cpu", torch.float64)):
        both = trainers(network, raw=False, loss=loss, rules=rules, device=device, dtype=dtype)
        stack = LaneStack(both[0].model, both, 16, "float32", widest=16)
        ends.append(trained(StackLanes(stack), shifted(both[0].model.snapshot())))
        assert lengths == ({8, 2, 1} if device == "cuda" else {8, 7, 2, 1})
        lengths.clear()
    torch.testing.assert_close(ends[0].cpu().double(), ends[1], rtol=1e-3, atol=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("tried_out", [False, True])
def test_libraries_meet_new_shapes_during_a_capture(
    monkeypatch: pytest.MonkeyPatch, tried_out: bool
) -> None:
    """cuDNN may also try out which of its kernels is the fastest, which cannot be captured."""
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", tried_out)
    check_equal(Spectrum, False, functional.cross_entropy, 0.0, 16, "cuda")


@pytest.mark.gpu
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
@pytest.mark.parametrize("make", [perceptron, deeper])
def test_quantised_lanes_equal_the_loop_on_cuda(make: object, recipe: Recipe) -> None:
    check_equal(make, True, functional.cross_entropy, 0.0, 5, "cuda", recipe=recipe)


@pytest.mark.gpu
@pytest.mark.parametrize("make", [perceptron, with_batch_norm])
@pytest.mark.parametrize("corrected", [0, 1])
def test_corrected_and_plain_jobs_share_lanes_on_cuda(make: object, corrected: int) -> None:
    check_equal(make, False, functional.cross_entropy, 0.5, 5, "cuda", corrected)


@pytest.mark.gpu
@pytest.mark.parametrize("make", [perceptron, with_batch_norm])
@pytest.mark.parametrize("rules", MEMORIES.values(), ids=MEMORIES)
def test_clients_with_a_memory_share_lanes_on_cuda(make: object, rules: list[LocalRule]) -> None:
    check_memories(make, rules, 5, "cuda")


@pytest.mark.gpu
@EVERY_NETWORK
@EVERY_OPTIMISER
@MADE_BY
def test_lanes_equal_the_loop_with_any_optimiser_on_cuda(
    make: object, optimisers: list[Optimiser], rules_by: Rules
) -> None:
    check_memories(make, rules_by(optimisers), 5, "cuda")
