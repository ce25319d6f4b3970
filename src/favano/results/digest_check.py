"""Whether the rows of a result follow each other by their digests. Nothing is executed.

Nothing is computed either: whoever changes a row can chain the others again, which only a repeated
run shows (`favano verify`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import TypeAlias

from favano.errors import BadInput
from favano.methods import all_methods
from favano.methods.favano import Favano
from favano.records import Row, RunRecord, rows_by_seed
from favano.records.chain import NO_DIGESTS, DigestCheck, first_broken
from favano.specification.history_start import history_start
from favano.specification.presets import resolve
from favano.specification.spec import make_spec
from favano.user_classes import only_trusted

Digests: TypeAlias = Mapping[str, str | None]  # of data, files and source


NOT_CHECKED = DigestCheck()


def check_digests(
    keys: Mapping[str, object],
    rows: Iterable[Row],
    ends: Iterable[RunRecord],
    digests: Digests | None,
) -> DigestCheck:
    """Check all seeds of a result, up to the first thing that is wrong.

    Args:
        keys: of the specification.
        rows: all of them, of any seed.
        ends: what is stated of the end of each seed.
        digests: of data, files and source, as the result states them; None: it does not.
    """
    by_seed = rows_by_seed(rows)
    if not any(row.digest for some in by_seed.values() for row in some):
        return NOT_CHECKED
    starts: Mapping[int, str] = {}
    words = "the digest of its data is not stated, so its first row is not checked"
    try:
        if digests is not None:
            starts, words = _starts(keys, by_seed, digests)
    except BadInput as error:
        words = f"its first row is not checked, since its specification cannot be used: {error}"
    final = {end.seed: final_cells(end) for end in ends}
    for seed, some in by_seed.items():
        fault = row_fault(some, starts.get(seed)) or end_fault(some[-1], final.get(seed, {}))
        if fault:
            return DigestCheck("changed", f"seed {seed}: {fault}")
    return DigestCheck("unknown" if words else "agree", words)


def _starts(
    keys: Mapping[str, object], seeds: Iterable[int], digests: Digests
) -> tuple[dict[int, str], str]:
    """Digests before the first rows; none, with the reason, if a file would have to be executed."""
    name = str(keys.get("algorithm", Favano.name))
    if name not in all_methods():
        return {}, start_unknown(name)
    with only_trusted(()):
        spec = resolve(make_spec(keys))
    return {seed: history_start(spec, seed, **digests) for seed in seeds}, ""


def start_unknown(method: str) -> str:
    """Why the start of a chain was not checked."""
    return f"its first row is not checked: for this, {method} would have to be executed"


def row_fault(rows: Sequence[Row], start: str | None) -> str | None:
    """The first wrong digest in the rows of one seed; without a start, from row 2 on."""
    if not all(row.digest for row in rows):
        return NO_DIGESTS
    first = 0 if start is not None else 1
    place = first_broken(rows[first:], start or rows[0].digest)
    if place is None:
        return None
    place += first
    before = row_name(rows, place - 1) if place else "this specification, data and seed"
    return f"{row_name(rows, place)} was changed, or does not follow {before}"


def end_fault(last: Row, final: Mapping[str, object]) -> str | None:
    """The first of the final numbers of a seed that is not in its last row."""
    for name, value in final.items():
        if not same(value, last.cell(name)):
            return f"{name} is {value} in the end, but {last.cell(name)} in its last row"
    return None


def final_cells(end: RunRecord) -> dict[str, object]:
    """Cells of the last row that a summary states again."""
    return {
        **end.metrics,
        "loss": end.loss,
        "variance": end.variance,
        "time": end.time,
        "server_step": end.server_steps,
        "local_steps": end.local_steps,
        "bits_up": end.bits_up,
        "bits_down": end.bits_down,
        **({} if end.energy is None else {"energy": end.energy}),
    }


def row_name(rows: Sequence[Row], place: int) -> str:
    """A row for people: its number, from 1 for each seed, and its time."""
    return f"row {place + 1} (time {rows[place].time:,g})"


def same(cell: object, other: object) -> bool:
    """Whether two cells are equal; numbers that are not finite are not told apart, as in JSON."""
    return cell == other or not (_is_known(cell) or _is_known(other))


def _is_known(cell: object) -> bool:
    return cell is not None and not (isinstance(cell, float) and not isfinite(cell))
