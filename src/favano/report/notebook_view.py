"""Results in a notebook: the final table and the curves of the leading metric."""

from __future__ import annotations

from collections.abc import Sequence

from favano.notebook import PlotLine, line_plot, paragraph, table
from favano.report.cells import cells, columns
from favano.report.curves import curve, measures
from favano.report.palette import COLOURS, DASHES, looks
from favano.report.remarks import remark_sentences
from favano.report.reported_result import ReportedResult
from favano.report.settings import by_setting
from favano.report.table import reference

_CAPTION = "mean ± standard deviation over seeds, at the horizon"


def results_html(results: Sequence[ReportedResult]) -> str:
    """A table and a plot for each setting."""
    parts = [
        part
        for each in by_setting(results)
        for part in (paragraph(each.title), _table(each.results), _plot(each.results))
    ]
    return f"<div>{''.join(parts)}</div>"


def _table(results: Sequence[ReportedResult]) -> str:
    headings, against = columns(results), reference(results)
    rows = []
    for result in results:
        words = cells(result, against)
        name = result.title if result.status == "complete" else f"{result.title} ({result.status})"
        rows.append([name, *(words[key] for key in headings)])
    below = "".join(map(paragraph, remark_sentences(results)))
    return table(_CAPTION, ["method", *headings.values()], rows) + below


def _plot(results: Sequence[ReportedResult]) -> str:
    styles = looks(result.title for result in results)
    lines = []
    for result in results:
        look, drawn = styles[result.title], curve(result)
        mean = drawn.bands[result.leading.name].mean
        name = result.title if len(results) > 1 else ""
        dash = DASHES[look.dash]
        lines.append(PlotLine(name, drawn.along["time"], mean, COLOURS[look.colour], dash))
    measure = measures(results[0].metrics)[results[0].leading.name]
    return line_plot(lines, "simulated time", measure.title)
