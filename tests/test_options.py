"""Options: values that describe themselves, and are checked when they are given."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Literal

import numpy as np
import pytest

from favano.errors import BadInput, require
from favano.options import (
    Count,
    Options,
    PositiveTime,
    PositiveUnitInterval,
    Rate,
    Time,
    UnitInterval,
    Whole,
    did_you_mean,
    option,
    options_of,
)


class Oven(Options):
    """A group of values of all kinds."""

    trays: Count = option(2, "how many trays", symbol="t")
    spare: Whole = option(0, "trays beside it")
    heat: Rate = option(1.5, "how hot", source="the manual")
    pause: Time = option(0.0, "between two cakes")
    minutes: PositiveTime | None = option(None, "how long", otherwise="until it is done")
    share: UnitInterval = option(0.5, "of the butter")
    most: PositiveUnitInterval = option(1.0, "of the sugar")
    mode: Literal["fan", "grill"] = option("fan", "where the heat comes from")
    other: Literal["none", "all"] | None = option(None, "which lights are on")
    fan: bool = option(False, "whether the fan turns")
    name: str = option("", "what it is called")
    times: tuple[PositiveTime, ...] = option((), "of each cake")

    def check(self) -> None:
        require(not (self.mode == "grill" and self.fan), "fan", self.fan, "requires mode=fan")


def test_values_have_defaults_and_are_given_by_name() -> None:
    oven = Oven()
    assert (oven.trays, oven.minutes, oven.mode, oven.times) == (2, None, "fan", ())
    assert Oven(trays=3, mode="grill").trays == 3
    with pytest.raises(BadInput, match="Oven=3: need its name; known: trays"):
        Oven(3)  # type: ignore[call-arg]
    with pytest.raises(BadInput, match=r"tray=3: unknown key; did you mean trays\?$"):
        Oven(tray=3)  # type: ignore[call-arg]


def test_a_group_is_frozen_and_equal_to_one_with_the_same_values() -> None:
    assert Oven(trays=3) == Oven(trays=3) != Oven()
    assert hash(Oven(trays=3)) == hash(Oven(trays=3))
    with pytest.raises(FrozenInstanceError):
        Oven().trays = 3  # type: ignore[misc]


def test_what_differs_from_the_defaults_is_given() -> None:
    assert Oven().given == {}
    assert Oven(trays=2, minutes=3.0, mode="grill").given == {"minutes": 3.0, "mode": "grill"}


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("trays", "3", 3),
        ("trays", 3.0, 3),
        ("heat", 2, 2.0),
        ("share", "1/9", 1 / 9),
        ("share", "0.25", 0.25),
        ("most", "2/3", 2 / 3),
        ("fan", "true", True),
        ("times", [1, "2.5"], (1.0, 2.5)),
        ("minutes", None, None),
        ("heat", np.float32(2), 2.0),
        ("trays", np.int64(3), 3),
        ("fan", np.bool_(True), True),
        ("fan", 1, True),
        ("other", "all", "all"),
    ],
)
def test_values_take_their_type(key: str, value: object, expected: object) -> None:
    made = getattr(Oven(**{key: value}), key)  # type: ignore[arg-type]
    assert made == expected
    assert type(made) is type(expected)


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("trays", 0, "trays=0: need greater than or equal to 1"),
        ("trays", 1.5, "trays=1.5: need a valid integer"),
        ("trays", "many", "trays=many: need a valid integer"),
        ("trays", None, "trays=None: need a valid integer"),
        ("spare", -1, "spare=-1: need greater than or equal to 0"),
        ("heat", -0.5, "heat=-0.5: need greater than or equal to 0"),
        ("heat", float("nan"), "heat=nan: need a finite number"),
        ("heat", float("inf"), "heat=inf: need a finite number"),
        ("minutes", 0, "minutes=0: need greater than 0"),
        ("share", "9/8", "share=1.125: need less than or equal to 1"),
        ("share", "1/0", "share=1/0: need a valid number"),
        ("share", "half", "share=half: need a valid number"),
        ("most", 0, "most=0: need greater than 0"),
        ("mode", "steam", "mode=steam: need fan or grill"),
        ("fan", "perhaps", "fan=perhaps: need a valid boolean"),
        ("name", 3, "name=3: need a valid string"),
        ("times", [1, 0], "times.1=0: need greater than 0"),
        ("trays", True, "trays=True: need a number, not true or false"),
        ("heat", False, "heat=False: need a number, not true or false"),
        ("share", True, "share=True: need a number, not true or false"),
        ("minutes", np.bool_(True), "minutes=True: need a number, not true or false"),
        ("times", [1, True], "times.1=True: need a number, not true or false"),
        ("name", True, "name=True: need a valid string"),
    ],
)
def test_wrong_values_are_refused_in_one_sentence(key: str, value: object, rule: str) -> None:
    with pytest.raises(BadInput) as refused:
        Oven(**{key: value})  # type: ignore[arg-type]
    assert str(refused.value).startswith(rule)
    assert "\n" not in str(refused.value)
    assert refused.value.name == rule.split("=")[0]


def test_values_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(BadInput, match="fan=True: requires mode=fan"):
        Oven(mode="grill", fan=True)


def test_options_are_described_in_order() -> None:
    options = options_of(Oven)
    assert list(options)[:3] == ["trays", "spare", "heat"]
    assert options["trays"].text == "how many trays"
    assert (options["trays"].symbol, options["heat"].source) == ("t", "the manual")
    assert options_of(Oven) is options


def test_defaults_as_they_are_printed() -> None:
    shown = {name: declared.shown_default for name, declared in options_of(Oven).items()}
    assert shown["trays"] == "2"
    assert shown["heat"] == "1.5"
    assert shown["spare"] == "0"
    assert shown["pause"] == "0"
    assert shown["minutes"] == "until it is done"
    assert shown["fan"] == "False"
    assert [shown[name] for name in ("other", "name", "times")] == ["", "", ""]


def test_what_values_may_be() -> None:
    values = {name: declared.values for name, declared in options_of(Oven).items()}
    assert values["mode"] == "fan|grill"
    assert values["other"] == "none|all"
    assert [values[name] for name in ("trays", "spare")] == ["N", "N"]
    assert {values[name] for name in ("heat", "pause", "minutes", "share")} == {"X"}
    assert values["times"] == "X,X,..."
    assert values["name"] == "TEXT"


def test_classes_know_their_own_options_only() -> None:
    class Small(Options):
        """One value."""

        size: Count = option(1, "how large")

    class Large(Small):
        """One more."""

        depth: Count = option(2, "how deep")

    assert list(options_of(Small)) == ["size"]
    assert list(options_of(Large)) == ["size", "depth"]
    assert Large(depth=3).given == {"depth": 3}
    assert Small.__doc__ == "One value."


def test_a_class_without_a_word_has_none_made_up() -> None:
    class Bare(Options):
        size: Count = option(1, "how large")

    assert Bare.__doc__ is None


def test_what_was_probably_meant() -> None:
    assert did_you_mean("tray", ["trays", "heat"]) == "did you mean trays?"
    assert did_you_mean("lr", ["trays", "learning_rate"]) == "did you mean learning_rate?"
    assert "lr" not in did_you_mean("lr", ["trays"])
    many = [f"key_{number}" for number in range(70)]
    assert did_you_mean("xyz", many) == "there are 70 others; favano run --help-all explains them"
    assert did_you_mean("xyz", ["trays", "heat"]) == "known: trays, heat"
