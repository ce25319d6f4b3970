"""What is missing from the results, in sentences, so that no gap is taken for a number."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from favano.records.chain import DigestCheck
from favano.report.reported_result import ReportedResult
from favano.report.settings import ReportSetting
from favano.report.table import finished, reference
from favano.report.wording import counted, listed, significant


def caveats(settings: Sequence[ReportSetting], titles: Collection[str]) -> list[str]:
    """One sentence for each thing that is missing, partial, refused or not recorded."""
    lines = []
    for setting in settings:
        prefix = f"{setting.title}: " if setting.title else ""
        lines += [prefix + line for result in setting.results for line in _of_result(result)]
        lines += [prefix + line for line in _of_setting(setting, titles)]
    return lines


def _of_result(result: ReportedResult) -> Iterator[str]:
    if result.status == "missing":
        yield f"{result.title} is missing: no evaluation was found in its folder."
        return
    if result.status == "partial":
        yield f"{result.title} is partial: {_reached(result)}. Its numbers are those so far."
    if result.status == "stopped":
        yield f"{result.title} was stopped by its observer: {_reached(result)}."
    if refused := sum(run.refused_updates for run in result.final_runs):
        what = counted(refused, "update")
        yield f"{result.title}: {what} with NaN or infinity refused during the run."
    if result.summary.command is None:
        yield f"{result.title}: the command that made it is not recorded."


def digest_sentences(results: Sequence[ReportedResult]) -> list[str]:
    """What the digests of results with rows show, those that say the same together."""
    titles: dict[DigestCheck, list[str]] = {}
    for result in results:
        if result.rows_to_horizon and result.digests.status != "agree":
            titles.setdefault(result.digests, []).append(result.title)
    signs = {"changed": "Changed", "unknown": "Not checked"}
    return [
        f"{signs[check.status]}: {listed(some)}: {check.words}." for check, some in titles.items()
    ]


def _of_setting(setting: ReportSetting, titles: Collection[str]) -> Iterator[str]:
    there = [result for result in setting.results if result.final_runs]
    if silent := [result.title for result in there if result.participation is None]:
        yield f"{listed(silent)}: no participation.json, so it is not known who trained the model."
    present = {result.title for result in setting.results}
    if absent := [title for title in titles if title not in present]:
        yield f"{listed(absent)}: no result folder in this setting."
    first = reference(setting.results)
    if first is None or first.status != "complete":
        return
    for result in there:
        common = finished(result).keys() & finished(first).keys()
        if result.status == "complete" and len(common) < len(first.final_runs):
            pairs = f"{len(common)} of {counted(len(first.final_runs), 'seed')}"
            yield f"{result.title} shares only {pairs} with {first.title}."


def _reached(result: ReportedResult) -> str:
    """How far the seeds of a partial result got."""
    end = "" if result.horizon is None else f" of {significant(result.horizon)}"
    asked = result.keys.get("seeds")
    there = (
        f"{len(result.final_runs)} of {asked}"
        if isinstance(asked, int)
        else str(len(result.final_runs))
    )
    times = sorted({run.time for run in result.final_runs})
    span = " to ".join(significant(time) for time in dict.fromkeys([times[0], times[-1]]))
    return f"{there} seeds, at time {span}{end}"
