"""What is shown of runs that are not the paper's."""

from __future__ import annotations

from dataclasses import replace

from favano.studies.request import Request
from tests.run.small import SMALL


def test_shortened_runs_are_not_held_against_the_paper() -> None:
    assert Request(seeds=1).shown(SMALL) is SMALL
    assert Request(changes={"precision": "float32"}).shown(SMALL) is SMALL
    scaled = Request(scale=0.1).shown(replace(SMALL, note="Read as follows."))
    assert scaled.paper == {}
    assert scaled.note == (
        "Not compared with the paper's numbers: these runs end at time 14 and the paper's at 140, "
        "and they train on 10 % of the data. Read as follows."
    )
    shorter = Request(changes={"horizon": "70"}).shown(SMALL)
    assert shorter.paper == {}
    assert shorter.note.endswith("these runs end at time 70 and the paper's at 140.")
