"""The programs of all runs of a pool as one table: what the device does, wave by wave.

Models get rows of memory by their lifetime: a row is used again once nothing reads it any more.
Waves are divided into chunks. What a chunk needs beside its rows is made when it is launched, and
its versions are reported when it has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from favano.engine.held_models import Seen
from favano.engine.program import RunProgram, Sums
from favano.types import Floats, Ints

_JOBS_PER_CHUNK = 1 << 15
_NEVER = -9  # before all phases


class Jobs(NamedTuple):
    """Jobs in the order in which they are trained, (j,) each: by wave, the longest first."""

    run: Ints
    number: Ints  # within the run
    start: Ints  # row
    end: Ints  # row


class RowSums(NamedTuple):
    """Sums of rows, in the order in which they are made."""

    run: Ints  # (m,)
    version: Ints  # (m,) the version that each is, or belongs to
    row: Ints  # (m,) where it is stored
    first: Ints  # (m + 1,) place of its first term
    terms: Ints  # (t,) rows
    weights: Floats | None
    segments: Ints  # (s + 1,) first sum of each segment; those of one follow one another
    waves: Ints  # (W + 1,) first segment of each wave


class Report(NamedTuple):
    """A version that is reported at the end of a chunk."""

    run: int
    version: int
    server: int  # row
    held: list[tuple[Ints, Ints]]  # rows that clients hold at its evaluations, and how many do


@dataclass(frozen=True)
class WaveTable:
    """All that the device does for the runs of a pool."""

    rows: int  # models in memory
    given: Ints  # (g,) rows of the models at the start, run by run
    jobs: Jobs
    waves: Ints  # (W + 1,) first job of each wave
    versions: RowSums
    own: RowSums  # models that clients continue from
    chunks: Ints  # (C + 1,) first wave of each chunk; the first has none
    reports: list[list[Report]]  # of each chunk, versions of a run in order
    row: list[Ints]  # of each run's models; those of rows that are used again have no meaning


def make_table(
    programs: Sequence[RunProgram], steps: Sequence[Ints], orders: Sequence[Ints], most: int
) -> WaveTable:
    """Put programs together.

    Args:
        programs: of the runs.
        steps: (J,) local steps of each run's jobs.
        orders: (j,) orders of samples that each trained job needs.
        most: orders that are drawn at once.
    """
    base = np.cumsum([0, *(program.models for program in programs)])
    run = np.repeat(np.arange(len(programs)), [len(program.jobs) for program in programs])
    wave, number, start, end = (
        np.concatenate([getattr(program, name) for program in programs])
        for name in ("wave", "jobs", "start", "end")
    )
    length = np.concatenate([made[p.jobs] for p, made in zip(programs, steps, strict=True)])
    order = np.lexsort((-length, wave))
    run, number, wave = run[order], number[order], wave[order]
    start, end = (start[order] + base[run]), (end[order] + base[run])
    count = max(int(program.level[-1]) for program in programs)
    waves = np.searchsorted(wave, np.arange(count + 1))
    chunks = _chunks(waves, np.cumsum(np.append(0, np.concatenate(orders)[order]))[waves], most)

    numbers = np.arange(len(programs))
    versions = _together([p.versions for p in programs], numbers, base)
    owns = [(n, p.own) for n, p in enumerate(programs) if p.own is not None]
    own = _together([sums for _, sums in owns], np.array([n for n, _ in owns]), base)
    given = np.concatenate([base[n] + np.arange(p.given) for n, p in enumerate(programs)])
    # Three phases per wave: training, sums, reports.
    birth, last = np.full(base[-1], _NEVER), np.full(base[-1], _NEVER)
    birth[given], birth[end] = _NEVER + 1, 3 * wave
    for sums in (versions, own):
        phase = 3 * sums.level - 2
        birth[sums.model] = phase
        np.maximum.at(last, sums.terms, np.repeat(phase, np.diff(sums.first)))
    np.maximum.at(last, start, 3 * wave)
    reports: list[list[tuple[int, Seen]]] = [[] for _ in chunks[1:]]
    for index, program in enumerate(programs):
        level = np.maximum(program.level - 1, -1)
        chunk = np.where(level < 0, 0, np.searchsorted(chunks[2:], level, side="right") + 1)
        until = 3 * chunks[np.minimum(chunk + 2, len(chunks) - 1)] - 1  # while the next one runs
        for seen in program.seen:
            place = seen.version - program.first + 1
            reports[int(chunk[place])].append((index, seen))
            for models in (base[index] + seen.alive, base[index] + seen.server):
                last[models] = np.maximum(last[models], until[place])
        models, version = program.kept
        np.maximum.at(last, base[index] + models, until[version - program.first + 1])
    made, row = np.flatnonzero(birth > _NEVER), np.full(base[-1], -1)
    row[made], rows = assign_rows(birth[made], np.maximum(birth, last)[made])
    return WaveTable(
        rows,
        row[given],
        Jobs(run, number, row[start], row[end]),
        waves,
        _row_sums(versions, row, count, chained=True),
        _row_sums(own, row, count, chained=False),
        chunks,
        [[_report(n, seen, row[base[n] : base[n + 1]]) for n, seen in some] for some in reports],
        [row[base[n] : base[n + 1]] for n in range(len(programs))],
    )


def _report(run: int, seen: Seen, row: Ints) -> Report:
    held = [(row[models], holders) for models, holders in seen.held]
    return Report(run, seen.version, int(row[seen.server]), held)


def assign_rows(birth: Ints, last: Ints) -> tuple[Ints, int]:
    """A row for each model, and how many there are.

    Args:
        birth: (m,) the phase in which each model is made.
        last: (m,) the last phase that reads it; its row is free in the next one.
    """
    by_birth, by_last = np.argsort(birth, kind="stable"), np.argsort(last, kind="stable")
    phases, begins = np.unique(birth[by_birth], return_index=True)
    ends = np.append(begins[1:], len(birth)).tolist()
    over = np.searchsorted(last[by_last], phases).tolist()
    row, free = np.empty(len(birth), np.int64), np.empty(len(birth), np.int64)
    rows = count = before = 0
    for begin, end, now in zip(begins.tolist(), ends, over, strict=True):
        free[count : count + now - before] = row[by_last[before:now]]
        count, before = count + now - before, now
        new, taken = by_birth[begin:end], min(count, end - begin)
        row[new[:taken]] = free[count - taken : count]
        row[new[taken:]] = np.arange(rows, rows + len(new) - taken)
        rows, count = rows + len(new) - taken, count - taken
    return row, rows


def _chunks(waves: Ints, orders: Ints, most: int) -> Ints:
    """The first wave of each chunk: so many orders and jobs at most, if a wave has no more."""
    chunks = [0, 0]
    begin = 0
    for wave in range(1, len(waves)):
        many = waves[wave] - waves[begin] > _JOBS_PER_CHUNK or orders[wave] - orders[begin] > most
        if many and wave - 1 > begin:
            begin = wave - 1
            chunks.append(begin)
    return np.array([*chunks, len(waves) - 1], dtype=np.int64)


class _PoolSums(NamedTuple):
    """Sums of all runs, in the order of waves; numbers of models are those of the pool."""

    run: Ints
    version: Ints
    level: Ints
    model: Ints
    first: Ints
    terms: Ints
    weights: Floats | None


def _together(sums: Sequence[Sums], runs: Ints, base: Ints) -> _PoolSums:
    """Sums of some runs by level and run; those of a run stay in order."""
    if not sums:
        none = np.zeros(0, np.int64)
        return _PoolSums(none, none, none, none, np.zeros(1, np.int64), none, None)
    counts = [len(part.model) for part in sums]
    run = np.repeat(runs, counts)
    level, version, model = (
        np.concatenate([getattr(part, name) for part in sums])
        for name in ("level", "version", "model")
    )
    order = np.lexsort((np.arange(len(run)), run, level))
    sizes = np.concatenate([np.diff(part.first) for part in sums])
    begins, new = np.cumsum(sizes) - sizes, np.cumsum([0, *sizes[order]])
    place = np.repeat(begins[order] - new[:-1], sizes[order]) + np.arange(new[-1])
    terms = np.concatenate([part.terms + base[run] for part, run in zip(sums, runs, strict=True)])
    weights = [part.weights for part in sums if part.weights is not None]
    return _PoolSums(
        run[order], version[order], level[order], (model + base[run])[order], new, terms[place],
        np.concatenate(weights)[place] if weights else None,
    )  # fmt: skip


def _row_sums(sums: _PoolSums, row: Ints, waves: int, *, chained: bool) -> RowSums:
    """The same with rows; versions of a run in one level need each other, and are a segment."""
    begins = np.ones(len(sums.run), dtype=np.bool_)
    if chained:
        begins[1:] = (np.diff(sums.run) != 0) | (np.diff(sums.level) != 0)
    segments = np.flatnonzero(begins)
    first = np.searchsorted(sums.level[segments] - 1, np.arange(waves + 1))
    return RowSums(
        sums.run, sums.version, row[sums.model], sums.first, row[sums.terms], sums.weights,
        np.append(segments, len(sums.run)), first,
    )  # fmt: skip
