"""The job scripts of `examples/slurm`, with stand-ins for srun and scontrol."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.cli.test_cli import Program, favano
from tests.cluster import own_network, preempted
from tests.cluster.test_ray_cluster import LONG, SHORT, environment, same_bytes

__all__ = ["environment", "favano"]

pytest.importorskip("ray", reason="needs Ray: pip install 'favano[cluster]'")
pytestmark = pytest.mark.skipif(
    not own_network.is_allowed(), reason="needs a network namespace, which is not allowed here"
)
HERE = Path(__file__).parent
SCRIPTS = HERE.parents[1] / "examples" / "slurm"


def job(nodes: str, **more: str) -> dict[str, str]:
    """What Slurm sets for a job."""
    path = [str(HERE / "stand_in"), str(Path(sys.executable).parent), os.environ["PATH"]]
    return {
        "PATH": os.pathsep.join(path), "SLURM_JOB_ID": "4711", "SLURM_JOB_NODELIST": nodes,
        "SLURM_JOB_NUM_NODES": str(nodes.count(",") + 1), "SLURM_CPUS_PER_TASK": "1", **more,
    }  # fmt: skip


RUN = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"


@pytest.mark.machine
def test_several_nodes(favano: Program, environment: dict[str, str], tmp_path: Path) -> None:
    """The first is this machine; the stand-in for srun starts the others beside it."""
    favano("compare", *SHORT, "--out", "alone")
    words = ["bash", str(SCRIPTS / "several_nodes.sh"), "compare", *SHORT, "--out", "spread"]
    slurm = job("127.0.0.1,second")
    done = own_network.run("-c", RUN, *words, environment={**environment, **slurm})
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.endswith(f"{own_network.LEFT}[]\n")
    same_bytes(tmp_path / "alone", tmp_path / "spread")


@pytest.mark.machine
def test_a_job_that_is_preempted_goes_on_exactly(
    favano: Program, environment: dict[str, str], tmp_path: Path
) -> None:
    favano("compare", *LONG, "--out", "alone")
    words = [str(SCRIPTS / "one_node.sh"), "compare", *LONG, "--checkpoint-every", "0"]
    command = [preempted.__file__, *words, "--out", "spread"]
    done = own_network.run(*command, environment={**environment, **job("127.0.0.1")})
    assert done.returncode == 0, done.stderr
    assert "ended with 130" in done.stderr
    assert "favano: goes on at time " in done.stderr
    assert (tmp_path / "requeued").read_text() == "4711\n"
    same_bytes(tmp_path / "alone", tmp_path / "spread")


@pytest.mark.machine
def test_an_array_has_a_job_for_each_method(
    favano: Program, environment: dict[str, str], tmp_path: Path
) -> None:
    words = SHORT[:-2]
    script = str(SCRIPTS / "array.sh")
    for number, method in enumerate(("favano", "fedavg")):
        slurm = job("127.0.0.1", SLURM_ARRAY_TASK_ID=str(number), SLURM_ARRAY_JOB_ID="12")
        command = ["-c", RUN, "bash", script, *words]
        done = own_network.run(*command, environment={**environment, **slurm})
        assert done.returncode == 0, done.stderr
        favano("run", "--algorithm", method, *words, "--out", f"alone/{method}")
    same_bytes(tmp_path / "alone", tmp_path / "results")


@pytest.mark.machine
def test_auto_takes_the_cores_that_it_may_use(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = """
import os
from favano.cluster import connect
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
with connect("auto") as cluster:
    cores = [slot.cores for slot in cluster._slots("cpu")]
print(cores)
"""
    done = own_network.run("-c", text, environment=environment)
    assert done.stdout.strip().endswith("[1]"), done.stderr
