"""How to run a result again: its command, and its specification whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import isfinite

import tomli_w

from favano.report.collect import differing_keys
from favano.report.fragments import heading, name
from favano.report.palette import Look
from favano.report.result import Result
from favano.report.settings import Setting
from favano.report.wording import fixed


def specifications(settings: Sequence[Setting], looks: Mapping[str, Look]) -> str:
    """Command and full specification of each result; keys that differ on the page are marked."""
    everything = [result for setting in settings for result in setting.results]
    differing = frozenset(differing_keys(everything))
    return "".join(
        heading(setting)
        + "".join(
            _specification(result, setting.title, looks[result.title], differing)
            for result in setting.results
        )
        for setting in settings
    )


def _specification(result: Result, place: str, look: Look, differing: frozenset[str]) -> str:
    whose = f"of {result.title}, {place}" if place else f"of {result.title}"
    lines = tomli_w.dumps(dict(result.spec)).splitlines()
    text = "\n".join(
        f"<mark>{escape(line)}</mark>" if line.partition(" = ")[0] in differing else escape(line)
        for line in lines
    )
    command = "<p>No command is recorded.</p>"
    if result.command:
        command = _copied(f"command {whose}", escape(result.command))
    return (
        f"<details><summary>{name(result, look)}</summary>"
        f"<p><strong>Command</strong></p>{command}<p>{escape(_origin(result))}</p>"
        "<p><strong>Specification</strong>, for <code>favano run spec.toml</code></p>"
        f"{_copied(f'specification {whose}', text)}</details>"
    )


def _copied(what: str, html: str) -> str:
    """A text with its copy button, which the script shows where it can work."""
    return (
        f'<div class="copied"><button type="button" class="copy" hidden '
        f'aria-label="Copy {escape(what)}">Copy</button>'
        f'<pre tabindex="0" role="group" aria-label="{escape(what)}"><code>{html}</code></pre>'
        "</div>"
    )


def _origin(result: Result) -> str:
    version = result.version or "an unrecorded version"
    seconds = [run.wall_seconds for run in result.runs if isfinite(run.wall_seconds)]
    means = f" with {result.tools}" if result.tools else ""
    return f"Written by favano {version}{means} into folder {result.folder.name}{_took(seconds)}."


def _took(seconds: Sequence[float]) -> str:
    """How long each run was under way. Runs overlap, so their times do not add up."""
    if not seconds:
        return ""
    span = " to ".join(dict.fromkeys(fixed(time, 1) for time in (min(seconds), max(seconds))))
    if len(seconds) == 1:
        return f"; the run took {span} seconds"
    return f"; its {len(seconds)} runs took {span} seconds each and overlap in time"
