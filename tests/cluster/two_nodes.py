"""A program: `favano` on a cluster of two nodes, a part of which is killed when all runs are saved.

Its arguments are the part, `node`, `worker` or `head`, the cores of the node that stays, and those
of `favano`, with `--out FOLDER` last.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

RUNS = 2
WORKER, HEAD = b"ray::pack_messages", b"gcs_server"


def main() -> None:
    """Start the cluster and the command, and kill a part in the middle."""
    from ray.cluster_utils import Cluster

    part, cores, out = sys.argv[1], int(sys.argv[2]), Path(sys.argv[-1])
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": cores})
    other = cluster.add_node(num_cpus=1, node_name="other")
    command = [sys.executable, "-m", "favano", *sys.argv[3:], "--cluster", cluster.address]
    favano = subprocess.Popen(command)
    while favano.poll() is None and _saved(out) < RUNS:
        time.sleep(0.05)
    if favano.poll() is None and part == "node":
        cluster.remove_node(other, allow_graceful=False)
    elif favano.poll() is None:
        _kill(WORKER if part == "worker" else HEAD)
    code = favano.wait()
    if part == "head":  # nobody is left to be told of an end
        sys.stderr.flush()
        os._exit(code)
    cluster.shutdown()
    sys.exit(code)


def _saved(out: Path) -> int:
    """How many runs have a checkpoint."""
    paths = out.glob("*/checkpoints/seed-*.checkpoint")
    return len({(path.parent, path.name.partition(".")[0]) for path in paths})


def _kill(name: bytes) -> None:
    """Kill the first process of this name; there are no others than ours in this namespace."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and name in _program(folder):
            os.kill(int(folder.name), signal.SIGKILL)
            return
    raise LookupError(name)


def _program(folder: Path) -> bytes:
    try:
        return (folder / "cmdline").read_bytes().partition(b"\0")[0]
    except OSError:  # has ended in the meantime
        return b""


if __name__ == "__main__":
    main()
