"""What is made here and what is read back are one thing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import favano
from favano.errors import BadInput
from favano.specification.keys import Keys

SHORT: Keys = {
    "selected": 2, "local_steps": 2, "horizon": 45.0, "evaluate_every": 20.0, "seeds": 2,
    "learning_rate": 0.1,
}  # fmt: skip
FLEET = favano.Fleet(clients=5)


@pytest.fixture(scope="module")
def made() -> favano.Comparison:
    return favano.compare(["favano", "fedavg"], "digits", FLEET, **SHORT)


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_what_is_read_has_all_that_was_made(made: favano.Comparison, tmp_path: Path) -> None:
    """Of a comparison, and of each of its results; rounds of FedAvg end after the horizon."""
    read = favano.load(made.save(tmp_path / "both"))
    assert type(read) is type(made)
    assert read.final() == made.final()
    assert read.final("loss") == made.final("loss")
    assert read.accuracy == made.accuracy
    assert read.history == made.history
    assert str(read) == str(made)
    for result, other in zip(read.results, made.results, strict=True):
        assert type(result) is type(other)
        assert (result.name, result.title, result.status) == (other.name, other.title, other.status)
        assert (result.spec, result.rows, result.runs) == (other.spec, other.rows, other.runs)
        assert (result.final(), result.accuracy) == (other.final(), other.accuracy)
        assert (result.history, repr(result)) == (other.history, repr(other))
        assert result.summary == other.summary
        assert result.participation == other.participation
        assert list(result.models) == list(other.models) == [0, 1]
        for seed, model in result.models.items():
            assert all(torch.equal(other.models[seed][name], model[name]) for name in model)
    assert made.results[1].rows[-1].time > 45.0
    assert list(read.models) == ["favano", "fedavg"]


def test_what_was_read_is_saved_as_it_was(made: favano.Comparison, tmp_path: Path) -> None:
    folder = made.save(tmp_path / "first")
    copy = favano.load(folder).save(tmp_path / "second")
    assert contents(copy) == contents(folder)
    with pytest.raises(BadInput, match="already holds another run"):
        favano.load(folder / "favano").results[0].save(copy / "fedavg")


def test_pages_of_what_was_made_and_of_what_was_read_show_the_same(
    made: favano.Comparison, tmp_path: Path
) -> None:
    """But for the folder it was written into."""
    read = favano.load(made.save(tmp_path / "both"))
    pages = [some.report(tmp_path / "page.html").read_text() for some in (made, read)]
    assert pages[0] == re.sub(" into folder (favano|fedavg)", "", pages[1]) != pages[1]


def test_reading_results_loads_no_torch_until_models_are_asked_for(
    made: favano.Comparison, tmp_path: Path
) -> None:
    folder = made.save(tmp_path / "both")
    program = (
        "import sys, favano\n"
        f"read = favano.load({str(folder)!r})\n"
        "read.final(), read.history, read.results[0].spec, read.report('page.html')\n"
        "assert 'torch' not in sys.modules\n"
        "print(len(read.models['favano'][1]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{len(made.results[0].models[1])}\n"


def test_a_method_that_is_unknown_here_is_not_executed(tmp_path: Path) -> None:
    folder = favano.simulate("favano", "digits", FLEET, **SHORT).save(tmp_path / "one")
    spec = folder / "spec.toml"
    spec.write_text(spec.read_text().replace('name = "favano"', 'name = "mine.py:Mine"'))
    (result,) = favano.load(folder).results
    assert result.name == "mine"
    with pytest.raises(BadInput, match=r"its method mine\.py:Mine is unknown here, or in a file"):
        assert result.spec
    saved = contents(result.save(tmp_path / "two"))  # it can be copied all the same
    assert saved == contents(folder)
