"""Whom the final model serves: a table per setting, and figures for the script to fill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from favano.records import ClientScores
from favano.report.fragments import heading, name, table
from favano.report.metric_words import amount, number
from favano.report.metric_words import heading as metric_heading
from favano.report.palette import Look
from favano.report.reported_result import ReportedResult
from favano.report.settings import ReportSetting

CLIENT_SCORES_LINK: Final = '<a href="#served">Whom it serves</a>\n'
_NOTE = (
    "The final model of the first seed, scored on samples of each client, 200 at most: its test "
    "samples if the data say whose they are, else those it trains on. "
    "Each mark is a client: the further to the right, the more it counted in training; the higher, "
    "the larger its value. Large marks are the means of each speed. The worst tenth is the tenth "
    "of the clients with the worst values."
)


def client_scores(settings: Sequence[ReportSetting], looks: Mapping[str, Look]) -> str:
    """The section: for each setting a table and a plot per method; empty if nothing is recorded."""
    blocks = [_block(index, each, looks) for index, each in enumerate(settings)]
    if not any(blocks):
        return ""
    return (
        '<section id="served" aria-labelledby="served-heading">\n'
        '<h2 id="served-heading">Whom the model serves</h2>\n'
        f'{"".join(blocks)}\n<p class="note">{_NOTE}</p>\n</section>\n\n'
    )


def _block(index: int, setting: ReportSetting, looks: Mapping[str, Look]) -> str:
    known = [
        (each, each.client_scores) for each in setting.results if each.client_scores is not None
    ]
    if not known:
        return ""
    figures = "".join(
        f'<figure class="chart" data-chart="served" data-setting="{index}" '
        f'data-result="{place}"><figcaption><strong>{escape(result.title)}</strong> '
        f"{escape(_in_short(result, result.client_scores))}</figcaption></figure>"
        for place, result in enumerate(setting.results)
        if result.client_scores is not None and result.participation is not None
    )
    inside = f'{_table(known, looks)}<div class="pairs">{figures}</div>'
    return f'<div class="setting" data-setting="{index}">{heading(setting)}{inside}</div>'


def _table(known: Sequence[tuple[ReportedResult, ClientScores]], looks: Mapping[str, Look]) -> str:
    """The leading metric over all clients, over those of each speed, and over the worst tenth."""
    first, about = known[0]
    speeds = {f"speed-{place}": speed.name for place, speed in enumerate(about.speeds)}
    headings = {"mean": "all clients", **speeds, "worst": "worst tenth"}
    rows = []
    for result, record in known:
        values = [record.mean, *(speed.mean for speed in record.speeds), record.worst]
        words = [escape(number(result.leading, value)) for value in values]
        rows.append((name(result, looks[result.title]), words))
    what = metric_heading(first.leading)
    return table(f"Mean over clients: {what}, on their own samples", "method", headings, rows)


def _in_short(result: ReportedResult, record: ClientScores) -> str:
    """The mean of each speed in words."""
    speeds = (
        f"{speed.name} clients {amount(result.leading, speed.mean)}" for speed in record.speeds
    )
    return ", ".join(speeds)


def points(result: ReportedResult) -> dict[str, list[float]] | None:
    """Weight in units of 1/n, score and speed of each client that both files list."""
    if result.client_scores is None or result.participation is None:
        return None
    listed, clients = result.participation.listed, result.participation.clients
    place = {client: index for index, client in enumerate(listed.client)}
    scale = 100 if result.leading.unit == "%" else 1
    both = [
        (client, place[client], score)
        for client, score in zip(
            result.client_scores.client, result.client_scores.score, strict=True
        )
        if client in place
    ]
    return {
        "client": [client for client, _, _ in both],
        "speed": [listed.speed[index] for _, index, _ in both],
        "weight": [clients * listed.weight[index] for _, index, _ in both],
        "score": [scale * score for _, _, score in both],
    }
