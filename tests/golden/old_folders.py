"""Result folders of earlier releases, which every later one loads, reports and verifies.

`python -m tests.golden.old_folders [NAME ...]` makes them, with the release that it finds; those in
`records/folders` are of the release that their files name. Where they were made on another kind of
machine, a result is still right, but not proved.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

os.environ.setdefault("OMP_NUM_THREADS", "1")  # as for all tests

import favano
from tests.golden.comparison import Value
from tests.golden.front_door import command, folder
from tests.golden.killed_runs import killed
from tests.golden.records import BYTES, FOLDER, Values
from tests.golden.said import said
from tests.golden.trained_models import convnet, values_of

TOLERANCE: Final = 1e-6  # the models are read, not trained
Step: TypeAlias = str | Callable[[str], object]

_FOLDERS: Final = FOLDER / "folders"
_OWN_METHOD: Final = '''"""Half of the mean of all deltas."""

import favano


class Halves(favano.Method[favano.ModelState]):
    """w <- w + mean_i (w_i - w) / 2"""

    title = "Halves"

    def policy(self):
        return self.context.rounds()

    def init(self, model):
        return favano.ModelState(model)

    def aggregate(self, state, updates):
        return favano.ModelState(state.model + (updates.end - updates.start).mean(0) / 2)
'''
_FILES: Final = {"halves.py": _OWN_METHOD}

_SMALL: Final = "--clients 6 --batch-size 16 --horizon 60 --evaluate-every 20"
_SK: Final = "--selected 3 --local-steps 4"
_RUN: Final = f"run {_SMALL} {_SK} --checkpoint-every inf"
_KEYS: Final[Mapping[str, Any]] = {
    "clients": 6, "horizon": 60.0, "evaluate_every": 20.0, "learning_rate": 0.1, "selected": 3,
    "local_steps": 4, "progress": False,
}  # fmt: skip


def _problem() -> favano.Problem:
    """A network of one's own."""
    return favano.Problem(convnet, dataset="digits", batch_size=16)


def _own_problem(name: str) -> None:
    favano.compare(["favano", "fedprox"], _problem(), **_KEYS).save(name)


def _stopped(name: str) -> None:
    favano.simulate(
        "fedbuff",
        "digits",
        on_evaluate=lambda row: favano.STOP if row["time"] == 40.0 else None,
        buffer=2,
        **_KEYS,
    ).save(name)


def _killed(name: str) -> None:
    killed(f"{_RUN} --checkpoint-every 0 --out {name}")


def _tidied(name: str) -> None:
    """Without checkpoints, which later releases refuse anyway."""
    shutil.rmtree(Path(name) / "checkpoints")


_LONGER: Final = f"{_RUN} --algorithm fedbuff --buffer 2 --checkpoint-every 0"
MADE: Final[Mapping[str, Sequence[Step]]] = {  # of a command, the last word is the folder
    "several-seeds": [f"{_RUN} --seeds 2 --track-bound --out"],
    "longer": [f"{_LONGER} --out", f"{_LONGER} --horizon 90 --seeds 2 --out", _tidied],
    "comparison": [
        f"compare --algorithms favano,fedavg,quafl,fedbuff,fedasync,asofed {_SMALL} {_SK} --seeds 2"
        " --checkpoint-every inf --out"
    ],
    "own-problem": [_own_problem],
    "tune": [
        f"tune --algorithms favano,fedbuff {_SMALL} {_SK} --grid learning_rate=0.1,0.5"
        " --holdout 200 --out"
    ],
    "kept-best": [f"{_RUN} --learning-rate 2 --keep best --holdout 200 --out"],
    "reproduce": [
        "reproduce figure-mnist --seeds 2 --with dataset=digits --with clients=20"
        " --with horizon=60 --with evaluate_every=20 --out"
    ],
    "few-bits": [f"{_RUN} --algorithm quafl --quantise luq --codec lattice --out"],
    "presence": [
        f"{_RUN} --algorithm fedbuff --buffer 2 --availability two-state:30:10 --link 1:2:0.1"
        " --joules-per-step 2 --out"
    ],
    "own-method": [f"{_RUN} --algorithm halves.py:Halves --horizon 200 --out"],
    "stopped": [_stopped],
    "killed": [_killed],
    "resumed": [_killed, "resume", _tidied],
}
CASES: Final[Mapping[str, str]] = {name: name for name in MADE}
QUICK: Final = ("several-seeds", "comparison", "tune", "own-method")


def record(case: str) -> Values:
    """What is loaded, and what `report`, `verify` and `resume` say."""
    with folder(_FILES) as here:
        shutil.copytree(_FOLDERS / case, here / case)
        trust = " --trust halves.py" if case == "own-method" else ""
        verified = said(command(f"favano verify {case}{trust}"))
        made: Values = {
            "report": said(command(f"favano report {case}")),
            "by digests": said(command(f"favano verify {case} --chain")),
            "right": verified["exit code"] in (0, 3),
            BYTES: {"verified": verified},
        }
        if case == "own-problem":
            verdicts = favano.verify(case, _problem())
            made["right"] = all(verdict.outcome != "wrong" for verdict in verdicts)
            made[BYTES] = {"verified": [verdict.words for verdict in verdicts]}
        try:
            loaded = favano.load(case)
        except favano.BadInput as error:
            return {**made, "loaded": str(error)}
        results = {result.name: _without_bytes(result) for result in loaded.results}
        return {**made, "printed": str(loaded).splitlines(), "loaded": results}


def _without_bytes(result: favano.Result) -> dict[str, Value]:
    values = values_of(result)
    return {name: value for name, value in values.items() if name != BYTES}


def make(name: str) -> None:
    """A folder anew."""
    with folder(_FILES) as here:
        for step in MADE[name]:
            if callable(step):
                step(name)
            elif (output := command(f"favano {step} {name}")).code:
                sys.exit(f"{step}: {output}")
        shutil.rmtree(_FOLDERS / name, ignore_errors=True)
        pictures = shutil.ignore_patterns("*.html", "*.pdf", "*.png")
        shutil.copytree(here / name, _FOLDERS / name, ignore=pictures)
        for file in _FOLDERS.glob(f"{name}/resume.json"):
            file.write_text(file.read_text().replace(str(here), "."))


if __name__ == "__main__":
    for name in sys.argv[1:] or MADE:
        make(name)
