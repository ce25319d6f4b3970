"""Final numbers on the page: a table a setting, and one of all settings where there are several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from favano.report.cells import cells, columns, difference_words
from favano.report.fragments import name, table
from favano.report.palette import Look
from favano.report.result import Result
from favano.report.settings import Setting
from favano.report.table import final_lines, paired, reference
from favano.report.wording import DASH

_FIT = 6  # settings that a screen is wide enough for


def final_tables(settings: Sequence[Setting], looks: Mapping[str, Look]) -> str:
    """The last numbers of every result, differences against the first method of its setting."""
    return "".join(_final(index, setting, looks) for index, setting in enumerate(settings))


def _final(index: int, setting: Setting, looks: Mapping[str, Look]) -> str:
    against, headings = reference(setting.results), columns(setting.results)
    rows = []
    for line in final_lines(setting.results):
        words = cells(line, against)
        lead = name(line.result, looks[line.result.title])
        rows.append((lead, [escape(words[key]) for key in headings]))
    caption, unseen = setting.title or "Final numbers of each method", not setting.title
    return table(caption, "method", headings, rows, setting=index, unseen=unseen)


def overview(settings: Sequence[Setting], looks: Mapping[str, Look]) -> str:
    """Accuracy of every method in every setting; nothing where there is one setting."""
    if len(settings) < 2:
        return ""
    found = [
        {line.result.title: (line.result, cells(line, None)) for line in final_lines(each.results)}
        for each in settings
    ]
    rows = []
    for title, look in looks.items():
        texts = [column[title][1]["accuracy"] if title in column else DASH for column in found]
        result = next(column[title][0] for column in found if title in column)
        alone = Result(result.name, result.folder, result.spec, (), (), "complete")
        rows.append((name(alone, look), [escape(text) for text in texts]))
    headings = {f"setting-{index}": each.title for index, each in enumerate(settings)}
    caption = "Accuracy in %, all settings"
    all_of_them = table(caption, "method", headings, rows)
    if len(settings) <= _FIT:
        return all_of_them
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{caption}">{all_of_them}</div>'
    )


def differences(setting: Setting) -> dict[str, list[str]]:
    """The column of differences in words against each method that has numbers, by its title."""
    return {
        against.title: [
            "reference" if result is against else difference_words(paired(result, against))
            for result in setting.results
        ]
        for against in setting.results
        if against.runs
    }
