"""What results have in common and what tells them apart: settings, and names beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from pathlib import Path
from typing import TypeVar

from favano.report.reported_result import ReportedResult
from favano.report.wording import significant

Named = TypeVar("Named", bound=ReportedResult)
NOT_SET = "not set"
_FEW, _MOST = 3, 4  # keys in a name: all of them up to the first number, else at most the second

# Keys of the setting, as opposed to those of the method.
WORLD = (
    "dataset", "split", "model", "clients", "fast_fraction", "fast_mean", "slow_mean", "step_law",
    "speed_rounding", "speed_order", "horizon", "normalise", "holdout", "evaluate_on",
)  # fmt: skip


@dataclass(frozen=True)
class ReportSetting:
    """Results that differ in the method only; the title is empty if there is no other setting."""

    title: str
    results: tuple[ReportedResult, ...]


def by_setting(results: Sequence[ReportedResult]) -> list[ReportSetting]:
    """Settings in order of appearance, with new names for the results in each."""
    groups: list[list[ReportedResult]] = []
    for result in results:
        for group in groups:
            if agree(group[0], result):
                group.append(result)
                break
        else:
            groups.append([result])
    keys = [key for key in WORLD if len({setting(group[0], key) for group in groups}) > 1]
    return [ReportSetting(_title(group[0], keys), tuple(disambiguated(group))) for group in groups]


def agree(result: ReportedResult, other: ReportedResult) -> bool:
    """Whether two results belong to one setting; a key that only one of them has is ignored."""
    both = [key for key in WORLD if key in result.keys and key in other.keys]
    return result.leading == other.leading and all(
        setting(result, key) == setting(other, key) for key in both
    )


def _title(result: ReportedResult, keys: Sequence[str]) -> str:
    """The values of the keys in words; numbers have three digits, enough to tell them apart."""
    words = []
    for key in keys:
        value = result.keys.get(key)
        text = significant(value) if isinstance(value, float) else setting(result, key)
        if text != NOT_SET:
            words.append(text if key == "dataset" else f"{key.replace('_', ' ')} {text}")
    return ", ".join(words)


def differing_keys(results: Sequence[ReportedResult]) -> list[str]:
    """Keys whose value is not the same in all specifications, in order of appearance."""
    keys = dict.fromkeys(key for result in results for key in result.keys)
    return [key for key in keys if len({setting(result, key) for result in results}) > 1]


def setting(result: ReportedResult, key: str) -> str:
    """One value of a specification in words; `not set` if the key is absent."""
    if key not in result.keys:
        return NOT_SET
    value = result.keys[key]
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return ", ".join(str(item) for item in value) or "none"
    return str(value)


def disambiguated(results: Sequence[Named]) -> list[Named]:
    """The results, with distinct names for those of the same method."""
    groups: dict[str, list[ReportedResult]] = {}
    for result in results:
        groups.setdefault(result.algorithm, []).append(result)
    notes = {algorithm: iter(_notes(alike)) for algorithm, alike in groups.items()}
    return [result.noted(next(notes[result.algorithm])) for result in results]


def _notes(alike: Sequence[ReportedResult]) -> list[str]:
    """What tells results of one method apart, as notes in brackets.

    The first of these that suffices: one key, all differing keys if there are few, several keys,
    the folder.
    """
    if len(alike) == 1:
        return [""]
    keys = sorted(differing_keys(alike), key=lambda key: key == "seeds")  # says least, so last
    words = {
        key: [f"{key.replace('_', ' ')} {setting(result, key)}" for result in alike] for key in keys
    }
    few = [tuple(keys)] if len(keys) <= _FEW else []
    some = chain.from_iterable(combinations(keys, size) for size in range(2, _MOST + 1))
    for choice in chain(((key,) for key in keys), few, some):
        notes = [", ".join(row) for row in zip(*(words[key] for key in choice), strict=True)]
        if len(set(notes)) == len(alike):
            return [f" ({note})" for note in notes]
    places = [result.folder or Path(str(number)) for number, result in enumerate(alike, start=1)]
    paths = [place.resolve().parts for place in places]
    for depth in range(1, max(map(len, paths)) + 1):
        ends = ["/".join(parts[-depth:]) for parts in paths]
        if len(set(ends)) == len(alike):
            return [f" ({end})" for end in ends]
    raise AssertionError("two results in one folder")
