"""`favano tune`: the same search for the settings of several methods."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Annotated

import typer

from favano.cli.compare import Algorithms, Set, compared_keys
from favano.cli.flags import Config, DataDir, Json, Out, Values, counted, held_out
from favano.cli.progress import TerminalWatcher
from favano.cli.shell import (
    called_as,
    default_folder,
    keep_to,
    leave,
    print_json,
    print_sheet,
    say,
    screen,
)
from favano.cli.training import CheckpointEvery, OnCluster, asked
from favano.errors import require
from favano.planning.comparison import comparison, without_exact_weights
from favano.planning.planned import check_plans
from favano.run.folder_lock import FolderLock
from favano.specification.flags import flags_of
from favano.specification.spec import Spec
from favano.studies.experiment import make
from favano.studies.points import parse_grid
from favano.studies.search import FIRST_SEED, Search

Grid = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=A,B,C", help="values of a key, or of METHOD.KEY; may be repeated"),
]
How = Annotated[str, typer.Option("--search", help="grid, random or halving")]
Trials = Annotated[int | None, typer.Option(help="points of each method, for random and halving")]
_SHOWN = 10  # points of each method


def tune_command(
    flags: Values,
    config: Config = None,
    algorithms: Algorithms = None,
    set_: Set = None,
    grid: Grid = None,
    search: How = "grid",
    trials: Trials = None,
    data_dir: DataDir = None,
    out: Out = None,
    json: Json = False,
    checkpoint_every: CheckpointEvery = None,
    cluster: OnCluster = None,
) -> None:
    """Tune methods by the same search, on held-out training samples; goes on where it stopped."""
    from favano.studies.tune import OWN_SEEDS, plan_search, tune_specs

    require("seed" not in flags, "seed", flags.get("seed"), OWN_SEEDS)
    keys, methods = compared_keys(config, algorithms, flags)
    specs = comparison(counted(held_out(keys, data_dir), data_dir), methods, set_ or [])
    rule = "lists several values; give them by --grid"
    for key, value in flags.items():
        require(len(specs) == len(methods) or "," not in str(value), key, value, rule)
    axes = parse_grid(
        grid or [], [name for spec in specs for name in (spec.name, spec.method.name)]
    )
    for key in axes:
        rule = "is tuned by --grid, too; remove one of them"
        require(key not in flags, key, flags.get(key), rule)
    points, rungs = plan_search(specs, axes, search, trials)
    every = [make(spec, point) for spec, some in zip(specs, points, strict=True) for point in some]
    check_plans(every)
    for words in without_exact_weights(specs):
        say(words)
    folder, run = out or default_folder("tune", every), specs[0].run
    wanted = Search(rungs, specs[0].problem.holdout, run.seeds)
    keep_to(run.device)
    from favano.run.backend import RunTogether, place

    try:
        with place(cluster) as there, FolderLock(folder, asked(folder)):

            def load(spec: Spec, on_image: Callable[[int], None]) -> RunTogether:
                return there.load(spec, data_dir, on_image)

            tuning = tune_specs(
                specs, points, wanted, folder, load=load, place=there,
                watcher=TerminalWatcher(), command=called_as(), checkpoint_every=checkpoint_every,
            )  # fmt: skip
    except KeyboardInterrupt:
        leave("interrupted; run the same command again to continue")
    own = [] if data_dir is None else ["--data-dir", str(data_dir)]
    seeds = {"seed": FIRST_SEED, "seeds": run.seeds}
    commands = {
        spec.name: shlex.join(["favano", "run", *flags_of(made), *own])
        for spec in specs
        for made in [make(spec, {**tuning.best[spec.name], **seeds})]
    }
    for sentence in tuning.warnings():
        say(sentence)
    if json:
        print_json(tuning.document(commands))
        return
    print_sheet(tuning.sheet(_SHOWN))
    screen.print(
        "The best of each method once more; for the test set, without --holdout and --seed:"
    )
    for command in commands.values():
        screen.print(command, soft_wrap=True)
    screen.print(f"Results: {folder}", soft_wrap=True)
