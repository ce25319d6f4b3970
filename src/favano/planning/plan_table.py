"""A plan in tables and sentences: for the screen, for `print` and for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from favano.notebook import paragraph, share_plot, table
from favano.planning.absence import Absence
from favano.planning.client_weights import availability_classes, speed_classes
from favano.records import SpeedShare
from favano.report.wording import DASH, counted
from favano.types import Floats, Ints

if TYPE_CHECKING:
    from favano.planning.plan import Plan


@dataclass(frozen=True)
class PlanTable:
    """Jobs, steps and weights of groups of clients."""

    title: str
    headings: Sequence[str]  # the first is that of the groups
    rows: Sequence[Sequence[str]]
    shares: Floats  # in the model; of the jobs, where clients have no weights
    due: Floats  # the share that is fair
    measure: str  # what the shares are

    def __str__(self) -> str:
        """Columns of text with a group per line."""
        lines = [self.headings, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        sides = [str.ljust, *[str.rjust] * (len(widths) - 1)]
        words = (zip(sides, line, widths, strict=True) for line in lines)
        return "\n".join(
            [
                self.title,
                *("  ".join(side(word, wide) for side, word, wide in line) for line in words),
            ]
        )


def plan_tables(plan: Plan) -> list[PlanTable]:
    """By speed and, if clients are not always there, by availability."""
    fleet, record = plan.planned.fleet, plan.audit
    steps = counted(plan.schedule.updates, "server step")
    title = f"{plan.planned.spec.name}: {plan.time:,.0f} units of time, {steps}"
    shares = None if record is None else record.speeds
    tables = [_table(plan, title, "speed", speed_classes(fleet), shares)]
    if (classes := availability_classes(fleet))[0]:
        shares = None if record is None else record.availability
        tables.append(_table(plan, "By availability", "there", classes, shares))
    return tables


def plan_sentences(plan: Plan) -> list[str]:
    """What absence does, what clients keep, and who trains the model."""
    spec, lines = plan.planned.spec, []
    if plan.absence is not None:
        lines.append(absence_line(plan.absence))
    if plan.client_vectors:
        kept = f"{counted(plan.client_vectors, 'vector')} as long as the model; none travels"
        lines.append(f"Each client keeps {kept}.")
    if plan.audit is None:
        names = " and ".join(transform.name for transform in spec.server.chain)
        cause = f" with {names}" if names else ""
        text = f"{spec.name}{cause} is not linear in the models, so clients have no weights"
        return [*lines, text]
    together = " (all of them together)" if len(plan.audit.speeds) > 2 else ""
    return [
        *lines,
        f"{spec.name} {plan.audit.verdict}",
        f"±: {plan.audit.confidence:.0%} interval of the mean share over all schedules{together}; "
        "the share in a single seed may be outside.",
    ]


def plan_html(plan: Plan) -> str:
    """For notebooks: tables, shares as bars beside those that are fair, and sentences."""
    parts = []
    for each in plan_tables(plan):
        parts.append(table(each.title, each.headings, each.rows))
        finite = bool(each.shares.size) and all(map(isfinite, each.shares))
        names = [row[0] for row in each.rows]
        parts.append(share_plot(names, each.shares, each.due, each.measure) if finite else "")
    return f"<div>{''.join([*parts, *map(paragraph, plan_sentences(plan))])}</div>"


def absence_line(met: Absence) -> str:
    """What absence and faults do, in one line."""
    parts = []
    if met.mean_availability < 1:
        middle = f"median {met.median_availability:.1%}"
        parts.append(f"Clients are there for {met.mean_availability:.1%} of the time ({middle}).")
    if met.lost_jobs:
        steps = counted(met.wasted_steps, "local step")
        who = counted(met.losing_clients, "client")
        parts.append(f"Lost: {counted(met.lost_jobs, 'job')} of {who}, with {steps}.")
    else:
        parts.append("No job is lost.")
    if met.late_updates or met.duplicate_updates:
        late, twice = f"{met.late_updates:,} late", f"{met.duplicate_updates:,} duplicate"
        parts.append(f"Client updates: {late}, {twice}.")
    if met.faults:
        kinds = ", ".join(f"{what} {number:,}" for what, number in met.faults.items())
        parts.append(f"Faults: {kinds}.")
    return " ".join(parts)


def _table(
    plan: Plan,
    title: str,
    kind: str,
    classes: tuple[Sequence[str], Ints],
    weights: Sequence[SpeedShare] | None,
) -> PlanTable:
    schedule, fleet, (names, number) = plan.schedule, plan.planned.fleet, classes
    first, presence = "tenth" if names[0].endswith(" tenth") else kind, fleet.conditions.presence
    there = None  # how much of the time, where the names do not say so
    if presence is not None and first != kind == "there":
        there = presence.share(presence.horizon)
    updates = "updates" if plan.planned.spec.clock.selection.name == "uniform" else "selected"
    more, by_samples = [] if there is None else [kind], plan.planned.fair
    each = np.full(fleet.clients, 1 / fleet.clients) if by_samples is None else by_samples
    due = np.array([each[number == group].sum() for group in range(len(names))])
    fair = "fair" if by_samples is None else "samples"
    client, steps = schedule.client[: schedule.jobs], schedule.steps[: schedule.jobs]
    jobs = np.bincount(number[client], minlength=len(names))
    rows = []
    for group, name in enumerate(names):
        those, members = (number == group)[client], int((number == group).sum())
        contacts = max(1, int(jobs[group]))
        rows.append(
            [
                name.removesuffix(" tenth").removesuffix(" available").removesuffix(" least"),
                *([] if there is None else [f"{there[number == group].mean():.1%}"]),
                f"{members:,}",
                f"{jobs[group]:,}" if updates == "updates" else f"{those.mean():.1%}",
                f"{steps[those].sum() / contacts:.2f}",
                f"{(steps[those] == 0).sum() / contacts:.1%}",
                f"{schedule.staleness[those].sum() / contacts:.2f}",
                DASH if weights is None else _interval(weights[group]),
                f"{due[group]:.1%}",
            ]
        )
    headings = [first, *more, "clients", updates, "steps", "no step", "delay", "weight", fair]
    if weights is None:
        shares = jobs / max(1, int(jobs.sum()))
        measure = "share of the jobs (stroke: fair)"
    else:
        shares = np.array([share.weight for share in weights])
        measure = "weight in the final model (stroke: fair)"
    return PlanTable(title, headings, rows, shares, due, measure)


def _interval(share: SpeedShare) -> str:
    if not isfinite(share.weight):
        return DASH
    return f"{share.weight:.1%} ± {(share.high - share.low) / 2:.1%}"
