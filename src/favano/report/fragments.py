"""Pieces of HTML that several parts of the page share. Text from files is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from favano.report.palette import Look
from favano.report.reported_result import ReportedResult
from favano.report.settings import ReportSetting


def swatch(look: Look) -> str:
    """A short line in the colour and dash of a method, with its mark."""
    return (
        f'<svg class="swatch {look.classes}" viewBox="-22 -6 44 12" aria-hidden="true">'
        f'<path class="line" d="M-22 0H22"/><path class="mark" d="{look.path}"/></svg>'
    )


def badge(result: ReportedResult) -> str:
    """The status of a result that is not complete; nothing for one that is."""
    if result.status == "complete":
        return ""
    return f' <span class="badge badge-{result.status}">{result.status}</span>'


def name(result: ReportedResult, look: Look, *, status: bool = True) -> str:
    """The name of a method, with its look and status."""
    title = f"{escape(result.title)}{badge(result) if status else ''}"
    return f'<span class="name">{swatch(look)}<span>{title}</span></span>'


def heading(setting: ReportSetting) -> str:
    """The heading of a setting; a single setting has none."""
    return f"<h3>{escape(setting.title)}</h3>" if setting.title else ""


def table(
    caption: str,
    first: str,
    headings: Mapping[str, str],
    rows: Iterable[tuple[str, Sequence[str]]],
    *,
    setting: int | None = None,
    unseen: bool = False,
) -> str:
    """A table. Roles are explicit because rows become cards on narrow screens.

    Args:
        caption: in plain text, as are `first` and the headings.
        first: heading of the first column.
        headings: of the other columns, by a key that becomes the cells' `data-column`.
        rows: the first cell and the others, in HTML.
        setting: number of the setting that the table is about, if any.
        unseen: whether the caption is for screen readers only.
    """
    heads = "".join(
        f'<th role="columnheader" scope="col" data-column="{escape(key)}">{escape(text)}</th>'
        for key, text in headings.items()
    )
    body = []
    for lead, cells in rows:
        data = "".join(
            f'<td role="cell" data-column="{escape(key)}" data-label="{escape(text)}">{cell}</td>'
            for (key, text), cell in zip(headings.items(), cells, strict=True)
        )
        body.append(f'<tr role="row"><th role="rowheader" scope="row">{lead}</th>{data}</tr>')
    about = "" if setting is None else f' data-setting="{setting}"'
    quiet = ' class="unseen"' if unseen else ""
    return (
        f'<table role="table" class="cards"{about}><caption{quiet}>{escape(caption)}</caption>'
        f'<thead role="rowgroup"><tr role="row"><th role="columnheader" scope="col">'
        f'{escape(first)}</th>{heads}</tr></thead><tbody role="rowgroup">{"".join(body)}'
        "</tbody></table>"
    )
