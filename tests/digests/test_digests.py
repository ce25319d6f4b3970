"""Short runs give what they gave when their digests were recorded (`record.py`)."""

from __future__ import annotations

import pytest

from tests.digests.record import digests_of, read, this_machine
from tests.digests.runs import RUNS

RECORD = read()
SAME_MACHINE = this_machine() == {key: value for key, value in RECORD.items() if key != "runs"}


@pytest.mark.quick("default-favano-delta", "default-fedasync", "default-fednova")
@pytest.mark.parametrize("name", RUNS)
def test_a_run_gives_what_was_recorded(name: str) -> None:
    """Its schedule on every machine, all it writes on the machine of the record."""
    digests, expected = digests_of(RUNS[name]), RECORD["runs"][name]
    assert (digests["exit"], digests["schedule"]) == (expected["exit"], expected["schedule"])
    if SAME_MACHINE:
        assert digests == expected


def test_every_run_is_recorded() -> None:
    assert list(RECORD["runs"]) == list(RUNS)
