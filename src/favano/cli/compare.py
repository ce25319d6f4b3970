"""`favano compare`: several algorithms on the same seeds, with paired differences."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from favano.cli.flags import Config, DataDir, Json, Out, Values, split_lists
from favano.cli.progress import TerminalProgress, counting
from favano.cli.shell import default_folder, json_document, keep, keep_to, notes, print_json, screen
from favano.experiments.comparison import comparison
from favano.experiments.planning import check_plan
from favano.experiments.results import check_folder, read_table
from favano.experiments.spec import Spec
from favano.report import collect, final_table, sentence, title_of, write_page

Algorithms = Annotated[
    str | None, typer.Option("--algorithms", metavar="A,B,C", help="the methods to compare")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="ALGORITHM.KEY=VALUE", help="a key for one method only"),
]


def compare_command(
    flags: Values,
    config: Config = None,
    algorithms: Algorithms = None,
    set_: Set = None,
    data_dir: DataDir = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Compare algorithms on the same fleets, splits, batches and initial models."""
    table = read_table(config) if config else {}
    specs = comparison({**table, **split_lists(flags)}, algorithms, set_ or [])
    folder = out or default_folder("compare", specs)
    compare(specs, folder, data_dir, json=json)


def compare(specs: list[Spec], folder: Path, data_dir: Path | None, *, json: bool) -> None:
    """Run all specifications, write a folder for each and one page for all."""
    for spec in specs:
        check_plan(spec)
        check_folder(folder / spec.algorithm, spec)
    keep_to(specs[0].device)
    from favano.experiments import load_samples, named_model, run_together

    with counting(notes, f"decoding {specs[0].dataset}, once") as on_image:
        samples = load_samples(specs[0], data_dir, on_image)
    with TerminalProgress(notes) as progress:
        results = run_together(specs, samples, named_model(specs[0], samples), progress=progress)
    folders, page = [folder / spec.algorithm for spec in specs], folder / "report.html"
    try:
        keep(results, folders)
    except typer.Exit:  # cut short; what there is has its page all the same
        found = collect(folders)
        write_page(found, page, title=f"{title_of(found)}, partial")
        notes.print(f"favano: report of what there is: {page}", soft_wrap=True, markup=False)
        raise
    found = collect(folders)
    write_page(found, page, title=title_of(found))
    if json:
        print_json(json_document(results))
        return
    screen.print(final_table(found, width=screen.width))
    screen.print(sentence(found), soft_wrap=True)
    screen.print(f"Report: {page}", soft_wrap=True)
