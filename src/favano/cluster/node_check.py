"""Whether a node can give the results of this machine, from what it says of itself."""

from __future__ import annotations

from typing import Final

from favano.cluster.node_report import NodeReport

_PACKAGES: Final = {"favano": "favano", "torch": "PyTorch"}
_SHOWN: Final = 3  # files that differ


def fault_of(theirs: NodeReport, mine: NodeReport, promised: int = 0) -> str | None:
    """Why a node cannot take part, in one sentence without its name; None if it can.

    Args:
        theirs: the report of the node.
        mine: that of the machine of the command.
        promised: GPUs that it must have.
    """
    if theirs["python"] != mine["python"]:
        return f"has Python {theirs['python']}, the command {mine['python']}; install the same"
    for package, name in _PACKAGES.items():
        needed = mine["versions"][package]
        if (problem := theirs["problems"].get(package)) is not None:
            return f"cannot load {name} ({problem}); install {name} {needed} there"
        if (has := theirs["versions"][package]) != needed:
            return f"has {name} {has}, the command {needed}; install the same"
    if differing := _differing(theirs["files"], mine["files"]):
        shown, more = ", ".join(differing[:_SHOWN]), len(differing) - _SHOWN
        words = f"{shown} and {more} more files differ" if more > 0 else f"see {shown}"
        version = mine["versions"]["favano"]
        return f"has favano {version} with other code than the command: {words}; install the same"
    if theirs["gpus"] < promised:
        return f"has {theirs['gpus']} GPUs for PyTorch, and promised {promised} to the cluster"
    return None


def _differing(files: dict[str, str], others: dict[str, str]) -> list[str]:
    """Files that are not the same in both, by name."""
    names = files.keys() | others.keys()
    return sorted(name for name in names if files.get(name) != others.get(name))
