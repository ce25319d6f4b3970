"""Final numbers on the page: one table per setting, and an overview of several settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from favano.report.cells import cells, columns, difference_words
from favano.report.fragments import name, table
from favano.report.palette import Look
from favano.report.settings import ReportSetting
from favano.report.table import reference
from favano.report.targets import TARGET_COLUMNS, target_cells, target_of
from favano.report.wording import DASH

_FIT = 6  # settings that fit on a screen
_COLUMNS = 8  # the same for columns of final numbers


def final_tables(
    settings: Sequence[ReportSetting], looks: Mapping[str, Look], target: float | None = None
) -> str:
    """The final numbers of every result, with differences against the first method.

    Below them is what each result spent until it reached the target.
    """
    return "".join(
        _final(index, setting, looks) + _to_target(index, setting, looks, target)
        for index, setting in enumerate(settings)
    )


def _final(index: int, setting: ReportSetting, looks: Mapping[str, Look]) -> str:
    against, headings = reference(setting.results), columns(setting.results)
    rows = []
    for result in setting.results:
        words = cells(result, against)
        rows.append((name(result, looks[result.title]), [escape(words[key]) for key in headings]))
    caption, unseen = setting.title or "Final numbers of each method", not setting.title
    made = table(caption, "method", headings, rows, setting=index, unseen=unseen)
    return _scrolled(made, caption) if len(headings) > _COLUMNS else made


def _to_target(
    index: int, setting: ReportSetting, looks: Mapping[str, Look], given: float | None
) -> str:
    """Time, steps and bits to the target; nothing for one method without a given target."""
    target = target_of(setting.results, given)
    if target is None or (given is None and len(setting.results) < 2):
        return ""
    rows = []
    for result in setting.results:
        words = target_cells(result, target)
        rows.append((name(result, looks[result.title]), [words[key] for key in TARGET_COLUMNS]))
    place = f"{setting.title}: to" if setting.title else "To"
    caption = f"{place} {target.words}"
    return table(caption, "method", TARGET_COLUMNS, rows)


def overview(settings: Sequence[ReportSetting], looks: Mapping[str, Look]) -> str:
    """The leading metric of every method in every setting; nothing if there is one setting."""
    if len(settings) < 2:
        return ""
    by_title = [{result.title: result for result in setting.results} for setting in settings]
    rows = []
    for title, look in looks.items():
        here = [results.get(title) for results in by_title]
        texts = [escape(cells(each, None)[each.leading.name]) if each else DASH for each in here]
        first = next(each for each in here if each)
        rows.append((name(first, look, status=False), texts))
    headings = {f"setting-{index}": each.title for index, each in enumerate(settings)}
    caption = f"{_leading(settings)}, all settings"
    whole = table(caption, "method", headings, rows)
    return whole if len(settings) <= _FIT else _scrolled(whole, caption)


def _scrolled(whole: str, caption: str) -> str:
    """A table that is wider than the page."""
    label = escape(caption)
    return f'<div class="wide" role="region" tabindex="0" aria-label="{label}">{whole}</div>'


def _leading(settings: Sequence[ReportSetting]) -> str:
    """The metric of an overview."""
    first, *others = dict.fromkeys(setting.results[0].leading for setting in settings)
    if others:
        return "Leading metric"
    return first.name.capitalize() + (f" in {first.unit}" if first.unit else "")


def differences(setting: ReportSetting) -> dict[str, list[str]]:
    """The column of differences against each method that has numbers, by its title."""
    return {
        against.title: [difference_words(result, against) for result in setting.results]
        for against in setting.results
        if against.final_runs
    }
