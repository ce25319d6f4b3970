"""Who trained the model: tables of the shares of each speed, and figures for the script to fill."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from favano.records import Participation
from favano.records.participation import Speed
from favano.report.fragments import heading, name, table
from favano.report.palette import Look
from favano.report.reported_result import ReportedResult
from favano.report.settings import ReportSetting
from favano.report.wording import DASH, fixed, percent, significant


def shares(settings: Sequence[ReportSetting], looks: Mapping[str, Look]) -> str:
    """For each setting a table, then a plot of the clients per method."""
    return "".join(_block(index, each, looks, "clients") for index, each in enumerate(settings))


def staleness(settings: Sequence[ReportSetting], looks: Mapping[str, Look]) -> str:
    """For each setting a histogram per method."""
    return "".join(_block(index, each, looks, "staleness") for index, each in enumerate(settings))


def _block(index: int, setting: ReportSetting, looks: Mapping[str, Look], kind: str) -> str:
    known = [
        (place, result, result.participation)
        for place, result in enumerate(setting.results)
        if result.participation is not None
    ]
    if not known:
        inside = "<p>Not recorded in these result folders.</p>"
    else:
        inside = _table(setting, looks) if kind == "clients" else _key(known[0][2])
        figures = "".join(
            f'<figure class="chart" data-chart="{kind}" data-setting="{index}" '
            f'data-result="{place}"><figcaption><strong>{escape(result.title)}</strong> '
            f"{escape(_in_short(result, record, kind))}</figcaption></figure>"
            for place, result, record in known
            if kind == "staleness" or _has_weights(record)
        )
        inside += f'<div class="pairs">{figures}</div>{_sampled(known[0][2], kind)}'
    return f'<div class="setting" data-setting="{index}">{heading(setting)}{inside}</div>'


def _table(setting: ReportSetting, looks: Mapping[str, Look]) -> str:
    """Shares of the speeds in contacts, steps and weight, below the fair shares."""
    pairs = [(each, each.participation) for each in setting.results if each.participation]
    speeds = pairs[0][1].speeds
    names = " / ".join(speed.name for speed in speeds)
    headings = {
        "contacts": "contacts, %",
        "steps": "local steps, %",
        "weight": "effective weight, %",
        "ratio": "weight over fair weight",
    }
    rows = [(what, cells) for what, cells in _fair(record for _, record in pairs).items()]
    rows += [(name(each, looks[each.title]), _cells(known)) for each, known in pairs]
    counts = " / ".join(f"{speed.clients:,}" for speed in speeds)
    return table(f"Shares of the {names} clients, {counts} of them", "method", headings, rows)


def _fair(records: Iterable[Participation]) -> dict[str, list[str]]:
    """What is fair: the same for each client, or for each sample."""
    rows = {}
    for record in records:
        by_samples = record.speeds[0].fair is not None
        fair = [_fair_share(record, speed) for speed in record.speeds]
        alike = " / ".join(percent(speed.clients / record.clients) for speed in record.speeds)
        due, ones = " / ".join(map(percent, fair)), " / ".join("1.00" for _ in fair)
        cells = [alike, alike, due, ones]
        rows["fair, by samples" if by_samples else "fair"] = cells
    return rows


def _fair_share(record: Participation, speed: Speed) -> float:
    return speed.clients / record.clients if speed.fair is None else speed.fair


def _cells(record: Participation) -> list[str]:
    speeds = record.speeds
    contacts = max(1, sum(speed.contacts for speed in speeds))
    steps = max(1, sum(speed.steps for speed in speeds))
    ratios = [speed.weight / (_fair_share(record, speed) or 1.0) for speed in speeds]
    if not _has_weights(record):
        weight, ratio = DASH, DASH
    else:
        weight = f"<strong>{' / '.join(percent(speed.weight) for speed in speeds)}</strong>"
        ratio = " / ".join(fixed(ratio, 2) for ratio in ratios)
    return [
        " / ".join(percent(speed.contacts / contacts) for speed in speeds),
        " / ".join(percent(speed.steps / steps) for speed in speeds),
        weight,
        ratio,
    ]


def _has_weights(participation: Participation) -> bool:
    """Whether clients have weights: not if the models of a run grew beyond all numbers."""
    return all(math.isfinite(speed.weight) for speed in participation.speeds)


def _key(record: Participation) -> str:
    """The colour of each speed."""
    entries = "".join(
        f'<span class="speed-{number % 6}">{escape(speed.name)}</span>'
        for number, speed in enumerate(record.speeds)
    )
    return f'<p class="key">{entries}</p>'


def _in_short(result: ReportedResult, record: Participation, kind: str) -> str:
    if kind == "staleness":
        late = record.staleness
        middle = f"median {significant(late.median)}, largest {late.most:,}"
        return f"mean {significant(late.mean)}, {middle}"
    if result.audit:
        return result.audit.verdict
    first = record.speeds[0]
    fair = percent(_fair_share(record, first))
    return f"{first.name} clients carry {percent(first.weight)} % of the weight, fair is {fair} %"


def _sampled(record: Participation, kind: str) -> str:
    shown = len(record.listed.client)
    if kind != "clients" or shown == record.clients:
        return ""
    return (
        f'<p class="note">The plots show an even sample of {shown:,} of the {record.clients:,} '
        "clients; the table is over all of them.</p>"
    )
