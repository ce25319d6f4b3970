"""`favano.verify`: the files of a result are checked against each other, and its runs repeated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from favano.errors import need
from favano.methods import AMethod, as_method
from favano.records import Row, as_path
from favano.run.problem import Problem, as_problem
from favano.run.progress import Progress
from favano.run.repetition import Repetition
from favano.run.row_comparison import NOISE, Seed
from favano.run.statement import Statement, contradiction, read_statements, row_name


@dataclass(frozen=True)
class Verdict:
    """What was found out about one seed of a result."""

    path: Path  # of the result
    method: str
    seed: int
    rows: int  # in the file
    proved: int  # rows that were computed again and found right
    difference: str | None  # the first one
    words: str  # the whole verdict

    @property
    def right(self) -> bool:
        """Whether nothing is wrong."""
        return self.difference is None


def verify(
    folder: Path | str,
    problem: Problem | str | None = None,
    *,
    methods: Sequence[AMethod] = (),
    chain_only: bool = False,
    from_checkpoints: bool = False,
    progress: Progress | None = None,
) -> list[Verdict]:
    """Check a result of a run, of a comparison or of `favano reproduce`; nothing is written.

    Its files are checked against each other: a row that was changed has a wrong digest. Then its
    runs are repeated and compared row by row, up to the first row that differs.

    Args:
        folder: of the result.
        problem: of the runs, if they had a network, data or metrics of their own.
        methods: of the runs, if they were classes in Python.
        chain_only: only check the files against each other.
        from_checkpoints: repeat only what follows the oldest checkpoints that are there.
        progress: is told how far the runs are.
    """
    both = chain_only and from_checkpoints
    need(not both, "from_checkpoints", True, "nothing is computed again with chain_only")
    given = Problem() if problem is None else as_problem(problem)
    repetition = Repetition(given, progress, from_checkpoints=from_checkpoints)
    verdicts = []
    own = {one.name: type(one) for one in map(as_method, methods)}
    for stated in read_statements(as_path("folder", folder), own):
        seeds = {number: _checked(stated, number, chain_only) for number in stated.seeds}
        other_tools = None
        if not chain_only and any(seed.difference is None for seed in seeds.values()):
            other_tools = repetition.compare(stated, seeds)
        for number, seed in seeds.items():
            words = seed.difference or _praise(seed, other_tools)
            found = (len(seed.rows), seed.compared, seed.difference, words)
            verdicts.append(Verdict(stated.path, stated.spec.name, number, *found))
    return verdicts


def _checked(stated: Statement, number: int, chain_only: bool) -> Seed:
    """A seed, with what is wrong without any computation."""
    rows, difference = stated.rows.get(number, ()), contradiction(stated, number)
    if chain_only and difference is None and not rows[-1].digest:
        difference = "has no digests, so nothing is proved"
    return Seed(rows, difference=difference)


def _praise(seed: Seed, other_tools: str | None) -> str:
    """What is right about a seed; `other_tools` is None if nothing was computed again."""
    if other_tools is None:
        return f"{_rows(len(seed.rows))} and their digests agree"
    parts = [f"{_rows(seed.equal)} proved"] if seed.equal or not seed.close else []
    if seed.close:
        parts.append(
            f"{_rows(seed.close)} right within {100 * NOISE:.0f} %, not to the bit: {other_tools}"
        )
    if before := seed.rows[: seed.first]:
        parts.append(f"{_span(before)} not proved: before its checkpoint")
    return "; ".join(parts)


def _span(rows: Sequence[Row]) -> str:
    """The first rows of a seed, by number and time."""
    if len(rows) == 1:
        return row_name(rows, 0)
    return f"rows 1 to {len(rows)} (times {rows[0].time:,g} to {rows[-1].time:,g})"


def _rows(count: int) -> str:
    return f"{count} row" if count == 1 else f"{count} rows"
