"""Results grouped by setting: the same data, fleet and simulated time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from favano.report.collection import NOT_SET, disambiguated, setting
from favano.report.result import Result
from favano.report.wording import significant

# Keys of the setting, as opposed to those of the method.
WORLD = (
    "dataset", "split", "model", "clients", "fast_fraction", "fast_mean", "slow_mean", "step_law",
    "speed_rounding", "speed_order", "horizon", "normalise", "holdout", "evaluate_on",
)  # fmt: skip


@dataclass(frozen=True)
class ReportSetting:
    """Results that differ in the method only; the title is empty if there is no other setting."""

    title: str
    results: tuple[Result, ...]


def by_setting(results: Sequence[Result]) -> list[ReportSetting]:
    """Settings in order of appearance, with new names for the results in each."""
    groups: list[list[Result]] = []
    for result in results:
        for group in groups:
            if agree(group[0], result):
                group.append(result)
                break
        else:
            groups.append([result])
    keys = [key for key in WORLD if len({setting(group[0], key) for group in groups}) > 1]
    return [ReportSetting(_title(group[0], keys), tuple(disambiguated(group))) for group in groups]


def agree(result: Result, other: Result) -> bool:
    """Whether two results belong to one setting; a key that only one of them has is ignored."""
    both = [key for key in WORLD if key in result.spec and key in other.spec]
    return result.leading == other.leading and all(
        setting(result, key) == setting(other, key) for key in both
    )


def _title(result: Result, keys: Sequence[str]) -> str:
    """The values of the keys in words; numbers have three digits, enough to tell them apart."""
    words = []
    for key in keys:
        value = result.spec.get(key)
        text = significant(value) if isinstance(value, float) else setting(result, key)
        if text != NOT_SET:
            words.append(text if key == "dataset" else f"{key.replace('_', ' ')} {text}")
    return ", ".join(words)
