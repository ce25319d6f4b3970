"""What a node says of itself.

This module is sent as code, since a node may lack favano: it imports nothing but Python's own.
"""

from __future__ import annotations

import hashlib
import os
import platform
from importlib import import_module
from pathlib import Path
from typing import Any, TypedDict


class NodeReport(TypedDict):
    """What must be the same on all nodes for the same results, and what a node has."""

    python: str
    versions: dict[str, str]  # of packages that can be imported
    problems: dict[str, str]  # of those that cannot
    files: dict[str, str]  # digests of favano's source, by path
    cores: int  # that the node's processes may use
    gpus: int  # that PyTorch sees


def node_report(device: str = "cpu") -> NodeReport:
    """Look at this machine."""
    versions, problems, modules = {}, {}, {}
    for name in ("favano", "torch"):
        try:
            modules[name] = import_module(name)
            versions[name] = str(modules[name].__version__)
        except Exception as error:  # whatever a broken installation raises
            lines = str(error).splitlines() or [type(error).__name__]
            problems[name] = lines[0]
    files = {}
    if "favano" in modules:
        folder = Path(str(modules["favano"].__file__)).parent
        for path in sorted(folder.rglob("*.py")):
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            files[path.relative_to(folder).as_posix()] = digest
    allowed = getattr(os, "sched_getaffinity", None)
    return {
        "python": platform.python_version(),
        "versions": versions,
        "problems": problems,
        "files": files,
        "cores": len(allowed(0)) if allowed else os.cpu_count() or 1,
        "gpus": _gpus(modules.get("torch")) if device != "cpu" else 0,
    }


def _gpus(torch: Any) -> int:
    """All that PyTorch sees; Ray hides them from a task that asks for none."""
    if torch is None:
        return 0
    hidden = os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    try:
        return int(torch.cuda.device_count())
    finally:
        if hidden is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = hidden
