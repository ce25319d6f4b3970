"""A program: `favano` on a cluster with nodes that something is wrong with, by name.

Its arguments are the cores of the node that is right, the names of bad nodes with commas between
them, and those of `favano`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copytree, ignore_patterns

PACKAGE = Path(__file__).parents[2] / "src" / "favano"
NO_FAVANO = """
import sys

class Refuses:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "favano":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuses())
"""


def copied(folder: Path, file: str, old: str, new: str) -> None:
    """Another favano, with a change in one file."""
    copytree(PACKAGE, folder / "favano", ignore=ignore_patterns("__pycache__"))
    path = folder / "favano" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def without_favano(folder: Path) -> None:
    (folder / "sitecustomize.py").write_text(NO_FAVANO)


def other_version(folder: Path) -> None:
    copied(folder, "__init__.py", "__version__ = ", '__version__ = "0.0.1"  # ')


def other_code(folder: Path) -> None:
    """Adds 1 to each model that the server makes."""
    old = "    return ModelState(state.model + "
    copied(folder, "methods/fedavg.py", old, "    return ModelState(1 + state.model + ")


def other_torch(folder: Path) -> None:
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text('__version__ = "1.0"\n')


def other_python(folder: Path) -> None:
    text = "import platform\nplatform.python_version = lambda: '3.11.99'\n"
    (folder / "sitecustomize.py").write_text(text)


BAD: dict[str, Callable[[Path], None]] = {
    "without-favano": without_favano,
    "other-version": other_version,
    "other-code": other_code,
    "other-torch": other_torch,
    "other-python": other_python,
    "no-gpu": lambda folder: None,
    "little-memory": lambda folder: None,
}
MEMORY = {"RAY_memory_usage_threshold": "0.0001", "RAY_memory_monitor_refresh_ms": "20"}


def main() -> None:
    """Start the cluster and the command."""
    from ray.cluster_utils import Cluster

    cores, bad = int(sys.argv[1]), sys.argv[2].split(",")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": cores})
    for name in bad:
        folder = Path(os.environ["TMPDIR"]) / name
        folder.mkdir()
        BAD[name](folder)
        paths = os.pathsep.join([str(folder), str(PACKAGE.parent)])
        environment = {"PYTHONPATH": paths, **(MEMORY if name == "little-memory" else {})}
        gpus = 1 if name == "no-gpu" else 0
        cluster.add_node(num_cpus=1, num_gpus=gpus, node_name=name, env_vars=environment)
    command = [sys.executable, "-m", "favano", *sys.argv[3:], "--cluster", cluster.address]
    code = subprocess.run(command).returncode
    cluster.shutdown()
    sys.exit(code)


if __name__ == "__main__":
    main()
