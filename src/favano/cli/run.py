"""`favano run`: one method, one or more seeds."""

from __future__ import annotations

from favano.cli.compare import write_report
from favano.cli.flags import Config, DataDir, Json, Out, Values, spec_with_data
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
from favano.records.folder import HISTORY, PAGE
from favano.report import final_table
from favano.results import read_result
from favano.specification.presets import resolve


def run_command(
    flags: Values,
    config: Config = None,
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
    """Run one method in simulated time, for one or more seeds."""
    spec = resolve(spec_with_data(config, flags, data_dir))
    folder = out or default_folder(spec.name, [spec])
    try:
        train(
            [spec],
            [folder],
            data_dir,
            out=folder,
            force=force,
            every=checkpoint_every,
            cluster=cluster,
            track=track,
            live=live,
            target=target,
        )
    finally:
        if live and (folder / HISTORY).exists():
            write_report([read_result(folder)], folder / PAGE, target)
            say(f"report: {folder / PAGE}")
    say_kept([folder])
    if json:
        print_json(json_document([spec], [folder]))
    else:
        result = read_result(folder)
        screen.print(final_table([result], width=screen.width))
        print_costs([result], target)
        if result.audit:
            screen.print(f"{spec.name} {result.audit.verdict}", soft_wrap=True)
        screen.print(f"Results: {folder}", soft_wrap=True)
    end([folder])
