"""Who trained the model: shares of each speed as tables, places for the plots of the clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from favano.report.fragments import heading, name, table
from favano.report.participation import Participation, Speed
from favano.report.result import Result
from favano.report.settings import Setting
from favano.report.wording import fixed, percent, significant

_HEADINGS = {
    "speed": "clients",
    "clients": "of all clients, %",
    "contacts": "of the contacts, %",
    "steps": "of the local steps, %",
    "weight": "of the weight, %",
    "ratio": "weight a client, 1/n",
}


def shares(settings: Sequence[Setting], numbers: Mapping[str, int]) -> str:
    """One block a setting: the table, then a plot of the clients a method."""
    return "".join(
        _block(index, setting, numbers, "clients") for index, setting in enumerate(settings)
    )


def staleness(settings: Sequence[Setting], numbers: Mapping[str, int]) -> str:
    """One block a setting: a histogram a method."""
    return "".join(
        _block(index, setting, numbers, "staleness") for index, setting in enumerate(settings)
    )


def _block(index: int, setting: Setting, numbers: Mapping[str, int], kind: str) -> str:
    known = [
        (place, result, result.participation)
        for place, result in enumerate(setting.results)
        if result.participation is not None
    ]
    if not known:
        inside = "<p>Not recorded in these result folders.</p>"
    else:
        rows = [row for _, result, found in known for row in _rows(result, found, numbers)]
        caption = "Shares of fast and slow clients, each method"
        inside = table(caption, "method", _HEADINGS, rows) if kind == "clients" else ""
        figures = "".join(
            f'<figure class="chart" data-chart="{kind}" data-setting="{index}" '
            f'data-result="{place}"><figcaption><strong>{escape(result.title)}</strong> '
            f"{escape(_in_short(found, kind))}</figcaption></figure>"
            for place, result, found in known
        )
        inside += f'<div class="pairs">{figures}</div>{_sampled(known[0][2], kind)}'
    return f'<div class="setting" data-setting="{index}">{heading(setting)}{inside}</div>'


def _rows(
    result: Result, found: Participation, numbers: Mapping[str, int]
) -> list[tuple[str, list[str]]]:
    contacts = max(1, sum(speed.contacts for speed in found.speeds))
    steps = max(1, sum(speed.steps for speed in found.speeds))
    return [
        (
            name(result, numbers[result.title]),
            [
                escape(f"{speed.clients:,} {speed.name}"),
                percent(speed.clients / found.clients),
                percent(speed.contacts / contacts),
                percent(speed.steps / steps),
                f"<strong>{percent(speed.weight)}</strong>",
                fixed(_ratio(speed, found), 2),
            ],
        )
        for speed in found.speeds
    ]


def _ratio(speed: Speed, found: Participation) -> float:
    """Mean weight of such a client as a multiple of 1/n."""
    return speed.weight * found.clients / max(1, speed.clients)


def _in_short(found: Participation, kind: str) -> str:
    if kind == "staleness":
        late = found.staleness
        middle = f"median {significant(late.median)}, most {late.most:,}"
        return f"mean {significant(late.mean)}, {middle}"
    first = found.speeds[0]
    fair = percent(first.clients / found.clients)
    return f"{first.name} clients carry {percent(first.weight)} % of the weight, fair is {fair} %"


def _sampled(found: Participation, kind: str) -> str:
    shown = len(found.listed.client)
    if kind != "clients" or shown == found.clients:
        return ""
    return (
        f'<p class="note">The plots show an even sample of {shown:,} of the {found.clients:,} '
        "clients; the table is over all of them.</p>"
    )
