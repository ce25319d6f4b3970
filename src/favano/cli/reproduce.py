"""`favano reproduce`: a table or figure of the paper, or an experiment on natural data."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from favano.cli.flags import DataDir, Json
from favano.cli.progress import TerminalWatcher
from favano.cli.shell import begin_cuda, called_as, keep_to, leave, print_json, print_sheet, screen
from favano.cli.training import CheckpointEvery, OnCluster, asked
from favano.errors import require
from favano.report.complexity import TITLE, formula_sheet, number_sheets, write_complexity_readme
from favano.report.figure_style import check_matplotlib
from favano.report.reproduction import document, draw, entries_of, facts, sheets, write_readme
from favano.report.sheet import tables
from favano.run.folder_lock import FolderLock
from favano.studies.catalogue import ALL, KNOWN, named
from favano.studies.footprint import GRAMS_PER_KWH, PUE, check_constants, machine
from favano.studies.paper.table_1 import FLEETS, FORMULAS, NAMES, NOTE, write_table_1
from favano.studies.paper.table_1 import NAME as TABLE_1

Name = Annotated[str, typer.Argument(help=", ".join(KNOWN), metavar="NAME")]
Seeds = Annotated[int | None, typer.Option(help="number of seeds [default: the experiment's]")]
Scale = Annotated[float, typer.Option(help="share of the horizon and of the data to use")]
Device = Annotated[str, typer.Option(help="cpu, cuda or cuda:N")]
Others = Annotated[str, typer.Option(metavar="A,B|all", help="also run other readings")]
Tune = Annotated[
    bool,
    typer.Option(
        "--tune", help="also tune every method's rates; femnist and shakespeare always do"
    ),
]
With = Annotated[list[str] | None, typer.Option("--with", metavar="KEY=VALUE",
                 help="change a key in all runs; may be repeated")]  # fmt: skip
Out = Annotated[Path, typer.Option(metavar="DIR", help="folder for the results")]
AtOnce = Annotated[int | None, typer.Option(help="runs at the same time [default: all]")]
Watts = Annotated[float | None, typer.Option(help="power of the device at full load")]
Pue = Annotated[float, typer.Option(help="power usage effectiveness of the building")]
Carbon = Annotated[float, typer.Option(help="g CO2e per kWh")]


def reproduce_command(
    name: Name,
    seeds: Seeds = None,
    scale: Scale = 1.0,
    device: Device = "cpu",
    readings: Others = "",
    tune: Tune = False,
    changes: With = None,
    data_dir: DataDir = None,
    out: Out = Path("favano-results/reproduce"),
    at_once: AtOnce = None,
    watts: Watts = None,
    pue: Pue = PUE,
    carbon_intensity: Carbon = GRAMS_PER_KWH,
    json: Json = False,
    checkpoint_every: CheckpointEvery = None,
    cluster: OnCluster = None,
) -> None:
    """Reproduce a table or figure; continues where an earlier call stopped."""
    experiments, command, stopped = named(name), called_as(), False
    keep_to(device)
    if cluster in (None, "none"):
        begin_cuda(device)
    from favano.run.backend import place
    from favano.studies.archive import Archive
    from favano.studies.reproduce import Stopped, reproduce
    from favano.studies.request import Request

    others = tuple(word for word in readings.split(",") if word)
    request = Request(seeds=seeds, scale=scale, device=device, readings=others, tune=tune,
                      changes=dict(map(_change, changes or ())))  # fmt: skip
    if experiments:
        check_matplotlib()
    check_constants(watts, pue, carbon_intensity)
    describe = partial(machine, device, watts=watts, pue=pue, grams_per_kwh=carbon_intensity)
    try:
        with place(cluster) as there, FolderLock(out, asked(out), alone=False):
            reproduce(experiments, request, out, data_dir=data_dir,
                      footprint=partial(there.call, describe, device),
                      command=command, watcher=TerminalWatcher(), at_once=at_once,
                      checkpoint_every=checkpoint_every, place=there)  # fmt: skip
    except Stopped:
        stopped = True
    documents = []
    if name in (TABLE_1, ALL):
        documents.append(_complexities(out / TABLE_1, command, quiet=json))
    shown = [request.shown(experiment) for experiment in experiments]
    for experiment in shown:
        folder = request.folder(out, experiment.name)
        constants = Archive(out).constants(entry.digest for entry in entries_of(folder))
        about = facts(folder, experiment, command, constants, scale, request.changes)
        draw(folder, experiment)
        write_readme(folder, experiment, about)
        if not json:
            for sheet in sheets(folder, experiment, narrow=True):
                print_sheet(sheet)
            lines = (experiment.note, *about.values(), f"Results: {folder}")
            screen.print(*filter(None, lines), sep="\n", soft_wrap=True)
    if json:
        documents += [
            document(request.folder(out, experiment.name), experiment) for experiment in shown
        ]
        print_json({"experiments": documents})
    if stopped:
        leave("interrupted; run the same command again to continue")


def _complexities(folder: Path, command: str, *, quiet: bool) -> dict[str, object]:
    """Write Table 1 and its README, print it, and return it as a JSON document."""
    write_table_1(folder)
    all_sheets = [formula_sheet(FORMULAS, NAMES)]
    all_sheets += number_sheets(folder / "table.csv", NAMES, FLEETS, NOTE)
    write_complexity_readme(folder / "README.md", all_sheets, command)
    if not quiet:
        for sheet in all_sheets:
            print_sheet(sheet)
    return {"title": TITLE, "folder": str(folder), "tables": tables(all_sheets), "runs": []}


def _change(text: str) -> tuple[str, str]:
    """A key and its value, split at the first `=`."""
    key, equals, value = text.partition("=")
    require(bool(key and equals), "with", text, "need KEY=VALUE, as in --with horizon=3000")
    return key.replace("-", "_"), value
