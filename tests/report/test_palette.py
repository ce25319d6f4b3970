"""A method looks the same on every page and in every figure, whoever stands beside it."""

from __future__ import annotations

import re
from importlib.resources import files
from itertools import combinations, permutations
from pathlib import Path

from favano.methods import our_methods
from favano.report import by_setting
from favano.report.palette import COLOURS, DASHES, looks, methods
from favano.results import collect

PAPER = ("favano", "fedavg", "quafl", "fedbuff")


def test_a_method_keeps_its_look_whatever_the_order_and_the_company() -> None:
    alone = {name: looks([name])[name] for name in our_methods()}
    for order in permutations(PAPER):
        assert looks(order) == {name: alone[name] for name in order}
    assert looks(reversed(list(our_methods()))) == alone
    titles = {name: our_methods()[name].title for name in alone}
    assert {titles[name]: look for name, look in alone.items()} == looks(titles.values())


def test_all_methods_differ_in_colour_or_dash() -> None:
    styles = looks(our_methods()).values()
    assert len({(look.colour, look.dash) for look in styles}) == len(our_methods()) == 15
    assert len({(look.colour, look.mark) for look in styles}) == 15


def test_the_papers_four_differ_in_colour_and_in_dash() -> None:
    for look, other in combinations(looks(PAPER).values(), 2):
        assert look.colour != other.colour
        assert look.dash != other.dash


def test_other_names_choose_by_themselves_and_take_nobodys_look() -> None:
    ours = {(look.colour, look.dash) for look in looks(our_methods()).values()}
    labels = [f"method {number}" for number in range(20)]
    together = looks([*labels, *our_methods()])
    pairs = {(together[label].colour, together[label].dash) for label in labels}
    assert len(pairs) == 20
    assert not pairs & ours
    assert looks(["mine"])["mine"] == looks(["favano", "mine"])["mine"]
    assert looks(labels) == looks(labels[::-1])


def test_more_labels_than_pairs_are_still_drawn() -> None:
    assert len(looks(f"label {number}" for number in range(100))) == 100


def test_variants_have_the_colour_of_their_method() -> None:
    styles = looks(["FAVANO", "FAVANO (reweight none)", "FAVANO (reweight deterministic)"])
    assert {look.colour for look in styles.values()} == {looks(["favano"])["favano"].colour}
    assert len({look.dash for look in styles.values()}) == 3


def test_the_style_sheet_has_the_same_colours_and_dashes() -> None:
    style = files("favano.report").joinpath("static", "page.css").read_text(encoding="utf-8")
    light = style.split("@media")[0]
    assert tuple(re.findall(r"--c\d: (#\w{6});", light)) == COLOURS
    dashes = re.findall(r"\.dash-(\d) \.line \{ stroke-dasharray: ([\d. ]+); \}", style)
    assert {int(k): tuple(map(float, text.split())) for k, text in dashes} == {
        number: dash for number, dash in enumerate(DASHES) if dash
    }


def test_methods_of_a_page_are_listed_as_they_appear(compared: Path) -> None:
    listed = methods(by_setting(collect([compared])))
    assert list(listed) == ["FAVANO", "FedAvg", "FedBuff", "QuAFL"]
    assert listed["QuAFL"] == looks(["quafl"])["quafl"]
