"""A program: `favano` on a cluster of two nodes, one of which is killed when all runs are saved.

Its arguments are the cores of the node that stays, and those of `favano`, with `--out FOLDER` last.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

RUNS = 2


def main() -> None:
    """Start the cluster and the command, and kill a node in the middle."""
    from ray.cluster_utils import Cluster

    cores, out = int(sys.argv[1]), Path(sys.argv[-1])
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": cores})
    other = cluster.add_node(num_cpus=1)
    command = [sys.executable, "-m", "favano", *sys.argv[2:], "--cluster", cluster.address]
    favano = subprocess.Popen(command)
    while favano.poll() is None and _saved(out) < RUNS:
        time.sleep(0.05)
    if favano.poll() is None:
        cluster.remove_node(other, allow_graceful=False)
    code = favano.wait()
    cluster.shutdown()
    sys.exit(code)


def _saved(out: Path) -> int:
    """How many runs have a checkpoint."""
    paths = out.glob("*/checkpoints/seed-*.checkpoint")
    return len({(path.parent, path.name.partition(".")[0]) for path in paths})


if __name__ == "__main__":
    main()
