"""`favano bench`: the speed of the lanes compared with a plain loop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from favano.cli.flags import Config, DataDir, Json, Values, spec_from
from favano.cli.progress import decoding
from favano.cli.shell import keep_to, print_json, screen
from favano.errors import require
from favano.specification.config import read_config
from favano.specification.presets import resolve
from favano.specification.spec import Spec, changed

if TYPE_CHECKING:
    from favano.studies.bench import Bench, Range, System

SEEDS_ON_GPU = 10  # if their number is not given

Seconds = Annotated[float, typer.Option(help="duration of one sample")]
Repeats = Annotated[int, typer.Option(help="samples per system, taken in turns")]
Workers = Annotated[int | None, typer.Option(help="processes [default: one per core]")]
Synthetic = Annotated[
    bool | None, typer.Option(help="random images [default: except for digits and folders]")
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
    """Measure the local steps per second of the lanes and of a plain loop."""
    for name in ("horizon", "evaluate_every"):
        require(name not in flags, name, flags.get(name), "bench chooses it by --seconds")
    spec = benched_spec(config, flags)
    keep_to(spec.run.device)
    from favano.studies.bench import Effort, bench, bench_samples

    effort = Effort(seconds=seconds, repeats=repeats, workers=workers)
    with decoding(spec.problem.dataset) as on_image:
        samples = bench_samples(spec, synthetic, data_dir, on_image)
    measured = bench(spec, samples, effort)
    if json:
        print_json(measured)
    else:
        screen.print(_table(measured))


def benched_spec(config: Path | None, flags: Values) -> Spec:
    """The specification; on a GPU with several seeds, which share the lanes as in `compare`."""
    spec, asked = spec_from(config, flags), {**read_config(config).shared, **flags}
    if spec.run.device != "cpu" and "seeds" not in asked:
        spec = changed(spec, {"seeds": SEEDS_ON_GPU})
    return resolve(spec)


def _table(bench: Bench) -> Table:
    systems = bench["systems"]
    table = Table("median (min..max)", caption=_caption(bench), caption_justify="left")
    for system in systems:
        heading = f"{system['name']} (processes: {system['workers']})"
        table.add_column(heading, justify="right", overflow="fold")
    table.add_row(
        "local steps/s", *(_cell(system["steps_per_second"], ",.0f") for system in systems)
    )
    table.add_row("images/s", *(_cell(system["images_per_second"], ",.0f") for system in systems))
    starts = [system["start_up"] for system in systems]
    warm = (_cell(start and start["warm"], ".2f") for start in starts)
    table.add_row("start-up, seconds", *warm)
    first = (f"{start['first']:.2f}" if start else "-" for start in starts)
    table.add_row("the first time", *first)
    table.add_row("kernels", *(system["kernels"] or "GPU" for system in systems))
    table.add_row("gradients", *(_gradients(system) for system in systems))
    for share in ("outside_training", "lane_occupancy", "main_process"):
        cells = (_cell(system["shares"].get(share), ".1%") for system in systems)
        table.add_row(share.replace("_", " "), *cells)
    return table


def _gradients(system: System) -> str:
    if not system["traced"]:
        return "autograd"
    lengths = ", ".join(str(length) for length in system["traced"])
    return f"traced (batches of {lengths}) in {system['tracing']:.1f} s"


def _caption(bench: Bench) -> str:
    work, spec = bench["schedule"], bench["spec"]
    return (
        f"lanes / plain loop: {_cell(bench['ratio'], '.2f')}\n"
        f"{spec['algorithm']} on {spec['dataset']}, seeds: {spec['seeds']}; "
        f"{work['local_steps']:,} local steps in {work['jobs']:,} jobs\n"
        f"critical path {work['critical_path']:,} "
        f"(parallelism {work['parallelism']:.1f})\n"
        "start-up: until the first update; occupancy, main process: CPU time / time"
    )


def _cell(values: Range | None, form: str) -> str:
    if values is None:
        return "-"
    return f"{values['median']:{form}} ({values['min']:{form}}..{values['max']:{form}})"
