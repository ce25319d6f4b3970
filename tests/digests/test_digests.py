"""Short runs give what they gave when their digests were recorded (`record.py`)."""

from __future__ import annotations

import pytest

from tests.digests.record import digests_of, read, this_machine
from tests.digests.runs import METHODS, RUNS

QUICK = {f"default-{name}" for name in METHODS}

RECORD = read()
SAME_MACHINE = this_machine() == {key: value for key, value in RECORD.items() if key != "runs"}


def marked(name: str) -> object:
    return pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow)


@pytest.mark.sampled
@pytest.mark.parametrize("name", [marked(name) for name in RUNS])
def test_a_run_gives_what_was_recorded(name: str) -> None:
    """Its schedule on every machine, all it writes on the machine of the record."""
    digests, expected = digests_of(RUNS[name]), RECORD["runs"][name]
    assert (digests["exit"], digests["schedule"]) == (expected["exit"], expected["schedule"])
    if SAME_MACHINE:
        assert digests == expected


def test_every_run_is_recorded() -> None:
    assert list(RECORD["runs"]) == list(RUNS)
