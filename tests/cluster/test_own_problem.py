"""Problems and methods of one's own from Python, on a cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import favano
from favano.errors import BadInput
from tests.cluster import own_network, own_problem
from tests.cluster.test_ray_cluster import environment

__all__ = ["environment"]
FILES = ("history.csv", "model.safetensors", "participation.json", "spec.toml")
MADE = ("source", "code", "data", "kernels", "audit", "served", "status")

PACKED = """
import pickle, sys
from pathlib import Path
from ray import cloudpickle
from tests.cluster import own_problem
from favano.code_digest import code_digest, user_sources
cloudpickle.register_pickle_by_value(own_problem)
given = own_problem.Net, own_problem.loss, own_problem.absolute
digests = [code_digest(part) for part in given]
Path(sys.argv[1]).write_bytes(pickle.dumps((cloudpickle.dumps(given), user_sources(), digests)))
"""
UNPACKED = """
import pickle, sys
from pathlib import Path
from favano.code_digest import code_digest, keep_sources
given, sources, digests = pickle.loads(Path(sys.argv[1]).read_bytes())
keep_sources({} if len(sys.argv) > 2 else sources)
assert [code_digest(part) for part in pickle.loads(given)] == digests
"""


@pytest.mark.slow
def test_code_has_the_same_digest_on_a_machine_without_its_file(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs Ray: pip install 'favano[cluster]'")
    root, parcel = Path(__file__).parents[2], tmp_path / "parcel"
    subprocess.run([sys.executable, "-c", PACKED, parcel], check=True, cwd=root)
    # As if the file were not there: another process finds no `tests`, and no file of this name.
    content = parcel.read_bytes()
    assert b"own_problem.py" in content
    parcel.write_bytes(content.replace(b"own_problem.py", b"own_pr0blem.py"))
    done = subprocess.run([sys.executable, "-c", UNPACKED, parcel], cwd=tmp_path)
    assert done.returncode == 0
    lost = subprocess.run([sys.executable, "-c", UNPACKED, parcel, "lost"], cwd=tmp_path,
                          capture_output=True, text=True)  # fmt: skip
    assert "AssertionError" in lost.stderr


@pytest.mark.slow
def test_a_problem_of_ones_own(environment: dict[str, str], tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs Ray: pip install 'favano[cluster]'")
    if not own_network.is_allowed():
        pytest.skip("needs a network namespace, which is not allowed here")
    alone, spread = tmp_path / "alone", tmp_path / "spread"
    subprocess.run([sys.executable, own_problem.__file__, alone], check=True)
    program = str(own_problem.__file__)
    done = own_network.run(program, str(spread), "auto", environment=environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith(f"{own_network.LEFT}[]\n")
    names = sorted(path.name for path in (alone / "results").iterdir())
    assert names == ["favano", "fedbuff", "halved"]
    for name in names:
        mine, theirs = (folder / "results" / name for folder in (alone, spread))
        for file in FILES:
            assert (mine / file).read_bytes() == (theirs / file).read_bytes(), (name, file)
        made, there = (json.loads((path / "summary.json").read_text()) for path in (mine, theirs))
        assert {key: made.get(key) for key in MADE} == {key: there.get(key) for key in MADE}
    table = (alone / "tuning" / "trials.csv").read_bytes()
    assert table.count(b"\n") == 5
    assert (spread / "tuning" / "trials.csv").read_bytes() == table


def test_an_observer_cannot_be_on_a_cluster() -> None:
    with pytest.raises(BadInput, match="on_evaluate=print: is called in this process, and"):
        favano.simulate("favano", "digits", on_evaluate=print, cluster="auto")


def test_none_is_this_machine() -> None:
    keys = {"clients": 8, "selected": 2, "horizon": 30.0, "progress": False}
    here = favano.simulate("favano", "digits", cluster="none", **keys)  # type: ignore[arg-type]
    assert here.runs
    with pytest.raises(BadInput, match="cluster=3: need auto, HOST:PORT or none"):
        favano.simulate("favano", "digits", cluster=3, **keys)  # type: ignore[arg-type]
