"""What all tests have in common: nothing depends on the machine, its load, or the tests before.

Tests for CUDA are skipped where there is no device, those for real data sets where there are none;
no test writes to a user's cache.
"""

from __future__ import annotations

import fnmatch
import os
import random
from collections.abc import Generator, Iterator
from itertools import chain
from pathlib import Path
from zlib import crc32

os.environ.setdefault("OMP_NUM_THREADS", "1")  # on a busy machine, threads wait for each other

import numpy as np
import pytest
import torch
from hypothesis import settings

from favano.training import default_kernels
from tests.examples import fix_examples

_DATA = os.environ.get("FAVANO_DATA")  # read before tests hide it

if settings.get_current_profile_name() != "explore":
    fix_examples()


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(name: str) -> Generator[None, object, object]:
    """Cases that a test's `quick` does not name are slow."""
    made = yield
    cases = [item for item in made if hasattr(item, "callspec")] if isinstance(made, list) else []
    quick = cases[0].get_closest_marker("quick") if cases else None
    if quick:
        named = [fnmatch.filter([case.callspec.id for case in cases], text) for text in quick.args]
        assert all(named), f"{name}: a case in `quick` does not exist"
        for case in cases:
            if case.callspec.id not in chain(*named):
                case.add_marker(pytest.mark.slow)
    return made


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """What is drawn without a seed depends on the test alone."""
    seed = crc32(item.nodeid.encode())
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)


@pytest.fixture(scope="session")
def data_root() -> Path:
    """Where the real data sets lie."""
    root = Path(_DATA) if _DATA else Path(__file__).parents[2] / "shared" / "data"
    if not (root / "mnist").is_dir():
        pytest.skip(f"no data sets in {root}: set FAVANO_DATA")
    return root


@pytest.fixture(autouse=True, scope="session")
def _cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True, scope="session")
def _nothing_that_a_clock_decides() -> Iterator[None]:
    """Whether there is time for a checkpoint, and which kernels are fastest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("favano.run.checkpoints.SHARE", 0.0)
        patch.setattr("favano.run.run_kernels.chosen_kernels", lambda *_: default_kernels())
        yield
