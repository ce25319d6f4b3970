"""Make the golden records anew: `python -m tests.golden.write [--check] [KIND ...]`.

Prints what has changed, and exits with 1 if something has and `--check` says not to write it.
Another release records the same cases with its sources first on PYTHONPATH.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from tempfile import TemporaryDirectory

os.environ.setdefault("OMP_NUM_THREADS", "1")  # as for all tests

from tests.golden import KINDS
from tests.golden.records import Records


def main(arguments: Sequence[str]) -> int:
    kinds = [word for word in arguments if word != "--check"] or KINDS
    with TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        changes = sum(write(kind, check="--check" in arguments) for kind in kinds)
    print(f"{changes} changes")
    return int(changes > 0 and "--check" in arguments)


def write(name: str, *, check: bool) -> int:
    """Make the records of a kind, and say where they differ; returns in how many places."""
    records, made = Records(name), {}
    if records.missing:
        print(f"{name}: left as it is, since it {records.missing}")
        return 0
    found = [f"{case}: is gone" for case in records.names if case not in records.kind.CASES]
    for case in records.kind.CASES:
        made[case] = records.made(case)
        if case not in records.names:
            found.append(f"{case}: is new")
        else:
            found += [f"{case}: {change}" for change in records.differences(case, made[case])]
    for change in found:
        print(f"{name}, {change}")
    if not check:
        records.write(made)
    return len(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
