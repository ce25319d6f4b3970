"""`favano plan`: the schedule, without training."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from rich.console import JustifyMethod
from rich.table import Table

from favano.cli.flags import Config, DataDir, Json, Out, Values, spec_with_data
from favano.cli.shell import notes, print_json, say, screen
from favano.planning.absence import Absence
from favano.planning.client_weights import availability_classes, speed_classes
from favano.planning.fleet import needs_cost
from favano.planning.plan import Plan
from favano.planning.planned import bind_method, plan_seed
from favano.records import SpeedShare
from favano.report.wording import DASH, counted, significant
from favano.results import check_writable
from favano.run.data import load_data
from favano.run.progress import duration
from favano.schedule import expected_jobs
from favano.specification.presets import resolve
from favano.specification.spec import required
from favano.types import Ints

_MANY, _TOO_MANY = 200_000, 1e10  # jobs that are planned without a word, and refused
_SECONDS = 5e-5  # that a job takes with its share in the audit, about


def plan_command(
    flags: Values,
    config: Config = None,
    data_dir: DataDir = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Plan the schedule: who is contacted when, after how many steps, with what weight."""
    spec = resolve(spec_with_data(config, flags, data_dir))
    if out:
        check_writable(out)
    traits = load_data(spec.problem, data_dir).traits if spec.counts_samples else None
    cost = None
    if needs_cost(spec):  # which takes PyTorch and the data
        from favano.run.job_cost import named_cost

        with notes.status("counting the operations of a step"):
            cost = named_cost(spec, data_dir)
    method = bind_method(spec, spec.run.seed, traits, cost)
    jobs = expected_jobs(method.run_policy, method.context.fleet, required(spec.run.horizon))
    if _MANY < jobs < _TOO_MANY:
        long = f"planning about {significant(jobs)} jobs takes about {duration(jobs * _SECONDS)}"
        say(f"{long}; Ctrl-C ends it, a smaller --horizon is faster")
    with notes.status("planning"):
        plan = Plan(plan_seed(spec, spec.run.seed, traits, cost))
        document = plan.document
    if out:
        plan.save(out)
    if json:
        print_json(document)
        return
    steps = counted(plan.schedule.updates, "server step")
    title = f"{spec.name}: {plan.time:,.0f} units of time, {steps}"
    speeds, classes = speed_classes(plan.planned.fleet), availability_classes(plan.planned.fleet)
    shares = None if plan.audit is None else plan.audit.speeds
    screen.print(_table(plan, title, "speed", speeds, shares))
    if classes[0]:
        shares = None if plan.audit is None else plan.audit.availability
        screen.print(_table(plan, "By availability", "there", classes, shares))
    if plan.absence is not None:
        screen.print(absence_line(plan.absence), soft_wrap=True)
    if plan.client_vectors:
        kept = f"{counted(plan.client_vectors, 'vector')} as long as the model; none travels"
        screen.print(f"Each client keeps {kept}.", soft_wrap=True)
    if plan.audit is None:
        names = " and ".join(transform.name for transform in spec.server.chain)
        cause = f" with {names}" if names else ""
        text = f"{spec.name}{cause} is not linear in the models, so clients have no weights"
        screen.print(text, soft_wrap=True)
        return
    screen.print(f"{spec.name} {plan.audit.verdict}", soft_wrap=True)
    together = " (all of them together)" if len(plan.audit.speeds) > 2 else ""
    screen.print(
        f"±: {plan.audit.confidence:.0%} interval of the mean share over all schedules{together}; "
        "the share in a single seed may be outside.",
        soft_wrap=True,
    )


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
    shares: Sequence[SpeedShare] | None,
) -> Table:
    schedule, fleet, (names, number) = plan.schedule, plan.planned.fleet, classes
    table = Table(title=title, title_justify="left")
    first, presence = "tenth" if names[0].endswith(" tenth") else kind, fleet.conditions.presence
    there = None  # how much of the time, where the names do not say so
    if presence is not None and first != kind == "there":
        there = presence.share(presence.horizon)
    answers = "answers" if plan.planned.spec.clock.selection.name == "uniform" else "selected"
    more, due = [] if there is None else [kind], plan.planned.fair
    fair = "fair" if due is None else "samples"
    for name in (first, *more, "clients", answers, "steps", "no step", "delay", "weight", fair):
        side: JustifyMethod = "left" if name == first else "right"
        table.add_column(name, justify=side, overflow="fold")
    client, steps = schedule.client[: schedule.jobs], schedule.steps[: schedule.jobs]
    for group, name in enumerate(names):
        those, members = (number == group)[client], int((number == group).sum())
        contacts = max(1, int(those.sum()))
        share = None if shares is None else shares[group]
        table.add_row(
            name.removesuffix(" tenth").removesuffix(" available").removesuffix(" least"),
            *([] if there is None else [f"{there[number == group].mean():.1%}"]),
            f"{members:,}",
            f"{those.sum():,}" if answers == "answers" else f"{those.mean():.1%}",
            f"{steps[those].sum() / contacts:.2f}",
            f"{(steps[those] == 0).sum() / contacts:.1%}",
            f"{schedule.staleness[those].sum() / contacts:.2f}",
            DASH if share is None else _interval(share),
            f"{members / fleet.clients if due is None else due[number == group].sum():.1%}",
        )
    return table


def _interval(share: SpeedShare) -> str:
    if not isfinite(share.weight):
        return DASH
    return f"{share.weight:.1%} ± {(share.high - share.low) / 2:.1%}"
