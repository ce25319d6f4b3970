from __future__ import annotations

from pathlib import Path

from favano.report import by_setting, collect
from favano.report.palette import colour, mark, methods


def test_neighbours_differ_in_colour_and_in_mark() -> None:
    for number in range(20):
        assert colour(number) != colour(number + 1)
        assert mark(number) != mark(number + 1)


def test_colour_and_mark_together_tell_72_methods_apart() -> None:
    assert len({(colour(number), mark(number)) for number in range(72)}) == 72


def test_methods_are_numbered_as_they_appear(compared: Path) -> None:
    numbers = methods(by_setting(collect([compared])))
    assert numbers == {"FAVANO": 0, "FedAvg": 1, "FedBuff": 2, "QuAFL": 3}
