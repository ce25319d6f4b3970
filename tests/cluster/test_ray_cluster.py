"""Clusters of Ray, in a network of their own: equal bytes, and what happens to lost nodes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.cli.test_cli import Program, favano
from tests.cluster import own_network, two_nodes

__all__ = ["favano"]

pytest.importorskip("ray", reason="needs Ray: pip install 'favano[cluster]'")
from favano.cluster.ray_cluster import SETTINGS

pytestmark = pytest.mark.skipif(
    not own_network.is_allowed(), reason="needs a network namespace, which is not allowed here"
)
SHORT = ["--clients", "10", "--selected", "3", "--local-steps", "4", "--horizon", "140"]
SHORT += ["--evaluate-every", "35", "--seeds", "2", "--algorithms", "favano,fedbuff"]
LONG = ["--horizon", "1500", "--evaluate-every", "100", "--algorithms", "favano,quafl"]
FILES = ("history.csv", "model.safetensors", "participation.json")


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    """With a folder for temporary files, whose name is short enough for sockets in it."""
    with TemporaryDirectory(prefix="f", dir="/tmp") as folder:
        yield {**SETTINGS, "TMPDIR": folder, "RAY_TMPDIR": folder}


def same_bytes(folder: Path, other: Path) -> None:
    """Both folders hold the results of the same methods, equal to the byte."""
    methods = sorted(path.parent.name for path in folder.glob("*/summary.json"))
    assert len(methods) == 2
    for name in (f"{method}/{file}" for method in methods for file in FILES):
        assert (folder / name).read_bytes() == (other / name).read_bytes(), name


@pytest.mark.slow
def test_this_machine_as_a_cluster(
    favano: Program, environment: dict[str, str], tmp_path: Path
) -> None:
    favano("compare", *SHORT, "--out", "alone")
    words = ["-m", "favano", "compare", *SHORT, "--out", "spread", "--cluster", "auto", "--json"]
    done = own_network.run(*words, environment=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "complete"
    assert re.search(r"^100 %: \w+, seed \d, time ", done.stderr, re.MULTILINE)
    assert done.stderr.endswith(f"{own_network.LEFT}[]\n")
    same_bytes(tmp_path / "alone", tmp_path / "spread")
    assert not list(Path(environment["TMPDIR"]).glob("favano-*"))


@pytest.mark.slow
def test_a_comparison_survives_the_loss_of_a_node(
    favano: Program, environment: dict[str, str], tmp_path: Path
) -> None:
    favano("compare", *LONG, "--out", "alone")
    words = ["compare", *LONG, "--checkpoint-every", "0", "--json", "--out", "spread"]
    done = own_network.run(two_nodes.__file__, "1", *words, environment=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "complete"
    assert "favano: a node of the cluster was lost; its run will go on elsewhere" in done.stderr
    assert "favano: goes on at time " in done.stderr
    assert done.stderr.endswith(f"{own_network.LEFT}[]\n")
    same_bytes(tmp_path / "alone", tmp_path / "spread")


@pytest.mark.slow
def test_after_the_loss_of_all_nodes_one_machine_goes_on(
    favano: Program, environment: dict[str, str], tmp_path: Path
) -> None:
    favano("compare", *LONG, "--out", "alone")
    words = ["compare", *LONG, "--checkpoint-every", "0", "--out", "spread"]
    done = own_network.run(two_nodes.__file__, "0", *words, environment=environment)
    assert done.returncode == 1
    assert "favano: all nodes of the cluster are lost; checkpoints are kept" in done.stderr
    assert "Traceback" not in done.stderr
    code, _, said = favano("resume", "spread", "--cluster", "none")
    assert code == 0
    assert "favano: 2 of 2 runs go on, the first at time " in said
    same_bytes(tmp_path / "alone", tmp_path / "spread")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--cluster", "127.0.0.1:6379"], "cannot be joined: Connection refused"),
        (["--cluster", "somewhere"], "need auto, or HOST:PORT of a cluster that this machine"),
        (["--cluster", "auto", "--device", "cuda"], "device=cuda: no node of the cluster auto"),
    ],
    ids=["nobody", "no address", "no GPU"],
)
def test_a_cluster_that_cannot_be_used(
    words: list[str],
    sentence: str,
    environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["-m", "favano", "compare", *SHORT, "--out", "out", *words]
    done = own_network.run(*command, environment=environment)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_reproduce_on_a_cluster(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but times, energies and the command are those of one machine."""
    monkeypatch.chdir(tmp_path)
    words = [str(Path(__file__).parent / "small_table.py")]
    subprocess.run([sys.executable, *words, "alone"], check=True)
    done = own_network.run(*words, "spread", "auto", environment=environment)
    assert done.returncode == 0, done.stderr
    names = [path.name for path in (tmp_path / "alone" / "runs").glob("*.json")]
    assert len(names) == 4
    for name in names:
        paths = (tmp_path / folder / "runs" / name for folder in ("alone", "spread"))
        alone, spread = (json.loads(path.read_text()) for path in paths)
        assert (alone["spec"], alone["history"]) == (spread["spec"], spread["history"])
    assert not list((tmp_path / "spread").rglob("*.checkpoint"))
