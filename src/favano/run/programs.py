"""Runs that the device makes as programs, without a decision on the host."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import torch

from favano.engine import RunEvent, WaveEngine, plan_run
from favano.notices import notice
from favano.run.seed_run import SeedRun
from favano.training import FlatModel, whole_jobs
from favano.types import Precision


def programmed(
    flat: FlatModel, runs: Sequence[SeedRun], precision: Precision, most: int
) -> Generator[RunEvent, None, list[int]]:
    """The moments of all runs that can be programs; returns the numbers of the others.

    A run whose models are not finite is one of these, or one for which memory is short: it begins
    again, from where it was here.

    Args:
        flat: the network.
        runs: any runs on a GPU, with batches in the order of epochs.
        precision: of products.
        most: models for which there is memory.
    """
    possible = [number for number, run in enumerate(runs) if _is_plain(run)]
    if not possible or whole_jobs(flat, [runs[possible[0]].trainer], precision) is None:
        return list(range(len(runs)))
    programs = {}
    for number in possible:
        recorder = runs[number].recorder
        program = plan_run(runs[number].aggregator, recorder.times[recorder.count :])
        if program is not None:
            programs[number] = program
    left = [number for number in range(len(runs)) if number not in programs]
    waiting = [list(programs)] if programs else []
    while waiting:
        numbers = waiting.pop()
        some = [runs[number] for number in numbers]
        trainer = whole_jobs(flat, [run.trainer for run in some], precision)
        assert trainer is not None
        aggregators, score = [run.aggregator for run in some], some[0].evaluate.measure_all
        waves = WaveEngine(aggregators, [programs[n] for n in numbers], trainer, score)
        if waves.rows > most and len(numbers) > 1:  # fewer runs at a time
            half = len(numbers) // 2
            waiting += [numbers[half:], numbers[:half]]
            continue
        go_back = [run.mark() for run in some]
        try:
            if waves.rows > most:
                raise torch.cuda.OutOfMemoryError
            for step in waves.events():
                yield step._replace(run=numbers[step.run])
        except torch.cuda.OutOfMemoryError:
            waves.failed |= [not run.over for run in some]
            count = int(waves.failed.sum())
            runs_left = "a run shares" if count == 1 else f"{count} runs share"
            notice(f"memory is short for a program; {runs_left} lanes, which takes longer")
        for place, failed in enumerate(waves.failed.tolist()):
            if failed:
                go_back[place]()
                left.append(numbers[place])
            else:
                aggregators[place].resume_point = None
    return sorted(left)


def _is_plain(run: SeedRun) -> bool:
    """Whether nothing but jobs, server steps and scores of server models is asked of a run."""
    rule, recorder = run.trainer.rule, run.recorder
    alone = recorder.live is not None or run.judge is not run.evaluate
    refined = rule.refinement is not None or rule.corrected or run.trainer.measures_loss
    return not (alone or refined or run.tracker is not None)
