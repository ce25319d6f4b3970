"""A program: the table of `tests/run/small.py` in a folder, on this machine or on a cluster."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from favano.cluster import connect
from favano.run.backend import THIS_MACHINE
from favano.studies.reproduce import reproduce
from favano.studies.request import Request
from tests.run.small import FOOTPRINT, SMALL, Quiet


def main() -> None:
    """Make the table."""
    out, *address = sys.argv[1:]
    with connect(address[0]) if address else nullcontext(THIS_MACHINE) as place:
        assert place.call(lambda: 7, "cpu") == 7
        describe = partial(place.call, lambda: FOOTPRINT, "cpu")
        reproduce(
            [SMALL], Request(seeds=1), Path(out), data_dir=None, footprint=describe,
            command="favano test", watcher=Quiet(), place=place,
        )  # fmt: skip


if __name__ == "__main__":
    main()
