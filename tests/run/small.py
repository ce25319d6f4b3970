"""A table of the digits that takes a second: two methods, two columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from favano.run.backend import THIS_MACHINE, Place
from favano.run.progress import Progress, Silence
from favano.studies.experiment import PAPER, Experiment, Reading, StudyRun, seeded
from favano.studies.footprint import Footprint
from favano.studies.reproduce import reproduce
from favano.studies.request import Request

SHARED: dict[str, object] = {
    "dataset": "digits",
    "clients": 10,
    "selected": 3,
    "local_steps": 4,
    "horizon": 140.0,
    "evaluate_every": 35.0,
}
SETTINGS: dict[str, dict[str, object]] = {"iid": {"split": "iid"}, "two": {"split": "two-class"}}
FOOTPRINT = Footprint("a desk", watts=100.0, gigabytes=10.0)


def small_runs(seeds: int) -> list[StudyRun]:
    return [
        run
        for column, keys in SETTINGS.items()
        for method in ("fedavg", "favano")
        for run in seeded(PAPER, column, {**SHARED, **keys, "algorithm": method}, range(seeds))
    ]


SMALL = Experiment(
    name="small",
    title="Digits",
    runs=small_runs,
    seeds=2,
    lines={"fedavg": "FedAvg", "favano": "FAVANO"},
    columns={"iid": "IID", "two": "two classes"},
    paper={("favano", "iid"): (90.0, 2.0), ("favano", "two"): (50.0, 5.0)},
    figures={"figure": ((("accuracy", "time"), ("variance", "server_steps")),)},
    readings={
        "none": Reading("FAVANO without reweighting", ("favano",), {"reweight": "none"}),
        "free": Reading("shards", ("favano", "fedavg"), {"split": "shards:3"}, splits=True),
    },
)


class Quiet:
    """Watches without a word; `progress` hears of the training."""

    def __init__(self, progress: Progress | None = None) -> None:
        self.progress = progress or Silence()

    def beginning(self, missing: int, there: int) -> None:
        self.counts = missing, there

    def decoding(self, dataset: str) -> AbstractContextManager[Callable[[int], None]]:
        return nullcontext(lambda total: None)

    def say(self, sentence: str) -> None:
        assert sentence.endswith("of 300") or " go on, " in sentence, sentence

    def training(self) -> AbstractContextManager[Progress]:
        return nullcontext(self.progress)


def reproduce_small(
    out: Path,
    request: Request,
    progress: Progress | None = None,
    experiments: Sequence[Experiment] = (SMALL,),
    at_once: int | None = None,
    checkpoint_every: float | None = None,
    footprint: Callable[[], Footprint] = lambda: FOOTPRINT,
    place: Place = THIS_MACHINE,
) -> None:
    reproduce(
        experiments, request, out, data_dir=None, footprint=footprint, command="favano test",
        watcher=Quiet(progress), at_once=at_once, checkpoint_every=checkpoint_every, place=place,
    )  # fmt: skip
