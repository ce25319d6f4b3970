"""Pieces of the page. Whatever comes from a file is escaped here."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from favano.report.cells import cells, columns
from favano.report.collect import differing_keys, setting
from favano.report.palette import colour, dash
from favano.report.result import Result
from favano.report.table import final_lines, reference
from favano.report.wording import counted, fixed, significant


def swatch(index: int) -> str:
    """A short line in the colour and dash of a series."""
    return (
        '<svg class="swatch" viewBox="0 0 44 8" width="44" height="8" aria-hidden="true">'
        f'<line x1="1" y1="4" x2="43" y2="4" stroke="var({colour(index)})" '
        f'stroke-width="3" stroke-dasharray="{dash(index)}"/></svg>'
    )


def badge(result: Result) -> str:
    """A word for a result that is not complete; nothing for one that is."""
    if result.status == "complete":
        return ""
    return f' <span class="badge badge-{result.status}">{result.status}</span>'


def final_table_html(results: Sequence[Result]) -> str:
    """The final table; roles are spelt out since narrow screens turn its rows into cards."""
    against = reference(results)
    headings = columns(results)
    heads = "".join(
        f'<th role="columnheader" scope="col">{escape(heading)}</th>'
        for heading in headings.values()
    )
    body = []
    for index, line in enumerate(final_lines(results)):
        words = cells(line, against)
        data = "".join(
            f'<td role="cell" data-label="{escape(heading)}">{escape(words[key])}</td>'
            for key, heading in headings.items()
        )
        name = f"{swatch(index)}<span>{escape(line.result.title)}{badge(line.result)}</span>"
        body.append(
            f'<tr role="row"><th role="rowheader" scope="row"><span class="name">{name}</span>'
            f"</th>{data}</tr>"
        )
    return (
        f'<table role="table" class="final" aria-describedby="final-note"><thead role="rowgroup">'
        f'<tr role="row"><th role="columnheader" scope="col">algorithm</th>{heads}</tr></thead>'
        f'<tbody role="rowgroup">{"".join(body)}</tbody></table>'
    )


def notes(results: Sequence[Result]) -> str:
    """A line for every result of which something is lacking or was refused."""
    lines = []
    for result in results:
        if result.status == "missing":
            lines.append(f"{result.title}: no evaluation was found in its folder.")
        if result.status == "partial":
            lines.append(f"{result.title}: {_reached(result)}. Its numbers are those so far.")
        refused = sum(run.refused_updates for run in result.runs)
        if refused:
            what = counted(refused, "update")
            lines.append(f"{result.title}: {what} with NaN or infinity refused on the way.")
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<ul class="notes">{items}</ul>' if items else ""


def _reached(result: Result) -> str:
    """How far each seed of a partial result came."""
    end = "" if result.horizon is None else f" of {significant(result.horizon)}"
    asked = result.spec.get("seeds")
    there = f"{len(result.runs)} of {asked}" if isinstance(asked, int) else str(len(result.runs))
    times = sorted({run.time for run in result.runs})
    span = " to ".join(significant(time) for time in dict.fromkeys([times[0], times[-1]]))
    return f"{there} seeds, at time {span}{end}"


def legend(results: Sequence[Result]) -> str:
    """One checkbox a series, to show or hide it in all plots at once."""
    entries = []
    for index, result in enumerate(results):
        state = " disabled" if result.status == "missing" else " checked"
        entries.append(
            f'<label><input type="checkbox" data-series="{index}"{state}>'
            f"{swatch(index)}<span>{escape(result.title)}{badge(result)}</span></label>"
        )
    return "".join(entries)


def specifications(results: Sequence[Result]) -> str:
    """Command and full specification of each result, keys that differ first."""
    differing = differing_keys(results)
    return "".join(_specification(result, differing) for result in results)


def _specification(result: Result, differing: Sequence[str]) -> str:
    same = [key for key in result.spec if key not in differing]
    rows = "".join(
        f'<tr{" class=differs" if key in differing else ""}><th scope="row">{escape(key)}</th>'
        f"<td>{escape(setting(result, key))}</td></tr>"
        for key in [*differing, *same]
    )
    command = (
        f"<pre><code>{escape(result.command)}</code></pre>"
        if result.command
        else "<p>No command is recorded.</p>"
    )
    return (
        f"<details><summary>{escape(result.title)}{badge(result)}</summary>"
        f"<h3>Command</h3>{command}<p>{escape(_origin(result))}</p>"
        f"<h3>Specification</h3><table class=specification><tbody>{rows}</tbody></table></details>"
    )


def _origin(result: Result) -> str:
    version = result.version or "an unrecorded version"
    seconds = [run.wall_seconds for run in result.runs if run.wall_seconds is not None]
    took = f"; {fixed(sum(seconds), 1)} seconds of computing" if seconds else ""
    return f"Written by favano {version} into folder {result.folder.name}{took}."
