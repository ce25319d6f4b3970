"""Results told apart by what the methods were put to: data, fleet and time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from favano.report.collect import NOT_SET, setting, told_apart
from favano.report.result import Result
from favano.report.wording import significant

# What a method meets, as opposed to what it is.
WORLD = (
    "dataset",
    "split",
    "model",
    "clients",
    "fast_fraction",
    "fast_mean",
    "slow_mean",
    "step_law",
    "speed_rounding",
    "speed_order",
    "horizon",
    "normalise",
    "holdout",
)


@dataclass(frozen=True)
class Setting:
    """Results whose differences say something about the methods alone.

    `title` is what tells it from the others, empty where there is no other.
    """

    title: str
    results: tuple[Result, ...]


def by_setting(results: Sequence[Result]) -> list[Setting]:
    """Settings in order of appearance, the methods in each named anew."""
    groups: list[list[Result]] = []
    for result in results:
        home = next((group for group in groups if agree(group[0], result)), None)
        if home is None:
            groups.append([result])
        else:
            home.append(result)
    firsts = [group[0] for group in groups]
    keys = [key for key in WORLD if len({setting(first, key) for first in firsts}) > 1]
    return [Setting(_title(group[0], keys), tuple(told_apart(group))) for group in groups]


def agree(one: Result, other: Result) -> bool:
    """Whether two results are of one setting; a key that only one of them has does not count."""
    both = [key for key in WORLD if key in one.spec and key in other.spec]
    return all(setting(one, key) == setting(other, key) for key in both)


def _title(result: Result, keys: Sequence[str]) -> str:
    """The keys in words; the data set speaks for itself.

    A fraction is rounded to three digits, which is enough to tell one from another.
    """
    words = []
    for key in keys:
        value = result.spec.get(key)
        text = significant(value) if isinstance(value, float) else setting(result, key)
        if text != NOT_SET:
            words.append(text if key == "dataset" else f"{key.replace('_', ' ')} {text}")
    return ", ".join(words)
