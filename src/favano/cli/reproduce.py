"""`favano reproduce`: a table or figure of the paper, beside the paper's numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from favano.cli.complexities import complexities
from favano.cli.flags import DataDir, Json
from favano.cli.progress import TerminalWatcher
from favano.cli.shell import INTERRUPTED, called_as, keep_to, notes, print_json, print_sheet, screen
from favano.errors import need
from favano.report.figure_style import check_matplotlib
from favano.report.reproduction import document, draw, facts, sheets, write_readme
from favano.studies.footprint import GRAMS_PER_KWH, PUE, machine
from favano.studies.paper import ALL, KNOWN, TABLE_1, named

Name = Annotated[str, typer.Argument(help=", ".join(KNOWN), metavar="NAME")]
Seeds = Annotated[int | None, typer.Option("--seeds", help="how many [default: as the paper]")]
Scale = Annotated[float, typer.Option("--scale", help="share of the horizon and of the data")]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda or cuda:N")]
Others = Annotated[str, typer.Option("--readings", metavar="A,B|all", help="also other readings")]
Tune = Annotated[bool, typer.Option("--tune", help="also search every method's learning rates")]
With = Annotated[list[str] | None, typer.Option("--with", metavar="KEY=VALUE",
                 help="another value of a key in all runs; may be repeated")]  # fmt: skip
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="where results are kept")]
AtOnce = Annotated[int | None, typer.Option("--at-once", help="runs side by side [default: all]")]
Watts = Annotated[float | None, typer.Option("--watts", help="power of the device at full load")]
Pue = Annotated[float, typer.Option("--pue", help="power usage effectiveness of the building")]
Carbon = Annotated[float, typer.Option("--carbon-intensity", help="g CO2e per kWh")]


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
) -> None:
    """Reproduce a table or figure; goes on where an earlier call stopped."""
    experiments, command, stopped = named(name), called_as(), False
    keep_to(device)
    from favano.studies.reproduce import Stopped, reproduce
    from favano.studies.request import Request

    others = tuple(word for word in readings.split(",") if word)
    request = Request(seeds=seeds, scale=scale, device=device, readings=others, tune=tune,
                      changes=dict(map(_change, changes or ())))  # fmt: skip
    if experiments:
        check_matplotlib()
    here = machine(device, watts=watts, pue=pue, grams_per_kwh=carbon_intensity)
    try:
        reproduce(experiments, request, out, data_dir=data_dir, footprint=here, command=command,
                  watcher=TerminalWatcher(notes), at_once=at_once)  # fmt: skip
    except Stopped:
        stopped = True
    found = []
    if name in (TABLE_1, ALL):
        found.append(complexities(out / TABLE_1, command, quiet=json))
    shown = [request.shown(one) for one in experiments]
    for one in shown:
        folder = request.folder(out, one.name)
        about = facts(folder, command, here.words, scale, request.changes)
        draw(folder, one)
        write_readme(folder, one, about)
        if not json:
            for sheet in sheets(folder, one, narrow=True):
                print_sheet(sheet)
            lines = (one.note, *about.values(), f"Results: {folder}")
            screen.print(*filter(None, lines), sep="\n", soft_wrap=True, markup=False)
    if json:
        found += [document(request.folder(out, one.name), one) for one in shown]
        print_json({"experiments": found})
    if stopped:
        notes.print("favano: interrupted; the same command goes on from here", soft_wrap=True)
        raise typer.Exit(INTERRUPTED)


def _change(text: str) -> tuple[str, str]:
    """A key and its value, split at the first `=`."""
    key, equals, value = text.partition("=")
    need(bool(key and equals), "with", text, "need KEY=VALUE, as in --with horizon=3000")
    return key.replace("-", "_"), value
