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
from tests.cluster import bad_nodes, own_network, token_cluster, two_nodes

__all__ = ["favano"]

pytest.importorskip("ray", reason="needs Ray: pip install 'favano[cluster]'")
from favano.cluster.ray_connection import SETTINGS

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
    with (
        TemporaryDirectory(prefix="f", dir="/tmp") as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)  # of a command called here
        yield {**SETTINGS, "TMPDIR": folder, "RAY_TMPDIR": folder}


def same_bytes(folder: Path, other: Path) -> None:
    """Both folders hold the results of the same methods, equal to the byte."""
    methods = sorted(path.parent.name for path in folder.glob("*/summary.json"))
    assert len(methods) == 2
    for name in (f"{method}/{file}" for method in methods for file in FILES):
        assert (folder / name).read_bytes() == (other / name).read_bytes(), name


@pytest.mark.machine
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


@pytest.mark.machine
def test_a_comparison_survives_the_loss_of_a_node(
    favano: Program, environment: dict[str, str], tmp_path: Path
) -> None:
    favano("compare", *LONG, "--out", "alone")
    words = ["compare", *LONG, "--checkpoint-every", "0", "--json", "--out", "spread"]
    done = own_network.run(two_nodes.__file__, "node", "1", *words, environment=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "complete"
    assert "favano: node other was lost; its run goes on from its last checkpoint" in done.stderr
    assert "favano: goes on at time " in done.stderr
    assert done.stderr.endswith(f"{own_network.LEFT}[]\n")
    same_bytes(tmp_path / "alone", tmp_path / "spread")


@pytest.mark.machine
def test_after_the_loss_of_all_nodes_one_machine_goes_on(
    favano: Program, environment: dict[str, str], tmp_path: Path
) -> None:
    favano("compare", *LONG, "--out", "alone")
    words = ["compare", *LONG, "--checkpoint-every", "0", "--out", "spread"]
    done = own_network.run(two_nodes.__file__, "node", "0", *words, environment=environment)
    assert done.returncode == 1
    assert "favano: all nodes of the cluster are lost; checkpoints are kept" in done.stderr
    assert "Traceback" not in done.stderr
    code, _, said = favano("resume", "spread", "--cluster", "none")
    assert code == 0
    assert "favano: 2 of 2 runs go on, the first at time " in said
    same_bytes(tmp_path / "alone", tmp_path / "spread")


@pytest.mark.machine
def test_a_worker_that_is_killed_is_not_called_a_node(
    favano: Program, environment: dict[str, str], tmp_path: Path
) -> None:
    favano("compare", *LONG, "--out", "alone")
    words = ["compare", *LONG, "--checkpoint-every", "0", "--json", "--out", "spread"]
    done = own_network.run(two_nodes.__file__, "worker", "1", *words, environment=environment)
    assert done.returncode == 0, done.stderr
    (said,) = (line for line in done.stderr.splitlines() if "killed" in line)
    assert re.fullmatch("favano: a process on node .+ was killed; its run goes on from .+", said)
    assert "was lost" not in done.stderr
    same_bytes(tmp_path / "alone", tmp_path / "spread")


@pytest.mark.machine
def test_the_loss_of_the_head_is_one_sentence(
    favano: Program, environment: dict[str, str], tmp_path: Path
) -> None:
    longer = [*LONG, "--horizon", "6000"]  # goes on for longer than the head may be silent
    favano("compare", *longer, "--out", "alone")
    words = ["compare", *longer, "--checkpoint-every", "0", "--out", "spread"]
    done = own_network.run(two_nodes.__file__, "head", "1", *words, environment=environment)
    assert done.returncode == 1, done.stderr
    assert "favano: the head of the cluster, 127.0.0.1:" in done.stderr
    assert " does not answer any more; checkpoints are kept; repeat the command" in done.stderr
    assert "GCS" not in done.stderr
    code, _, said = favano("resume", "spread", "--cluster", "none")
    assert code == 0, said
    same_bytes(tmp_path / "alone", tmp_path / "spread")


@pytest.mark.machine
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


@pytest.mark.machine
def test_reproduce_on_a_cluster(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but times, energies and the command are those of one machine."""
    monkeypatch.chdir(tmp_path)
    words = [str(Path(__file__).parent / "small_table.py")]
    subprocess.run([sys.executable, *words, "alone"], check=True)
    done = own_network.run(*words, "spread", "auto", environment=environment)
    assert done.returncode == 0, done.stderr
    alone, spread = (tmp_path / folder / "runs" for folder in ("alone", "spread"))
    runs = [path.name for path in alone.iterdir()]
    assert len(runs) == 4
    for name in (f"{run}/{file}" for run in runs for file in ("spec.toml", "history.csv")):
        assert (alone / name).read_bytes() == (spread / name).read_bytes(), name
    assert not list((tmp_path / "spread").rglob("*.checkpoint"))


@pytest.mark.machine
def test_bad_nodes_are_named_and_the_others_go_on(
    favano: Program, environment: dict[str, str], tmp_path: Path
) -> None:
    words = [*SHORT[:-1], "favano,fedavg"]
    favano("compare", *words, "--out", "alone")
    bad = [name for name in bad_nodes.BAD if name != "no-gpu"]
    command = [bad_nodes.__file__, "1", ",".join(bad), "compare", *words, "--out", "spread"]
    done = own_network.run(*command, environment=environment)
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("favano: ")]
    parts = {
        "without-favano": "cannot load favano (No module named 'favano'); install favano",
        "other-version": "has favano 0.0.1, the command ",
        "other-code": "with other code than the command: see methods/fedavg.py; install the same",
        "other-torch": "has PyTorch 1.0, the command ",
        "other-python": "has Python 3.11.99, the command ",
        "little-memory": "has too little memory even to be checked",
    }
    assert sorted(parts) == sorted(bad)
    for name, part in parts.items():
        (line,) = (line for line in said if line.startswith(f"favano: node {name} "))
        assert part in line
        assert line.endswith("; it gets no runs")
    assert len(said) == len(bad)
    same_bytes(tmp_path / "alone", tmp_path / "spread")


@pytest.mark.machine
@pytest.mark.parametrize(
    ("bad", "words", "part"),
    [
        ("other-code", [], "with other code than the command: see methods/fedavg.py"),
        ("no-gpu", ["--device", "cuda"], "has 0 GPUs for PyTorch, and promised 1 to the cluster"),
    ],
)
def test_a_cluster_of_bad_nodes_alone_is_refused(
    bad: str, words: list[str], part: str, environment: dict[str, str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    command = [bad_nodes.__file__, "0", bad, "compare", *SHORT, *words, "--out", "out"]
    done = own_network.run(*command, environment=environment)
    assert done.returncode == 2, done.stderr
    assert f"no node can take part: node {bad} {part}" in " ".join(done.stderr.split()) or (
        f"no node can take part: node {bad}" in done.stderr and part in done.stderr
    )
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out" / "favano" / "history.csv").exists()


TOKEN, OTHER = "a" * 64, "b" * 64


@pytest.mark.machine
@pytest.mark.parametrize(
    ("theirs", "mine", "sentence"),
    [
        (TOKEN, "-", "asks for a token: copy the file ~/.ray/auth_token of its first machine to "),
        (TOKEN, OTHER, "asks for another token than that of this machine: copy the file "),
        (TOKEN, TOKEN, ""),
    ],
    ids=["none", "another", "the same"],
)
def test_a_cluster_that_asks_for_a_token(
    theirs: str, mine: str, sentence: str, environment: dict[str, str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    command = [token_cluster.__file__, theirs, mine, "run", *SHORT[:-2], "--out", "out"]
    done = own_network.run(*command, environment={**environment, "HOME": str(tmp_path)})
    assert done.returncode == (2 if sentence else 0), done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.machine
def test_auto_leaves_nothing_in_the_home_folder(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a token, which would make the next `ray start` ask for it, nor anything else."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home").mkdir()
    words = ["-m", "favano", "run", *SHORT[:-2], "--out", "out", "--cluster", "auto"]
    done = own_network.run(*words, environment={**environment, "HOME": str(tmp_path / "home")})
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "home" / ".ray").exists()
