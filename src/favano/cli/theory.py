"""`favano theory`: the paper's mathematics from the command line."""

from __future__ import annotations

from rich.table import Table

from favano.cli.flags import Config, Json, Values, spec_from
from favano.cli.shell import print_json, screen
from favano.experiments import make_fleet, resolve, speed_names
from favano.experiments.build import poll_policy
from favano.theory import step_count


def steps_command(flags: Values, config: Config = None, json: Json = False) -> None:
    """The law of X = min(E, K), the local steps a polled client has made at a contact."""
    spec = resolve(spec_from(config, flags))
    fleet, policy = make_fleet(spec, spec.seed), poll_policy(spec)
    laws = {
        name: step_count(policy, clients=fleet.clients, law=fleet.law, mean=float(mean))
        for name, mean in zip(speed_names(fleet), sorted(set(fleet.mean)), strict=True)
    }
    columns = {
        "p_positive": "P(E > 0)",
        "mean": "E[X]",
        "second_moment": "E[X^2]",
        "mean_inverse": "E[1/X; X > 0]",
    }
    values = {name: {key: getattr(law, key) for key in columns} for name, law in laws.items()}
    if json:
        print_json(values)
        return
    table = Table(title=f"n = {spec.clients}, s = {spec.selected}, K = {spec.local_steps}")
    for heading in ("speed", *columns.values()):
        table.add_column(heading, justify="left" if heading == "speed" else "right")
    for name, law in values.items():
        table.add_row(name, *(f"{number:.6f}" for number in law.values()))
    screen.print(table)
