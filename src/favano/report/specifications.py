"""How to run a result again: its command and its full specification."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from math import isfinite

import tomli_w

from favano.report.fragments import heading, name
from favano.report.palette import Look
from favano.report.reported_result import ReportedResult
from favano.report.settings import ReportSetting, differing_keys
from favano.report.wording import fixed
from favano.specification.config import NAME, spec_tables
from favano.specification.spec import ALGORITHM


def specifications(settings: Sequence[ReportSetting], looks: Mapping[str, Look]) -> str:
    """Command and full specification of each result; keys that differ on the page are marked."""
    keys = differing_keys([result for setting in settings for result in setting.results])
    differing = [NAME if key == ALGORITHM else key for key in keys]
    parts = []
    for setting in settings:
        parts.append(heading(setting))
        for result in setting.results:
            parts.append(_specification(result, setting.title, looks[result.title], differing))
    return "".join(parts)


def _specification(result: ReportedResult, place: str, look: Look, differing: Sequence[str]) -> str:
    whose = f"of {result.title}, {place}" if place else f"of {result.title}"
    text = "\n".join(
        f"<mark>{escape(line)}</mark>" if _keys(line) & {*differing} else escape(line)
        for line in tomli_w.dumps(spec_tables(result.keys)).splitlines()
    )
    command = "<p>No command is recorded.</p>"
    if result.summary.command:
        command = _copied(f"command {whose}", escape(result.summary.command))
    return (
        f"<details><summary>{name(result, look)}</summary>"
        f"<p><strong>Command</strong></p>{command}<p>{escape(_origin(result))}</p>"
        "<p><strong>Specification</strong>, for <code>favano run spec.toml</code></p>"
        f"{_copied(f'specification {whose}', text)}</details>"
    )


def _keys(line: str) -> set[str]:
    """The keys in a line of TOML; short tables are in one line."""
    return set(re.findall(r"(\w+) = ", line))


def _copied(what: str, html: str) -> str:
    """A text with a copy button, hidden until the script shows it."""
    return (
        f'<div class="copied"><button type="button" class="copy" hidden '
        f'aria-label="Copy {escape(what)}">Copy</button>'
        f'<pre tabindex="0" role="group" aria-label="{escape(what)}"><code>{html}</code></pre>'
        "</div>"
    )


def _origin(result: ReportedResult) -> str:
    """Who wrote a result, and how long each run took. Runs overlap, so times do not add up."""
    version = result.summary.favano or "an unrecorded version"
    said = {"PyTorch": result.summary.torch, "kernels": result.summary.kernels}
    tools = ", ".join(f"{what} {which}" for what, which in said.items() if which)
    text = f"Written by favano {version}{f' with {tools}' if tools else ''}"
    text += f" into folder {result.folder.name}" if result.folder else ""
    seconds = [run.wall_seconds for run in result.final_runs if isfinite(run.wall_seconds)]
    if not seconds:
        return f"{text}."
    span = " to ".join(dict.fromkeys(fixed(time, 1) for time in (min(seconds), max(seconds))))
    if len(seconds) == 1:
        return f"{text}; the run took {span} seconds."
    return f"{text}; its {len(seconds)} runs took {span} seconds each and overlap in time."
