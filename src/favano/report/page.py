"""One self-contained HTML page from results, which opens offline and loads nothing."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from favano import __version__
from favano.errors import BadInput, require
from favano.records.folder import replace_together
from favano.report.caveats import caveats, digest_sentences
from favano.report.client_scores import CLIENT_SCORES_LINK, client_scores
from favano.report.client_times import CLIENT_TIMES_LINK, client_times
from favano.report.curves import Measure, has_energy, measures
from favano.report.filters import filter_controls, filters
from favano.report.final_tables import final_tables, overview
from favano.report.findings import sentence, setting_sentence
from favano.report.fragments import badge, swatch
from favano.report.palette import Look, methods
from favano.report.payload import payload, shows_seeds
from favano.report.remarks import remark_sentences
from favano.report.reported_result import ReportedResult
from favano.report.settings import ReportSetting, by_setting
from favano.report.shares import shares, staleness
from favano.report.specifications import specifications
from favano.report.wording import counted

_SCRIPTS = (
    "marks.js", "chart.js", "curves.js", "zoom.js", "export.js", "state.js", "clients.js",
    "served.js", "times.js", "live.js", "page.js",
)  # fmt: skip
_ENERGY_AXIS = (
    '<label><input type="radio" name="axis" value="energy" autocomplete="off">'
    "<span>energy</span></label>\n"
)
DIGESTS_AGREE = "The digests of all rows agree; favano verify repeats the runs."


def write_page(
    results: Sequence[ReportedResult], path: Path, title: str, *, target: float | None = None
) -> None:
    """Write the page, completely or not at all; the first result is the reference.

    Its table of time, steps and bits is about the target, or 90 % of the best final value.
    """
    require(len(results) > 0, "results", "", "need at least one result")
    text = render(results, title, target)
    try:
        replace_together(path.parent, {path.name: text})
    except OSError as error:
        raise BadInput("out", path, f"cannot be written: {error.strerror}") from error


def render(
    results: Sequence[ReportedResult],
    title: str,
    target: float | None = None,
    *,
    live: str | None = None,
) -> str:
    """The page as text; `live` says where the report will be of runs that still go on."""
    settings = by_setting(results)
    looks = methods(settings)
    everything = [result for setting in settings for result in setting.results]
    has_numbers = {result.title for result in everything if result.final_runs}
    references = {title: title for title in looks if title in has_numbers}
    metrics = dict.fromkeys(metric for result in everything for metric in result.metrics)
    shown = measures(metrics, _where(everything))
    by_key = filters(everything)
    style, script = _file("page.css"), "\n".join(_file(name) for name in _SCRIPTS)
    return Template(_file("page.html")).substitute(
        title=escape(title),
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        findings="".join(_finding(setting) for setting in settings),
        compared=_unbroken(setting_sentence(everything)),
        caveats=(missing := _caveats(settings, looks)),
        partial=_partial(everything, bool(missing)),
        overview=overview(settings, looks),
        final=final_tables(settings, looks, target),
        references=_options(references),
        compare=_useful(len(references) > 1),
        legend=_legend(everything, looks),
        curves=_curves(settings),
        places=_options({str(index): each.title for index, each in enumerate(settings)}),
        several=_useful(len(settings) > 1),
        shares=shares(settings, looks),
        served=client_scores(settings, looks),
        served_link=CLIENT_SCORES_LINK
        if any(result.client_scores for result in everything)
        else "",
        times=(times := client_times(settings)),
        times_link=CLIENT_TIMES_LINK if times else "",
        energy_axis=_ENERGY_AXIS if any(map(has_energy, everything)) else "",
        staleness=staleness(settings, looks),
        specifications=specifications(settings, looks),
        version=escape(__version__),
        digests=_digests(everything) if live is None else _live(live),
        connect="" if live is None else "connect-src 'self'; ",
        measures=_choices(shown),
        seeds=_useful(shows_seeds(settings)),
        filters=filter_controls(by_key),
        filtered=_useful(bool(by_key)),
        payload=payload(settings, looks, shown, list(by_key)),
    )


def _where(results: Sequence[ReportedResult]) -> str:
    """What models are scored on."""
    return "Mean client" if results[0].keys.get("evaluate_on") == "clients" else "Test"


def _choices(shown: Mapping[str, Measure]) -> str:
    """One button per measure; the first is chosen."""
    return "".join(
        f'<label><input type="radio" name="measure" value="{escape(key)}" autocomplete="off"'
        f"{'' if number else ' checked'}><span>{escape(measure.short)}</span></label>\n"
        for number, (key, measure) in enumerate(shown.items())
    )


def _finding(setting: ReportSetting) -> str:
    place = f"<strong>{escape(setting.title)}.</strong> " if setting.title else ""
    said = _unbroken(" ".join(remark_sentences(setting.results)))
    remarks = f'<p class="partial">{said}</p>' if said else ""
    return f'<p class="finding">{place}{_unbroken(sentence(setting.results))}</p>{remarks}'


def _caveats(settings: Sequence[ReportSetting], looks: Mapping[str, Look]) -> str:
    """The section on what is missing; empty if nothing is."""
    items = "".join(f"<li>{escape(line)}</li>" for line in caveats(settings, looks))
    if not items:
        return ""
    return (
        '<section id="caveats" aria-labelledby="caveats-heading">\n'
        '<h2 id="caveats-heading">What is missing</h2>\n'
        f'<ul class="caveats">{items}</ul>\n</section>\n\n'
    )


def _partial(results: Sequence[ReportedResult], explained: bool) -> str:
    """One line at the top of a page whose results are not all complete."""
    stopped, diverged = (
        sum(result.status == status for result in results) for status in ("stopped", "diverged")
    )
    lack = sum(not result.ended for result in results) - stopped
    of_all = f"of {counted(len(results), 'result')}"
    said = f"<strong>Partial:</strong> {lack} {of_all} not complete. " if lack else ""
    said += f"<strong>Stopped:</strong> {stopped} {of_all} before the horizon. " if stopped else ""
    said += f"<strong>Diverged:</strong> {diverged} {of_all}. " if diverged else ""
    if not said:
        return ""
    link = '<a href="#caveats">What is missing</a>' if explained else ""
    return f'<p class="partial">{said}{link}</p>'


def _digests(results: Sequence[ReportedResult]) -> str:
    """What the digests show: at the top of a page, whatever it is."""
    lines = [_unbroken(line) for line in digest_sentences(results)]
    if lines:
        return f'<p class="partial" id="digests">{"<br>".join(lines)}</p>'
    return f'<p class="compared" id="digests">{escape(DIGESTS_AGREE)}</p>'


def _live(where: str) -> str:
    """A line on runs that go on; their digests are looked at when they have ended."""
    return (
        f'<p class="partial" id="live" data-report="{escape(where)}"><strong>Live:</strong> '
        "the runs go on, and this page follows them.</p>"
    )


def _options(choices: Mapping[str, str]) -> str:
    return "".join(
        f'<option value="{escape(value)}">{escape(text)}</option>'
        for value, text in choices.items()
    )


def _useful(choice: bool) -> str:
    """Controls are hidden until the script runs, and stay hidden if there is no choice."""
    return "" if choice else " data-useless"


def _legend(results: Sequence[ReportedResult], looks: Mapping[str, Look]) -> str:
    """One checkbox per method, to show or hide its curves in all plots."""
    entries = []
    for number, (title, look) in enumerate(looks.items()):
        alike = [result for result in results if result.title == title]
        there = any(result.rows_to_horizon for result in alike)
        entries.append(
            f'<label><input type="checkbox" data-method="{number}"'
            f"{' checked' if there else ' disabled'}>{swatch(look)}"
            f"<span>{escape(title)}{badge(alike[0]) if len(alike) == 1 else ''}</span></label>"
        )
    return "".join(entries)


def _curves(settings: Sequence[ReportSetting]) -> str:
    """One empty figure per setting, which the script fills with curves."""
    return "".join(
        f'<figure class="chart" data-chart="curves" data-setting="{index}">'
        f"<figcaption>{escape(setting.title)}</figcaption></figure>"
        for index, setting in enumerate(settings)
    )


def _unbroken(text: str) -> str:
    """Escaped text, with formulas and percentages kept on one line."""
    return escape(text).replace(" = ", "&nbsp;=&nbsp;").replace(" %", "&nbsp;%")


def _hash(text: str) -> str:
    """The hash by which the page's security policy admits the content of an element."""
    return b64encode(sha256(f"\n{text}\n".encode()).digest()).decode()


def _file(name: str) -> str:
    return files("favano.report").joinpath("static", name).read_text(encoding="utf-8")
