"""Keys of specifications by which results of a page can be filtered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from favano.report.reported_result import ReportedResult
from favano.report.settings import differing_keys, setting


def filters(results: Sequence[ReportedResult]) -> dict[str, list[str]]:
    """Values in words, by key, of keys that all results have and that put them into groups.

    A key whose values are all different says no more than the names of the results do.
    """
    values = {
        key: list(dict.fromkeys(setting(result, key) for result in results))
        for key in differing_keys(results)
        if all(key in result.keys for result in results)
    }
    return {key: words for key, words in values.items() if len(words) < len(results)}


def filter_controls(found: Mapping[str, Sequence[str]]) -> str:
    """One list of values per key."""
    return "".join(
        f'<label class="filter"><span>{escape(key.replace("_", " "))}</span>'
        f'<select data-key="{escape(key)}" autocomplete="off"><option value="">all</option>'
        + "".join(f'<option value="={escape(word)}">{escape(word)}</option>' for word in words)
        + "</select></label>"
        for key, words in found.items()
    )
