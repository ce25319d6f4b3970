"""Natural splits take the number of clients from the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import favano
from favano.data import Dataset, load
from favano.errors import BadInput
from favano.run.data import load_data, split_of, with_clients
from favano.specification.parts import ProblemPart


@pytest.fixture
def by_five(tmp_path: Path) -> str:
    np.save(tmp_path / "owners.npy", np.arange(1437) % 5)
    return f"file:{tmp_path / 'owners.npy'}"


def test_clients_are_counted_in_natural_splits_alone(by_five: str) -> None:
    assert with_clients({"split": by_five})["clients"] == 5
    assert with_clients({"split": by_five, "clients": 3})["clients"] == 3
    for keys in ({}, {"split": "iid"}, {"split": "own"}, {"dataset": "own"}):
        assert with_clients(keys) == keys


def test_the_split_may_be_that_of_the_data_set() -> None:
    assert split_of(ProblemPart(dataset="femnist")) == "column:writer_id"
    assert split_of(ProblemPart(dataset="femnist", split="iid")) == "iid"


def test_clients_follow_the_samples_that_are_in_use(by_five: str) -> None:
    whole = load_data(ProblemPart(split=by_five)).traits.owners[by_five]
    held = load_data(ProblemPart(split=by_five, holdout=400))
    assert np.array_equal(whole, np.arange(1437) % 5)
    both = np.concatenate([held.train.owners[by_five], held.test.owners[by_five]])
    assert np.bincount(both).tolist() == np.bincount(whole).tolist()
    assert len(held.train.owners[by_five]) == 1037


def test_a_file_for_other_data_is_refused(tmp_path: Path) -> None:
    (tmp_path / "owners.txt").write_text("0\n1\n")
    rule = r"owners\.txt: names 2 clients, need one for each of 1437 training samples$"
    with pytest.raises(BadInput, match=rule):
        with_clients({"split": f"file:{tmp_path / 'owners.txt'}"})


def test_the_data_of_a_problem_are_read_once(by_five: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []

    def counted(name: str, **keys: Any) -> Dataset:
        read.append(name)
        return load(name, **keys)

    monkeypatch.setattr("favano.run.data.load", counted)
    problem = favano.Problem(dataset="digits", split=by_five)
    first, again = (favano.simulate("favano", problem, selected=2, horizon=20.0) for _ in range(2))
    favano.plan("fedavg", problem, horizon=20.0)
    assert len(read) == 1
    assert first.rows == again.rows
