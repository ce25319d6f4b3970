"""When clients are there, and when they work: figures for the script to fill."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from favano.records import OUTCOMES, AvailabilityChart, JobChart
from favano.report.fragments import heading
from favano.report.settings import ReportSetting
from favano.report.wording import counted, percent, significant

CLIENT_TIMES_LINK: Final = '<a href="#times">Clients over time</a>\n'
_THERE: Final = (
    "Above, the share of all clients that are there; below, a row for each client, darker the more "
    "of the time it is there. "
)
_WORK: Final = (
    "A bar is a job: from the moment the client begins until it has answered or was stopped. A job "
    "is used by a server step; or the server gets its update and does not use it; or it is lost: "
    "its client never sends it. Point at a bar to read its steps. "
)


def client_times(settings: Sequence[ReportSetting]) -> str:
    """The section: per setting when clients are there, and jobs per method; may be empty."""
    blocks = [_block(index, each) for index, each in enumerate(settings)]
    if not any(blocks):
        return ""
    there = any(shows_availability(each, index) for each in settings
                for index in range(len(each.results)))  # fmt: skip
    return (
        '<section id="times" aria-labelledby="times-heading">\n'
        '<h2 id="times-heading">Clients over time</h2>\n'
        f'{"".join(blocks)}\n<p class="note">{_THERE if there else ""}{_WORK}'
        "The first seed is shown.</p>\n</section>\n\n"
    )


def shows_availability(setting: ReportSetting, index: int) -> bool:
    """Whether the plot of this result is the first one with its clients' availability."""
    charts = [each.participation and each.participation.availability for each in setting.results]
    return charts[index] is not None and charts.index(charts[index]) == index


def _block(index: int, setting: ReportSetting) -> str:
    there, work, outcomes = "", "", set[int]()
    for place, result in enumerate(setting.results):
        record = result.participation
        if record is None:
            continue
        begin = f'<figure class="chart" data-setting="{index}" data-result="{place}" data-chart='
        if record.availability is not None and shows_availability(setting, place):
            words = _availability(record.availability, record.clients)
            there += f'{begin}"availability"><figcaption>{escape(words)}</figcaption></figure>'
        if record.jobs is not None:
            words = _jobs(record.jobs, record.clients)
            outcomes |= set(record.jobs.outcome)
            work += (
                f'{begin}"jobs"><figcaption><strong>{escape(result.title)}</strong> '
                f"{escape(words)}</figcaption></figure>"
            )
    if not there and not work:
        return ""
    key = "".join(
        f'<span class="outcome-{number}">{escape(OUTCOMES[number])}</span>'
        for number in sorted(outcomes)
    )
    inside = f'<div class="pairs">{there}</div>' if there else ""
    inside += f'<p class="key outcomes">{key}</p><div class="pairs">{work}</div>' if work else ""
    return f'<div class="setting" data-setting="{index}">{heading(setting)}{inside}</div>'


def _availability(chart: AvailabilityChart, clients: int) -> str:
    mean = f"Clients are there for {percent(chart.mean)} % of the time (median"
    rows = f"all {clients:,} clients"
    if len(chart.client) < clients:
        rows = f"{len(chart.client)} of {clients:,} clients, an even sample by availability"
    return f"{mean} {percent(chart.median)} %); {rows}"


def _jobs(chart: JobChart, clients: int) -> str:
    """The window, the clients and the server steps in it."""
    span = f"up to time {significant(chart.end)}"
    span += f" of {significant(chart.horizon)}" if chart.end < chart.horizon else ""
    steps = counted(chart.server_steps_made, "server step")
    shown = f"all {clients:,} clients"
    if len(chart.client) < chart.at_work:
        shown = f"{len(chart.client)} of {chart.at_work:,} clients with jobs, an even sample"
    elif chart.at_work < clients:
        shown = f"{chart.at_work} of {clients:,} clients; the others have no job"
    return f"{span}, {steps}; {shown}"
