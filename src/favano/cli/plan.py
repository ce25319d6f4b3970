"""`favano plan`: the schedule alone, without training."""

from __future__ import annotations

from rich.table import Table

from favano.cli.flags import Config, DataDir, Json, Out, Values, spec_from
from favano.cli.shell import notes, print_json, screen
from favano.errors import need
from favano.experiments.audit import audit
from favano.experiments.data import load_data
from favano.experiments.participation import describe
from favano.experiments.planning import plan_seed
from favano.experiments.presets import resolve
from favano.experiments.results import check_writable
from favano.records import AuditRecord
from favano.schedule import Adaptive, Schedule, save_schedule
from favano.timing import Fleet


def plan_command(
    flags: Values,
    config: Config = None,
    data_dir: DataDir = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Who is contacted when, after how many steps, and how much each client counts."""
    spec = resolve(spec_from(config, flags))
    if out:
        check_writable(out)
    labels = load_data(spec, data_dir).train_labels if spec.sample_weights else None
    with notes.status("planning"):
        planned = plan_seed(spec, spec.seed, labels)
        ahead = not isinstance(planned.algorithm.policy, Adaptive)
        rule = "jobs depend on the models; nothing can be planned"
        need(ahead, "algorithm", spec.algorithm, rule)
        weights = planned.weigh(most=planned.fleet.clients)
        found = audit(planned, weights)
    schedule, fleet = planned.schedule, planned.fleet
    clients = describe(schedule, fleet, weights.each)
    end = float(schedule.time[-1]) if schedule.updates else 0.0
    said = ("verdict", "confidence", "fair", "speeds", "left_out")
    document = {
        "clients": clients,
        "server_steps": schedule.updates,
        "time": end,
        "audit": {key: getattr(found, key) for key in said},
    }
    if out:
        out.mkdir(parents=True, exist_ok=True)
        save_schedule(schedule, out / "schedule.npz")
    if json:
        print_json(document)
        return
    screen.print(_by_speed(schedule, fleet, found, f"{spec.algorithm}: {end:,.0f} units of time"))
    screen.print(f"{spec.algorithm} {found.verdict}", soft_wrap=True, markup=False)
    screen.print(
        f"±: {found.confidence:.0%} interval of the mean share over all schedules; "
        "the share of one other seed may lie further out.",
        soft_wrap=True,
    )


def _by_speed(schedule: Schedule, fleet: Fleet, found: AuditRecord, title: str) -> Table:
    table = Table(title=f"{title}, {schedule.updates:,} server steps", title_justify="left")
    for name in ("speed", "clients", "answers", "steps", "no step", "delay"):
        table.add_column(name, justify="left" if name == "speed" else "right")
    table.add_column("weight", justify="right", no_wrap=True)
    table.add_column("fair", justify="right")
    client, steps = schedule.client[: schedule.jobs], schedule.steps[: schedule.jobs]
    for group, share in enumerate(found.speeds):
        those = (fleet.groups == group)[client]
        contacts = max(1, int(those.sum()))
        table.add_row(
            share.name,
            f"{share.clients:,}",
            f"{those.sum():,}",
            f"{steps[those].sum() / contacts:.2f}",
            f"{(steps[those] == 0).sum() / contacts:.1%}",
            f"{schedule.staleness[those].sum() / contacts:.2f}",
            f"{share.weight:.1%} ± {(share.high - share.low) / 2:.1%}",
            f"{share.fair:.1%}",
        )
    return table
