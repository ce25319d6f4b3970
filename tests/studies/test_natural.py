"""The experiments on natural data: the same search for all, clients counted, facts stated."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from favano.data.cache import write_owners
from favano.records.ledger import READINGS, RUNS, TUNING
from favano.report.reproduction import facts, readme
from favano.studies.experiment import Experiment
from favano.studies.natural import FEMNIST, NATURAL
from favano.studies.reproduce import reproduce
from favano.studies.request import Request
from tests.bright_rows import write_bright_rows
from tests.run.small import FOOTPRINT, Quiet
from tests.studies.test_reproduce import ledger

METHODS = {"fedavg", "fedbuff", "favano", "favano-delta"}
WRITERS = 40


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """The images of 40 writers. One has a single image for training, and a search holds it out."""
    folder = tmp_path / "data" / "femnist"
    for part, labels in write_bright_rows(folder, 62, train=6200, test=620).items():
        writer = np.arange(len(labels)) % (WRITERS - 1)
        writer[1] = WRITERS - 1
        write_owners(folder, part, {"writer_id": writer})
    return folder.parent


@pytest.mark.parametrize("experiment", NATURAL, ids=lambda experiment: experiment.name)
def test_every_method_is_tuned_by_the_same_search_away_from_what_is_reported(
    experiment: Experiment,
) -> None:
    parts = Request(readings=("all",)).parts(experiment)
    tried = parts[TUNING]
    assert Counter(run.spec.name for run in parts[RUNS]) == dict.fromkeys(METHODS, 3)
    assert Counter(run.spec.name for run in tried) == dict.fromkeys(METHODS, 15)
    assert len({run.digest for run in tried}) == len(tried)
    assert {run.spec.run.seed for run in tried} == {1000}
    assert {run.spec.problem.holdout for run in tried} == {4000}
    assert {run.spec.problem.holdout for run in parts[RUNS]} == {0}
    assert len({run.spec.run.horizon for run in tried}) == 1
    assert {run.spec.name for run in parts[READINGS]} == {"fedavg"}


@pytest.mark.parametrize("experiment", NATURAL, ids=lambda experiment: experiment.name)
def test_a_readme_says_what_is_compared_and_how_the_data_differ(
    experiment: Experiment, tmp_path: Path
) -> None:
    about = facts(tmp_path, experiment, "", "12 W", 1.0, {"horizon": "30"})
    assert about["constants"] == "12 W."
    assert about["changed"] == "horizon 30, in all runs alike."
    assert about["search"].startswith("every method tries 15 pairs of rates with 1 seed")
    assert "Reddi et al." in about["published"]
    text = readme(tmp_path, experiment, about)
    assert "the paper" not in text
    assert text.count("| missing |") == 4 + 3


@pytest.mark.slow
def test_the_data_say_how_many_clients_there_are(data_dir: Path, tmp_path: Path) -> None:
    """A search, its table and its figure on a stand-in with a small network."""
    changes = {"model": "perceptron", "horizon": "70", "evaluate_every": "35"}
    request, out = Request(seeds=1, changes=changes), tmp_path / "out"
    reproduce(
        [FEMNIST], request, out, data_dir=data_dir, footprint=lambda: FOOTPRINT, command="",
        watcher=Quiet(),
    )  # fmt: skip
    folder = request.folder(out, "femnist")
    runs, tried = ledger(folder / "runs.csv"), ledger(folder / "tuning.csv")
    assert {entry.status for entry in (*runs, *tried)} <= {"complete", "diverged"}
    assert {entry.algorithm for entry in runs} == METHODS
    files = [path.read_text() for path in (out / "runs").glob("*/spec.toml")]
    clients = Counter(int(re.findall(r"clients = (\d+)", text)[0]) for text in files)
    assert clients == {WRITERS: 4, WRITERS - 1: 4 * (15 + 5)}
