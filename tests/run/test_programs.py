"""Runs that are programs, and those that cannot be: the same history as on lanes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch import nn

import favano
from favano.engine import RunEvent
from favano.results import Result
from favano.run import engines, programs
from favano.run.engines import Group, MemoryShare, on_stacks
from favano.run.runner import run_together
from favano.run.samples import Samples
from favano.run.seed_run import SeedRun
from favano.run.verification import verify
from favano.specification.keys import Keys
from favano.specification.spec import Spec, make_spec
from favano.training import FlatModel, LaneMaker, LoopTrainer, StackLanes
from favano.types import Precision, Stack
from tests.engine.test_program import LoopJobs
from tests.run.test_engines import close
from tests.specs import variant

KEYS = {"clients": 10, "selected": 3, "local_steps": 4, "batch_size": 16, "learning_rate": 0.05}
SHORT = make_spec({**KEYS, "horizon": 140, "evaluate_every": 35})
NAMES = ("favano", "quafl", "fedavg", "asofed", "fedasync")  # AsoFed's clients remember
ROOM = 10_000  # models


def specs(device: str, names: Sequence[str] = NAMES, **keys: object) -> list[Spec]:
    return [variant(SHORT, {"algorithm": n, "device": device, "seeds": 2, **keys}) for n in names]


def samples(device: str) -> Samples:
    generator = torch.Generator().manual_seed(5)
    features = torch.randn(600, 1, 8, 8, generator=generator)
    labels = (features.flatten(1)[:, :10].argmax(1)).to(device)
    features = features.to(device)
    return Samples(features[100:], labels[100:], features[:100], labels[:100], 10)


def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 10))


def results(chosen: Sequence[Spec], device: str) -> list[Result]:
    return run_together(chosen, samples(device), network)


@contextmanager
def cpu_programs(
    flat: FlatModel, runs: Sequence[SeedRun], group: Group, workers: int | None
) -> Iterator[Iterator[RunEvent]]:
    """In the place of `favano.run.engines._steps`: as on a GPU, with jobs of the plain loop."""

    def events() -> Iterator[RunEvent]:
        left = yield from programs.programmed(flat, runs, "tf32", ROOM)
        LEFT[:] = [runs[number].label for number in left]
        if left:
            some = [runs[number] for number in left]
            maker = LaneMaker(flat, [run.trainer for run in some])
            share = MemoryShare(3, 5, 0)
            for step in on_stacks(some, StackLanes(maker.at_most(16)), share):
                yield step._replace(run=left[step.run])

    yield events()


LEFT: list[str] = []  # runs that were left to lanes


def loop_jobs(flat: FlatModel, trainers: Sequence[LoopTrainer], precision: Precision) -> LoopJobs:
    return LoopJobs(trainers)


@pytest.fixture
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_steps", cpu_programs)
    monkeypatch.setattr(programs, "whole_jobs", loop_jobs)


@pytest.mark.quick("60")
@pytest.mark.parametrize("room", [ROOM, 60])
def test_the_history_is_that_of_lanes(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if there is not memory for all runs at a time."""
    chosen = specs("cpu", horizon=70)
    expected = results(chosen, "cpu")
    monkeypatch.setattr(engines, "_steps", cpu_programs)
    monkeypatch.setattr(programs, "whole_jobs", loop_jobs)
    monkeypatch.setattr("tests.run.test_programs.ROOM", room)
    for ours, other in zip(results(chosen, "cpu"), expected, strict=True):
        close(ours.rows, other.rows)
        assert ours.status == other.status == "complete"
    assert {label.partition(",")[0] for label in LEFT} == {"asofed"}


@pytest.mark.slow
@pytest.mark.usefixtures("on_cpu")
def test_a_run_that_diverges_is_that_of_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = [*specs("cpu", ["favano"]), *specs("cpu", ["quafl"], learning_rate=1e30)]
    ours = results(chosen, "cpu")
    assert len(LEFT) == 2
    monkeypatch.undo()
    for mine, other in zip(ours, results(chosen, "cpu"), strict=True):
        assert mine.status == other.status
        assert [run.cause for run in mine.runs] == [run.cause for run in other.runs]
        close(mine.rows, other.rows)


@pytest.mark.usefixtures("on_cpu")
def test_a_result_of_programs_is_proved_by_programs(tmp_path: Path) -> None:
    fleet = favano.Fleet(clients=6)
    keys: Keys = {"selected": 2, "local_steps": 2, "horizon": 60.0, "evaluate_every": 20.0}
    keys |= {"seeds": 2}
    result = favano.simulate("quafl", "digits", fleet, **keys)
    assert LEFT == []
    verdicts = verify(result.save(tmp_path / "result"))
    seeds = [verdict for verdict in verdicts if verdict.seed is not None]
    assert [verdict.words for verdict in seeds] == ["4 rows proved"] * 2


class Failing(LoopJobs):
    """Makes a model that is not finite, as broken memory would, in the second half of the jobs."""

    wrong = float("nan")

    def train(self, models: Stack, first: int, last: int) -> None:
        before = self.trained
        super().train(models, first, last)
        half = len(self.jobs) // 2
        if before <= half < self.trained:
            models[int(self.rows[1][first])][3] = self.wrong


@pytest.mark.quick("memory")
@pytest.mark.parametrize("short", [False, True], ids=["not-finite", "memory"])
def test_a_run_that_fails_in_the_middle_begins_again_on_lanes(
    short: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its results are those of lanes alone, and its observer sees each evaluation once."""
    chosen = specs("cpu", ["fedavg", "favano"])
    expected = results(chosen, "cpu")
    monkeypatch.setattr(engines, "_steps", cpu_programs)
    monkeypatch.setattr(programs, "whole_jobs", lambda flat, trainers, precision: Failing(trainers))
    if short:
        monkeypatch.setattr("tests.run.test_programs.ROOM", 3)
    told: list[tuple[object, ...]] = []
    ours = run_together(
        chosen,
        samples("cpu"),
        network,
        on_evaluate=lambda made: told.append((made["method"], made["seed"], made["time"])),
    )
    assert len(LEFT) == 4 if short else 0 < len(LEFT) < 4
    for mine, other in zip(ours, expected, strict=True):
        close(mine.rows, other.rows)
        assert mine.status == other.status == "complete"
        assert mine.states.keys() == other.states.keys()
    assert len(set(told)) == len(told) == sum(len(result.rows) for result in ours)
    assert ("memory is short" in caplog.text) == short


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_on_a_gpu_the_history_is_that_of_lanes(
    precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = specs("cuda", precision=precision)
    ours = results(chosen, "cuda")
    alone = results(chosen[1:2], "cuda")
    assert [row.model_digest for row in alone[0].rows] == [row.model_digest for row in ours[1].rows]
    monkeypatch.setattr(programs, "whole_jobs", lambda *given: None)
    for mine, other in zip(ours, results(chosen, "cuda"), strict=True):
        assert [row.model_digest for row in mine.rows[1:]] != [
            row.model_digest for row in other.rows[1:]
        ] or mine.spec.method.name == "asofed"
        for row, lane_row in zip(mine.rows, other.rows, strict=True):
            assert row.local_steps == lane_row.local_steps
            assert row.loss == pytest.approx(lane_row.loss, rel=0.02)
            assert row.variance == pytest.approx(lane_row.variance, rel=0.05, abs=1e-6)


@pytest.mark.gpu
def test_on_a_gpu_a_run_that_diverges_is_that_of_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = [*specs("cuda", ["favano"]), *specs("cuda", ["quafl"], learning_rate=1e30)]
    ours = results(chosen, "cuda")
    monkeypatch.setattr(programs, "whole_jobs", lambda *given: None)
    lanes = results(chosen, "cuda")
    assert [result.status for result in ours] == ["complete", "partial"]
    assert [run.cause for run in ours[1].runs] == [run.cause for run in lanes[1].runs]
    assert [row.digest for row in ours[1].rows] == [row.digest for row in lanes[1].rows]
