"""What is wrong with a node, in a sentence."""

from __future__ import annotations

import os
import pickle
from copy import deepcopy
from pathlib import Path

import pytest

from favano import __version__
from favano.cluster import node_report
from favano.cluster.node_check import fault_of
from favano.cluster.node_report import NodeReport

MINE = node_report.node_report()


def changed(**parts: object) -> NodeReport:
    theirs = deepcopy(MINE)
    theirs.update(parts)  # type: ignore[typeddict-item]
    return theirs


def test_this_machine_is_right() -> None:
    assert fault_of(pickle.loads(pickle.dumps(MINE)), MINE) is None
    assert MINE["versions"]["favano"] == __version__
    assert MINE["cores"] >= 1
    assert "cluster/node_report.py" in MINE["files"]


def test_a_node_may_have_other_cores_and_more_gpus() -> None:
    assert fault_of(changed(cores=99, gpus=8), MINE, promised=2) is None


FILES = MINE["files"]
FEW = {"methods/favano.py": "0", "rng.py": "1"}
MANY = dict.fromkeys([*FILES][:5], "0")


@pytest.mark.parametrize(
    ("theirs", "sentence"),
    [
        (changed(python="3.9.1"), f"has Python 3.9.1, the command {MINE['python']}; install"),
        (
            changed(problems={"favano": "No module named 'favano'"}, versions={}),
            f"cannot load favano (No module named 'favano'); install favano {__version__} there",
        ),
        (
            changed(versions={**MINE["versions"], "torch": "1.0"}),
            f"has PyTorch 1.0, the command {MINE['versions']['torch']}; install the same",
        ),
        (
            changed(files={**FILES, **FEW}),
            f"has favano {__version__} with other code than the command: see methods/favano.py, "
            "rng.py; install the same",
        ),
        (changed(files={**FILES, **MANY}), "and 2 more files differ; install the same"),
        (changed(files={**FILES, "new.py": "0"}), "see new.py; install the same"),
        (changed(files={}), f"and {len(FILES) - 3} more files differ"),
        (changed(gpus=1), "has 1 GPUs for PyTorch, and promised 2 to the cluster"),
    ],
    ids=["python", "none", "torch", "code", "much code", "more code", "no code", "gpus"],
)
def test_one_sentence(theirs: NodeReport, sentence: str) -> None:
    fault = fault_of(theirs, MINE, promised=2 if theirs["gpus"] else 0)
    assert fault is not None
    assert sentence in fault
    assert "\n" not in fault


def test_gpus_that_ray_hides_from_the_check_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(
        "torch.cuda.device_count", lambda: 0 if "CUDA_VISIBLE_DEVICES" in os.environ else 2
    )
    assert node_report.node_report("cuda")["gpus"] == 2
    assert node_report.node_report("cpu")["gpus"] == 0
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""


def test_the_report_needs_nothing_of_ours() -> None:
    """It is sent as code to machines that may have no favano."""
    text = Path(str(node_report.__file__)).read_text()
    assert "from favano" not in text
    assert "import favano" not in text
