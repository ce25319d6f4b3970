"""The final table for the screen, in the width of the screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING

from favano.records import LOSS
from favano.report.cells import cells, columns
from favano.report.findings import optimisers
from favano.report.remarks import remark_sentences
from favano.report.reported_result import ReportedResult
from favano.report.table import reference
from favano.report.targets import TARGET_COLUMNS, Target, target_cells
from favano.report.wording import listed

if TYPE_CHECKING:
    from rich.table import Table


_METHOD = "method"
_HEADING = 9  # characters per line of a heading
_NAMES = (40, 24, 16, 10)  # characters per line of a name, tried from the largest on
_CAPTION = "mean ± standard deviation over seeds, at the horizon"
_PAIRED = "; (paired seeds)"
_TO_TARGET = "means over the seeds that reach it, at their first evaluation that does"


def final_table(results: Sequence[ReportedResult], title: str = "", *, width: int = 80) -> Table:
    """The numbers at the horizon of each result of one setting.

    No word and no number is cut: if the screen is too narrow, some columns are left out, and the
    caption says which.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    against, headings = reference(results), columns(results)
    words = [cells(result, against) for result in results]
    heads = {key: _lines(text, _HEADING) for key, text in headings.items()}
    names, shown = _fitting(results, heads, words, width)
    spared = [text for key, text in headings.items() if key not in shown]
    paired = "difference" in shown and any("(" in row["difference"] for row in words)
    table = Table(
        box=SIMPLE_HEAD,
        show_edge=False,
        title=Text(title, style="bold") if title else None,
        title_justify="left",
        padding=(0, 0),
        caption=Text(_caption(results, spared, paired=paired), style="table.caption"),
        caption_justify="left",
    )
    table.add_column(_METHOD, overflow="fold")
    for key in shown:
        table.add_column(Text(heads[key]), justify="right", no_wrap=True)
    for result, text, row in zip(results, names, words, strict=True):
        name = Text(text)
        if result.status != "complete":
            name.stylize("bold yellow", len(text) - len(result.status))
        table.add_row(name, *(Text(row[key]) for key in shown))
    return table


def target_table(results: Sequence[ReportedResult], target: Target) -> Table:
    """Time, steps and bits until each result reaches a target."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=SIMPLE_HEAD,
        show_edge=False,
        title=Text(f"To {target.words}", style="bold"),
        title_justify="left",
        padding=(0, 0),
        caption=Text(_TO_TARGET, style="table.caption"),
        caption_justify="left",
    )
    table.add_column(_METHOD, overflow="fold")
    for heading in TARGET_COLUMNS.values():
        table.add_column(_lines(heading, _HEADING), justify="right")
    for result in results:
        words = target_cells(result, target)
        table.add_row(Text(result.title), *(Text(words[key]) for key in TARGET_COLUMNS))
    return table


def _caption(results: Sequence[ReportedResult], spared: Sequence[str], *, paired: bool) -> str:
    trained = optimisers(results)
    left_out = f"; no room here for {listed(spared)}" if spared else ""
    tested = {result.summary.test_samples for result in results}
    kind = "held-out training" if results[0].keys.get("holdout") else "test"
    scored = (
        f", on {tested.pop():,} {kind} samples" if len(tested) == 1 and None not in tested else ""
    )
    below = [f"optimiser: {trained}"] if trained else []
    first = _CAPTION + scored + _PAIRED * paired + left_out
    return "\n".join([first, *below, *remark_sentences(results)])


def _fitting(
    results: Sequence[ReportedResult],
    heads: Mapping[str, str],
    words: Sequence[Mapping[str, str]],
    width: int,
) -> tuple[list[str], list[str]]:
    """The names, broken into lines, and the columns that fit; names are narrowed first."""
    widths = {
        key: 1 + _longest([head, *(row[key] for row in words)]) for key, head in heads.items()
    }
    shown, names = list(heads), [""]
    for longest in _NAMES:
        names = [_lines(_name(result), longest) for result in results]
        if _longest([_METHOD, *names]) + sum(widths.values()) <= width:
            break
    for key in _spared(results[0]):
        if (
            key in shown
            and _longest([_METHOD, *names]) + sum(widths[column] for column in shown) > width
        ):
            shown.remove(key)
    return names, shown


def _spared(result: ReportedResult) -> list[str]:
    """Columns to leave out, in this order: never the leading metric."""
    others = [metric.name for metric in reversed(result.metrics) if metric != result.leading]
    loss = [LOSS.name] if result.leading != LOSS else []
    return ["energy", "gigabits", *loss, *others, "local_steps", "server_steps"]


def _name(result: ReportedResult) -> str:
    return result.title if result.status == "complete" else f"{result.title} {result.status}"


def _lines(text: str, width: int) -> str:
    """A text in lines, broken between words or at hyphens."""
    return fill(text, width, break_long_words=False)


def _longest(texts: Sequence[str]) -> int:
    return max(len(line) for text in texts for line in text.splitlines() or [""])
