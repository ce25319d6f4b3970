"""The chain of digests in a history: the digest of a row goes on from that of the row before it.

    d_0 = H(what the run is made of, seed)        d_k = H(d_(k-1), row k)

A row holds the digest of its server model, so the chain can be checked without any model. Nothing
here is secret: whoever changes a row can chain the history again, but a recomputed run will have
other digests. Of SHA-256, 64 bits are shown: to find another model with the digest of a given one,
some 2^64 would have to be tried.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from favano.records.document import to_json
from favano.records.history import Row, columns

FORMAT: Final = 1
_DIGITS: Final = 16
NO_DIGESTS: Final = "has no digests, so nothing is proved"


class DigestCheck(NamedTuple):
    """What the digests of a result show."""

    status: Literal["agree", "changed", "unknown"] = "unknown"
    words: str = NO_DIGESTS  # what is wrong, or what could not be checked; else empty


def short_digest(content: bytes | memoryview) -> str:
    """The first 64 bits of SHA-256, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


def running_digests(parts: Iterable[bytes | memoryview]) -> Iterator[str]:
    """The digests of the first part, of the first two, and so on."""
    running = hashlib.sha256()
    for part in parts:
        running.update(part)
        yield running.hexdigest()[:_DIGITS]


def chain_start(parts: Mapping[str, str | None], seed: int) -> str:
    """The digest before the first row of a seed, from the digests of all that defines its run."""
    return short_digest(to_json({"format": FORMAT, "seed": seed, **parts}).encode())


def link(before: str, row: Row) -> str:
    """The digest of a row after another one.

    It is made of the numbers in the row, with their names; as in JSON, null stands for all numbers
    that are not finite.
    """
    cells = {name: row.cell(name) for name in columns(row) if name != "digest"}
    return short_digest(to_json([before, cells]).encode())


def first_broken(rows: Sequence[Row], start: str) -> int | None:
    """Place of the first row whose digest is wrong; None if there is none."""
    before = start
    for place, row in enumerate(rows):
        if link(before, row) != row.digest:
            return place
        before = row.digest
    return None
