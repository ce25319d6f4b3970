"""Colours can be read: WCAG's contrast for text, in light and dark."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

STYLE = files("favano.report").joinpath("static", "page.css").read_text(encoding="utf-8")
LIGHT, DARK = (
    dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
    for block in re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
)


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2.2 defines it."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(colour: str, other: str) -> float:
    high, low = sorted((luminance(colour), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_text_has_contrast(colours: dict[str, str]) -> None:
    pairs = [(text, "ground") for text in ("ink", "quiet", "accent", *(f"c{k}" for k in range(7)))]
    pairs += [("ink", "panel"), ("quiet", "panel"), ("on-accent", "accent")]
    pairs += [("warn-ink", "warn-ground"), ("lack-ink", "lack-ground")]
    weak = {pair: contrast(colours[pair[0]], colours[pair[1]]) for pair in pairs}
    assert {pair: value for pair, value in weak.items() if value < 4.5} == {}


def test_both_schemes_name_the_same_colours() -> None:
    assert LIGHT.keys() == DARK.keys()
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
