"""`favano bench`: local steps per second of the lanes, beside the plain loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from favano.cli.flags import Config, DataDir, Json, Values, spec_from
from favano.cli.progress import counting
from favano.cli.shell import keep_to, notes, print_json, screen
from favano.errors import need
from favano.specification.presets import resolve

if TYPE_CHECKING:
    from favano.studies.bench import Bench, Range, System

Seconds = Annotated[float, typer.Option("--seconds", help="measuring time of one sample")]
Repeats = Annotated[int, typer.Option("--repeats", help="samples of each system, turn about")]
Workers = Annotated[int | None, typer.Option("--workers", help="processes [default: one a core]")]
Synthetic = Annotated[
    bool | None,
    typer.Option(
        "--synthetic/--no-synthetic",
        help="made-up images of the data set's shape [default: for all but digits and folders]",
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
        need(name not in flags, name, flags.get(name), "bench chooses it by --seconds")
    spec = resolve(spec_from(config, flags))
    keep_to(spec.run.device)
    from favano.studies.bench import Effort, bench, bench_samples

    effort = Effort(seconds=seconds, repeats=repeats, workers=workers)
    with counting(notes, f"decoding {spec.problem.dataset}, once") as on_image:
        samples = bench_samples(spec, synthetic, data_dir, on_image)
    found = bench(spec, samples, effort)
    if json:
        print_json(found)
        return
    screen.print(_table(found))


def _table(found: Bench) -> Table:
    systems = found["systems"]
    table = Table("median (min..max)", caption=_caption(found), caption_justify="left")
    for one in systems:
        table.add_column(f"{one['name']} (processes: {one['workers']})", justify="right")
    table.add_row("local steps/s", *(_cell(one["steps_per_second"], ",.0f") for one in systems))
    table.add_row("images/s", *(_cell(one["images_per_second"], ",.0f") for one in systems))
    table.add_row("kernels", *(one["kernels"] or "of the GPU" for one in systems))
    table.add_row("gradients", *(_gradients(one) for one in systems))
    for share in ("outside_training", "lane_occupancy", "main_process"):
        cells = (_cell(one["shares"].get(share), ".1%") for one in systems)
        table.add_row(share.replace("_", " "), *cells)
    return table


def _gradients(one: System) -> str:
    if not one["traced"]:
        return "autograd"
    lengths = ", ".join(str(length) for length in one["traced"])
    return f"traced (batches of {lengths}) in {one['tracing']:.1f} s"


def _caption(found: Bench) -> str:
    work, spec = found["schedule"], found["spec"]
    return (
        f"lanes / plain loop: {_cell(found['ratio'], '.2f')}\n"
        f"{spec['algorithm']} on {spec['dataset']}: {work['local_steps']:,} local steps in "
        f"{work['jobs']:,} jobs, critical path {work['critical_path']:,} "
        f"(parallelism {work['parallelism']:.1f})\noccupancy, main process: CPU time / time"
    )


def _cell(values: Range | None, form: str) -> str:
    if values is None:
        return "-"
    return f"{values['median']:{form}} ({values['min']:{form}}..{values['max']:{form}})"
