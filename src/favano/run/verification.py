"""`favano.verify`: the files of a result are checked against each other, and its runs repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from favano import __version__
from favano.errors import require
from favano.methods import AMethod, as_method
from favano.policies.registry import APolicy, as_policy
from favano.policies.selection_names import ASelection, as_selection
from favano.records import CostRecord, Row, as_path
from favano.records.folder import BOUND, MODEL, PARTICIPATION, SPEC, SUMMARY
from favano.results.digest_check import row_name, start_unknown
from favano.run.file_comparison import NOT_COVERED, FileComparison, Files
from favano.run.problem import Problem, as_problem
from favano.run.progress import Progress
from favano.run.repetition import Repeated, Repetition
from favano.run.row_comparison import Seed, apart_words
from favano.run.stored_result import OwnClasses, StoredResult, contradiction, read_statements
from favano.specification.spec import required
from favano.transforms import ATransform, as_transform
from favano.user_classes import only_trusted

Outcome: TypeAlias = Literal["proved", "agrees", "not proved", "wrong"]
_EARLY = ("partial", "stopped")
_SHOWN, _NAMED = 3, 10  # differences in a verdict, other files
_MORE = 1 << 20  # bytes that the header of a model file may have more
_BY_DIGESTS = (  # what the digests alone do not show
    "that the runs give these rows",
    f"in {SUMMARY} all but the final numbers of the seeds",
    f"names, shapes and constant buffers in {MODEL}",
    PARTICIPATION,
    BOUND,
    f"in {SPEC} horizon, kernels, engine, device and label",
)


@dataclass(frozen=True)
class Verdict:
    """What was found out about one seed of a result, or about all else in its files."""

    path: Path  # of the result
    method: str
    seed: int | None  # None: all else that the files state
    rows: int  # in the file
    proved: int  # rows that were computed again and found equal to the bit
    outcome: Outcome  # `agrees`: nothing was computed; `not proved`: close, but not to the bit
    words: str  # the whole verdict
    not_covered: tuple[str, ...] = ()  # what the files state besides, in words

    @property
    def right(self) -> bool:
        """Whether all is as it should be; numbers that are merely close are not."""
        return self.outcome in ("proved", "agrees")


def verify(
    folder: Path | str,
    problem: Problem | str | None = None,
    *,
    methods: Sequence[AMethod] = (),
    server: Sequence[ATransform] = (),
    selection: ASelection | None = None,
    policies: Sequence[APolicy] = (),
    trust: Sequence[Path | str] | Path | str = (),
    chain_only: bool = False,
    from_checkpoints: bool = False,
    progress: Progress | None = None,
) -> list[Verdict]:
    """Check a result of a run, of a comparison or of `favano reproduce`; nothing is written.

    Its files are checked against each other: a row that was changed has a wrong digest. Then its
    runs are repeated, rows are compared up to the first one that differs, and all that the files
    state is compared with what the repeated runs would write. What cannot be repeated, such as
    seconds, is in `not_covered`.

    Args:
        folder: of the result.
        problem: of the runs, if they had a network, data or metrics of their own.
        methods: of the runs, if they were classes in Python.
        server: transforms of the runs, if they were.
        selection: rule of the runs, if it was.
        policies: of the runs, if they were.
        trust: Python files that may be executed, if the result names them.
        chain_only: only check the files against each other; nothing is executed.
        from_checkpoints: repeat only what follows the oldest checkpoints that are there.
        progress: is told how far the runs are.
    """
    both = chain_only and from_checkpoints
    require(not both, "from_checkpoints", True, "nothing is computed again with chain_only")
    trusted = [trust] if isinstance(trust, Path | str) else list(trust)
    require(not (chain_only and trusted), "trust", trusted, "nothing is executed with chain_only")
    problem_given = Problem() if problem is None else as_problem(problem)
    made = [as_method(method) for method in methods]
    own = OwnClasses(
        {name: type(own) for own in made for name in (own.name, own.import_path) if name},
        {made.name: type(made) for made in map(as_transform, server)},
        {} if selection is None else {(rule := as_selection(selection)).name: type(rule)},
        {made.name: type(made) for made in map(as_policy, policies)},
    )
    path = as_path("folder", folder)
    with only_trusted(as_path("trust", file) for file in trusted):
        stated = read_statements(path, own, execute=not chain_only)
    if chain_only:
        verdicts = [
            _by_digests(statement, number) for statement in stated for number in statement.seeds
        ]
    else:
        repetition = Repetition(problem_given, progress, from_checkpoints=from_checkpoints)
        verdicts = [
            verdict for statement in stated for verdict in _by_repetition(statement, repetition)
        ]
    *first, last = verdicts
    return [*first, replace(last, not_covered=(*last.not_covered, *_other_files(path, stated)))]


def _by_digests(stated: StoredResult, number: int) -> Verdict:
    """What the digests say of a seed."""
    rows, wrong = stated.rows.get(number, ()), contradiction(stated, number)
    words = wrong or f"{_rows(len(rows))} and their digests agree"
    if wrong is None and stated.spec is None:
        words += f"; {start_unknown(stated.method)}"
    outcome: Outcome = "wrong" if wrong else "agrees"
    return Verdict(stated.path, stated.method, number, len(rows), 0, outcome, words, _BY_DIGESTS)


def _by_repetition(stated: StoredResult, repetition: Repetition) -> list[Verdict]:
    """What repeated runs say of each seed, and then of the files."""
    horizon = required(required(stated.spec).run.horizon)
    seeds = {}
    for number in stated.seeds:
        rows = stated.rows.get(number, ())
        end = stated.ends[number].status if number in stated.ends else None
        early = end == "stopped" or (end == "partial" and rows and rows[-1].time < horizon)
        seeds[number] = Seed(rows, contradiction(stated, number), ends_early=bool(early))
    repeated = None
    if any(seed.difference is None for seed in seeds.values()):
        repeated = repetition.repeat(stated, seeds)
    verdicts = [_of_seed(stated, number, seed, repeated) for number, seed in seeds.items()]
    if repeated is None or any(seed.difference for seed in seeds.values()):
        words = "not compared, since a seed differs"
        return [*verdicts, Verdict(stated.path, stated.method, None, 0, 0, "wrong", words)]
    return [*verdicts, _of_files(stated, repeated, seeds)]


def _of_seed(stated: StoredResult, number: int, seed: Seed, repeated: Repeated | None) -> Verdict:
    outcome: Outcome = "not proved" if seed.close else "proved"
    if seed.difference is not None:
        outcome, words = "wrong", seed.difference + _other_version(stated)
    else:
        assert repeated is not None
        parts = [f"{_rows(seed.equal)} proved"] if seed.equal or not seed.close else []
        if seed.close:
            parts.append(f"{_rows(seed.close)} not proved to the bit: {repeated.other_tools}")
            parts.append(f"at most apart: {apart_words(seed.apart)}" if seed.apart else "")
        if before := seed.rows[: seed.first]:
            parts.append(f"{_span(before)} not proved: before its checkpoint")
        words = "; ".join(filter(None, parts))
    rest = (len(seed.rows), seed.equal, outcome, words)
    return Verdict(stated.path, stated.method, number, *rest)


def _of_files(stated: StoredResult, repeated: Repeated, seeds: Mapping[int, Seed]) -> Verdict:
    """Whether the files are those that the repeated runs would write."""
    comparison = FileComparison(exact=not repeated.other_tools)
    made = repeated.result.files()
    comparison.compare(_stated_files(stated, made), made)
    shown, more = comparison.differences[:_SHOWN], len(comparison.differences) - _SHOWN
    outcome: Outcome = "proved"
    words = f"all else in {', '.join(sorted(made))} proved"
    if any(seed.first for seed in seeds.values()):
        words += ", if its checkpoints are right"
    if comparison.apart or any(seed.close for seed in seeds.values()):
        outcome = "not proved"
        words = f"not proved to the bit: {repeated.other_tools}"
        if comparison.apart:
            words += f"; at most apart: {apart_words(comparison.apart)}"
    if shown:
        rest = f"; and {more} more" if more > 0 else ""
        outcome, words = "wrong", "; ".join(shown) + rest + _other_version(stated)
    not_covered = _not_covered(stated)
    return Verdict(stated.path, stated.method, None, 0, 0, outcome, words, not_covered)


def _stated_files(stated: StoredResult, made: Files) -> Files:
    """The files of a result; a model file that is much too large is not read."""
    if MODEL not in stated.names:
        return stated.texts
    path = stated.path / MODEL
    size, most = path.stat().st_size, len(made[MODEL]) + _MORE
    require(
        size <= most, "folder", stated.path, f"holds a {MODEL} of {size:,} bytes, need {most:,}"
    )
    return {**stated.texts, MODEL: path.read_bytes()}


def _not_covered(stated: StoredResult) -> tuple[str, ...]:
    left_out = {name: NOT_COVERED[name] for name in stated.names if name in NOT_COVERED}
    if stated.result.lean:
        costs = (f"cost.{name}" for name in CostRecord.__dataclass_fields__)
        left_out[SUMMARY] = (*left_out[SUMMARY], *costs)
    fields = [f"{name}: {', '.join(keys)}" for name, keys in left_out.items()]
    ends = {seed: run.status for seed, run in stated.ends.items()}
    early = [f"seed {seed}: why it ended" for seed, end in ends.items() if end in _EARLY]
    return (*fields, *early)


def _other_files(folder: Path, stated: Sequence[StoredResult]) -> list[str]:
    """What lies in the folder and in its results, but is looked at by nobody."""
    looked_at = {statement.path / name for statement in stated for name in statement.names}
    above = {parent for path in looked_at for parent in path.parents}
    places = {folder, *(path.parent for path in looked_at if path.is_relative_to(folder))}
    others = {path for place in places for path in place.iterdir()} - looked_at - above
    names = sorted(str(path.relative_to(folder)) for path in others)
    return [*names[:_NAMED], *([f"{len(names) - _NAMED} more files"] if names[_NAMED:] else [])]


def _other_version(stated: StoredResult) -> str:
    version = stated.result.summary.favano
    if version == __version__:
        return ""
    return f" (favano {version or 'of an unknown version'} there, {__version__} here)"


def _span(rows: Sequence[Row]) -> str:
    """The first rows of a seed, by number and time."""
    if len(rows) == 1:
        return row_name(rows, 0)
    return f"rows 1 to {len(rows)} (times {rows[0].time:,g} to {rows[-1].time:,g})"


def _rows(count: int) -> str:
    return f"{count} row" if count == 1 else f"{count} rows"
