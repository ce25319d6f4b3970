"""`favano bench`: local steps per second of the lanes, beside the plain loop."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from favano.cli.flags import Config, DataDir, Json, Values, spec_from
from favano.cli.progress import counting
from favano.cli.shell import notes, print_json, screen
from favano.errors import need
from favano.experiments import resolve
from favano.experiments.bench import Bench, Range, bench

Seconds = Annotated[float, typer.Option("--seconds", help="measuring time of one sample")]
Repeats = Annotated[int, typer.Option("--repeats", help="samples of each system, turn about")]
Workers = Annotated[
    int | None, typer.Option("--workers", help="processes of the lanes [default: one a core]")
]
Synthetic = Annotated[
    bool | None,
    typer.Option(
        "--synthetic/--no-synthetic",
        help="made-up images of the data set's shape [default: for all but digits and folders]",
        show_default=False,
    ),
]


def bench_command(
    flags: Values,
    config: Config = None,
    seconds: Seconds = 5.0,
    repeats: Repeats = 3,
    workers: Workers = None,
    synthetic: Synthetic = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Local steps per second of the lanes, beside the plain loop; the horizon follows --seconds."""
    for name in ("horizon", "evaluate_every"):
        rule = "bench chooses the horizon from --seconds, and scores nothing on the way"
        need(name not in flags, name, flags.get(name), rule)
    effort = Effort(seconds=seconds, repeats=repeats, workers=workers)
    spec = resolve(spec_from(config, flags))
    with counting(notes, f"decoding {spec.dataset}, once") as on_image:
        samples = bench_samples(spec, synthetic, data_dir, on_image)
    found = bench(spec, samples, effort)
    if json:
        print_json(found)
        return
    screen.print(_table(found))
    for line in _lines(found):
        screen.print(line, soft_wrap=True)


def _table(found: Bench) -> Table:
    table = Table(title=f"{found['spec']['algorithm']} on {found['spec']['dataset']}")
    table.add_column("median (min..max)")
    plain, lanes = found["systems"]
    table.add_column("plain loop", justify="right")
    table.add_column(f"lanes, {lanes['workers']} worker(s)", justify="right")
    for name, key in (("local steps/s", "steps_per_second"), ("images/s", "images_per_second")):
        table.add_row(name, *(_cell(system[key], ",.0f") for system in (plain, lanes)))
    table.add_row("time outside training", _cell(plain["outside_training"], ".1%"), "-")
    table.add_row("lane occupancy*", "-", _cell(lanes["occupancy"], ".1%"))
    table.add_row("main process busy*", "-", _cell(lanes["main_process"], ".1%"))
    table.caption = "* CPU time over the time of the lanes"
    return table


def _lines(found: Bench) -> list[str]:
    size = found["schedule"]
    return [
        f"lanes / plain loop {_cell(found['ratio'], '.2f')}, "
        f"a worker {_cell(found['efficiency'], '.2f')} (efficiency), {found['repeats']} repeats",
        f"{size['local_steps']:,} local steps in {size['jobs']:,} jobs, critical path "
        f"{size['critical_path']:,}: {size['parallelism']:.1f} steps side by side at most on average",
    ]


def _cell(values: Range | None, form: str) -> str:
    if values is None:
        return "-"
    return f"{values['median']:{form}} ({values['min']:{form}}..{values['max']:{form}})"
