from __future__ import annotations

import json
from pathlib import Path

import pytest

from favano.errors import BadInput
from favano.report import collect, read_result, write_page

from .conftest import a_participation


def test_it_is_read_with_the_rest(compared: Path) -> None:
    found = read_result(compared / "favano").participation
    assert found is not None
    assert [speed.name for speed in found.speeds] == ["fast", "slow"]
    assert found.listed.contacts == (1, 3, 1)
    assert found.staleness.counts == ((2, 1, 0), (0, 1, 1))
    assert read_result(compared / "fedbuff").participation is None


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"listed": {**a_participation()["listed"], "speed": [1, 0, 7]}}, "a speed that is not"),  # type: ignore[dict-item]
        ({"listed": {**a_participation()["listed"], "steps": [1]}}, "not equally long"),  # type: ignore[dict-item]
        ({"speeds": None}, "damaged: speeds"),
    ],
)
def test_a_damaged_file_is_refused(
    compared: Path, change: dict[str, object], complaint: str
) -> None:
    path = compared / "favano" / "participation.json"
    path.write_text(json.dumps(a_participation() | change))
    with pytest.raises(BadInput, match=complaint):
        read_result(compared / "favano")


def test_weights_that_are_not_finite_do_not_break_the_page(compared: Path, tmp_path: Path) -> None:
    found = json.loads((compared / "favano" / "participation.json").read_text())
    found["listed"]["weight"][1] = found["speeds"][0]["weight"] = None
    (compared / "favano" / "participation.json").write_text(json.dumps(found))
    write_page(collect([compared]), tmp_path / "page.html", "Not finite")
    assert "not finite" in (tmp_path / "page.html").read_text()
