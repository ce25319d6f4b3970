"""One self-contained HTML page from results: opens offline, loads nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from favano import __version__
from favano.errors import BadInput, need
from favano.report.cells import cells
from favano.report.fragments import final_table_html, legend, notes, specifications
from favano.report.payload import payload
from favano.report.result import Result
from favano.report.table import final_lines
from favano.report.verdict import sentence, setting_sentence
from favano.report.wording import significant


def write_page(results: Sequence[Result], path: Path, title: str) -> None:
    """Write the page whole or not at all: beside `path` first, then in its place.

    Args:
        results: as `collect` gives them; the first is what the others are compared with.
        path: the HTML file; its folder is made if need be.
        title: heading of the page.
    """
    need(len(results) > 0, "results", "", "need at least one result")
    waiting = path.with_name(f".{path.name}.{os.getpid()}")
    text = render(results, title)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        waiting.write_text(text, encoding="utf-8")
        waiting.replace(path)
    except OSError as error:
        raise BadInput("out", path, f"cannot be written: {error.strerror}") from error
    finally:
        with suppress(OSError):
            waiting.unlink()


def render(results: Sequence[Result], title: str) -> str:
    """The page as text."""
    return Template(_file("page.html")).substitute(
        title=escape(title),
        style=_file("page.css"),
        finding=_unbroken(sentence(results)),
        setting=_unbroken(setting_sentence(results)),
        table=final_table_html(results),
        notes=notes(results),
        legend=legend(results),
        accuracy_ends=escape(_ends(results, "accuracy")),
        loss_ends=escape(_ends(results, "loss")),
        variance_ends=escape(_variances(results)),
        specifications=specifications(results),
        version=escape(__version__),
        payload=payload(results),
        plotly=_plotly(),
        script=_file("page.js"),
    )


def _unbroken(text: str) -> str:
    """Escaped, with formulas and percentages kept on one line."""
    return escape(text).replace(" = ", "&nbsp;=&nbsp;").replace(" %", "&nbsp;%")


def _ends(results: Sequence[Result], key: str) -> str:
    """Where each curve ends, for those who cannot see it."""
    words = {line.result.title: cells(line, None)[key] for line in final_lines(results)}
    unit = " %" if key == "accuracy" else ""
    return ", ".join(f"{title} {text.split(' ± ')[0]}{unit}" for title, text in words.items())


def _variances(results: Sequence[Result]) -> str:
    return ", ".join(
        f"{result.title} "
        + (
            significant(sum(run.variance for run in result.runs) / len(result.runs))
            if result.runs
            else "–"
        )
        for result in results
    )


def _file(name: str) -> str:
    return files("favano.report").joinpath(name).read_text(encoding="utf-8")


def _plotly() -> str:
    """The plotting library itself, as plotly ships it."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())
