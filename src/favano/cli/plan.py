"""`favano plan`: the schedule alone, without training."""

from __future__ import annotations

from rich.table import Table

from favano.cli.flags import Config, Json, Out, Values, spec_from
from favano.cli.shell import notes, print_json, screen
from favano.engine import effective_weights
from favano.experiments import (
    describe,
    make_algorithm,
    make_fleet,
    make_schedule,
    resolve,
    speed_names,
)
from favano.schedule import Schedule, save_schedule
from favano.timing import Fleet
from favano.types import Floats


def plan_command(flags: Values, config: Config = None, out: Out = None, json: Json = False) -> None:
    """Who is contacted when, after how many steps, and how much each client counts."""
    spec = resolve(spec_from(config, flags))
    fleet = make_fleet(spec, spec.seed)
    algorithm = make_algorithm(spec, fleet)
    with notes.status("planning"):
        schedule = make_schedule(spec, fleet, algorithm, spec.seed)
        weight = effective_weights(algorithm, schedule)
    clients = describe(schedule, fleet, weight)
    end = float(schedule.time[-1]) if schedule.updates else 0.0
    document = {"clients": clients, "server_steps": schedule.updates, "time": end}
    if out:
        out.mkdir(parents=True, exist_ok=True)
        save_schedule(schedule, out / "schedule.npz")
    if json:
        print_json(document)
        return
    screen.print(_by_speed(schedule, fleet, weight, spec.algorithm))


def _by_speed(schedule: Schedule, fleet: Fleet, weight: Floats, algorithm: str) -> Table:
    end = schedule.time[-1] if schedule.updates else 0.0
    table = Table(
        title=f"{algorithm}: {schedule.updates:,} server steps by time {end:,.0f}",
        title_justify="left",
    )
    for name in ("speed", "clients", "contacts", "mean steps", "no step", "staleness"):
        table.add_column(name, justify="left" if name == "speed" else "right")
    table.add_column("weight", justify="right")
    table.add_column("fair", justify="right")
    client, steps = schedule.client[: schedule.jobs], schedule.steps[: schedule.jobs]
    for group, name in enumerate(speed_names(fleet)):
        members = fleet.groups == group
        those = members[client]
        contacts = max(1, int(those.sum()))
        table.add_row(
            name,
            f"{members.sum():,}",
            f"{those.sum():,}",
            f"{steps[those].sum() / contacts:.2f}",
            f"{(steps[those] == 0).sum() / contacts:.1%}",
            f"{schedule.staleness[those].sum() / contacts:.2f}",
            f"{weight[members].sum():.1%}",
            f"{members.mean():.1%}",
        )
    return table
