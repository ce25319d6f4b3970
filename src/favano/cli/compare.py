"""`favano compare`: several methods on the same seeds, with paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from favano.cli.flags import Config, DataDir, Json, Out, Values, counted, with_flags
from favano.cli.shell import default_folder, print_costs, print_json, say, screen
from favano.cli.training import (
    CheckpointEvery,
    Force,
    Live,
    OnCluster,
    Target,
    Track,
    end,
    json_document,
    say_kept,
    train,
)
from favano.planning.comparison import DEFAULT, chosen, comparison, keys_for, left_without
from favano.records.folder import PAGE, folder_name
from favano.report import final_table, sentence, title_of, write_page
from favano.results import Result, collect
from favano.specification.config import read_config
from favano.specification.spec import ALGORITHM, Spec

Algorithms = Annotated[str | None, typer.Option(metavar="A,B,C", help="the methods to compare")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="METHOD.KEY=VALUE", help="a key for one method only"),
]


def compare_command(
    flags: Values,
    config: Config = None,
    algorithms: Algorithms = None,
    set_: Set = None,
    data_dir: DataDir = None,
    out: Out = None,
    json: Json = False,
    force: Force = False,
    checkpoint_every: CheckpointEvery = None,
    cluster: OnCluster = None,
    target: Target = None,
    track: Track = None,
    live: Live = False,
) -> None:
    """Compare methods on the same fleets, splits, batches and initial models."""
    keys, methods = compared_keys(config, algorithms, flags)
    keys = counted(keys, data_dir)
    specs = comparison(keys, methods, set_ or [])
    for words in left_without(keys, [spec.method for spec in specs]):
        say(words)
    folder = out or default_folder("compare", specs)
    compare(
        specs,
        folder,
        data_dir,
        json=json,
        force=force,
        every=checkpoint_every,
        cluster=cluster,
        target=target,
        track=track,
        live=live,
    )


def compared_keys(
    config: Path | None, algorithms: str | None, flags: Values
) -> tuple[Values, Sequence[Mapping[str, object]]]:
    """The keys of all methods, and the methods with keys of their own."""
    file = read_config(config)
    named = tuple({ALGORITHM: name} for name in algorithms.split(",")) if algorithms else ()
    methods = chosen(file.methods, named) or [{ALGORITHM: name} for name in DEFAULT]
    shared = keys_for(file.shared, methods, file.methods)
    return with_flags(shared, flags), methods


def compare(
    specs: list[Spec],
    folder: Path,
    data_dir: Path | None,
    *,
    json: bool,
    force: bool,
    every: float | None = None,
    cluster: str | None = None,
    target: float | None = None,
    track: Sequence[str] | None = None,
    live: bool = False,
) -> None:
    """Run what is not done yet, and write a folder per method and one page for all."""
    folders, page = [folder / folder_name(spec.name) for spec in specs], folder / PAGE
    try:
        train(
            specs,
            folders,
            data_dir,
            out=folder,
            force=force,
            every=every,
            cluster=cluster,
            track=track,
            live=live,
            target=target,
        )
    except typer.Exit:  # interrupted or stopped: the page shows what there is
        write_report(collect(folders), page, target)
        say(f"report of the results so far: {page}")
        raise
    results = collect(folders)
    write_report(results, page, target)
    say_kept(folders)
    if json:
        print_json(json_document(specs, folders))
    else:
        screen.print(final_table(results, width=screen.width))
        print_costs(results, target)
        screen.print(sentence(results), soft_wrap=True)
        screen.print(f"Report: {page}", soft_wrap=True)
    end(folders)


def write_report(results: Sequence[Result], page: Path, target: float | None) -> None:
    """Write the page of these results, which may be partial."""
    partial = "" if all(result.ended for result in results) else ", partial"
    write_page(results, page, title=f"{title_of(results)}{partial}", target=target)
