"""Natural data sets by name, end to end: small files in the layouts of the hub."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image
from torch import Tensor, nn

import favano
from favano.specification.keys import Keys

SHORT: Keys = {"selected": 1, "local_steps": 1, "horizon": 21.0, "evaluate_every": 21.0}


def written(folder: Path, name: str, columns: dict[str, list[object]]) -> Path:
    (folder / name).mkdir(parents=True)
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / name / "train-0.parquet")
    return folder


def letters(folder: Path) -> Path:
    """`flwrlabs/femnist`: three writers, no test set."""
    images: list[object] = []
    for place in range(60):
        buffer = io.BytesIO()
        Image.fromarray(np.full((28, 28), 255 - place, np.uint8)).save(buffer, format="PNG")
        images.append({"bytes": buffer.getvalue(), "path": None})
    columns: dict[str, list[object]] = {
        "image": images,
        "writer_id": [f"f{place % 3}" for place in range(60)],
        "hsf_id": [4] * 60,
        "character": list(range(60)),
    }
    return written(folder, "femnist", columns)


def speeches(folder: Path) -> Path:
    """Two roles with enough text, and one who says hardly anything."""
    said = {"ROMEO": "But soft, what light through yonder window breaks? " * 9,
            "JULIET": "O Romeo, Romeo! wherefore art thou Romeo?\n" * 11,
            "NURSE": "Anon, good nurse!"}  # fmt: skip
    return written(folder, "shakespeare", {"character_id": list(said), "text": list(said.values())})


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("name", "make", "model", "clients"),
    [("femnist", letters, "leaf-cnn", 3), ("shakespeare", speeches, "leaf-lstm", 2)],
)
def test_the_data_say_who_the_clients_are(
    name: str, make: object, model: str, clients: int, tmp_path: Path
) -> None:
    assert callable(make)
    folder = make(tmp_path / "data")
    result = favano.simulate("favano", favano.Problem(dataset=name, data_dir=folder), **SHORT)
    assert result.spec.fleet.clients == clients
    assert result.spec.problem.model == model
    assert result.rows[-1].local_steps > 0
    assert np.isfinite(result.rows[-1].loss)
    plan = favano.plan("favano", favano.Problem(dataset=name, data_dir=folder), **SHORT)
    assert plan.planned.fleet.clients == clients


class Letters(nn.Module):
    """A linear model of the last three characters."""

    def __init__(self) -> None:
        super().__init__()
        self.letters, self.output = nn.Embedding(80, 4), nn.Linear(12, 80)

    def forward(self, windows: Tensor) -> Tensor:
        logits: Tensor = self.output(self.letters(windows[:, -3:].long()).flatten(1))
        return logits


def test_other_splits_and_networks_of_natural_data(tmp_path: Path) -> None:
    folder = speeches(tmp_path / "data")
    given = favano.Problem(Letters, dataset="shakespeare", data_dir=folder, split="iid")
    result = favano.simulate("favano", given, favano.Fleet(clients=5), **SHORT)
    assert (result.spec.problem.split, result.spec.fleet.clients) == ("iid", 5)
    given = favano.Problem(dataset="shakespeare", data_dir=folder, split="column:play")
    with pytest.raises(favano.BadInput, match=r"inputs and labels; need one of character"):
        favano.simulate("favano", given, **SHORT)
