"""`favano plan`: the schedule, without training."""

from __future__ import annotations

from math import isfinite

from rich.console import JustifyMethod
from rich.table import Table

from favano.cli.flags import Config, DataDir, Json, Out, Values, spec_with_data
from favano.cli.shell import notes, print_json, say, screen
from favano.planning.client_weights import speed_classes
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
    method = bind_method(spec, spec.run.seed, traits)
    jobs = expected_jobs(method.run_policy, method.context.fleet, required(spec.run.horizon))
    if _MANY < jobs < _TOO_MANY:
        cost = f"planning about {significant(jobs)} jobs takes about {duration(jobs * _SECONDS)}"
        say(f"{cost}; Ctrl-C ends it, a smaller --horizon is faster")
    with notes.status("planning"):
        plan = Plan(plan_seed(spec, spec.run.seed, traits))
        document = plan.document
    if out:
        plan.save(out)
    if json:
        print_json(document)
        return
    screen.print(_by_speed(plan, f"{spec.name}: {plan.time:,.0f} units of time"))
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


def _by_speed(plan: Plan, title: str) -> Table:
    schedule, fleet, audit = plan.schedule, plan.planned.fleet, plan.audit
    table = Table(
        title=f"{title}, {counted(schedule.updates, 'server step')}", title_justify="left"
    )
    names, speed = speed_classes(fleet)
    first = "tenth" if names[0].endswith(" tenth") else "speed"
    answers = "answers" if plan.planned.spec.clock.selection.name == "uniform" else "selected"
    due = plan.planned.fair
    fair = "fair" if due is None else "samples"
    for name in (first, "clients", answers, "steps", "no step", "delay", "weight", fair):
        side: JustifyMethod = "left" if name == first else "right"
        table.add_column(name, justify=side, overflow="fold")
    client, steps = schedule.client[: schedule.jobs], schedule.steps[: schedule.jobs]
    for group, name in enumerate(names):
        those, members = (speed == group)[client], int((speed == group).sum())
        contacts = max(1, int(those.sum()))
        share = None if audit is None else audit.speeds[group]
        table.add_row(
            name.removesuffix(" tenth"),
            f"{members:,}",
            f"{those.sum():,}" if answers == "answers" else f"{those.mean():.1%}",
            f"{steps[those].sum() / contacts:.2f}",
            f"{(steps[those] == 0).sum() / contacts:.1%}",
            f"{schedule.staleness[those].sum() / contacts:.2f}",
            DASH if share is None else _interval(share),
            f"{members / fleet.clients if due is None else due[speed == group].sum():.1%}",
        )
    return table


def _interval(share: SpeedShare) -> str:
    if not isfinite(share.weight):
        return DASH
    return f"{share.weight:.1%} ± {(share.high - share.low) / 2:.1%}"
