"""Tests for CUDA are skipped where there is no device; no test writes to a user's cache.

Those for real data sets are skipped where there are none.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # on a busy machine, threads wait for each other

import pytest
import torch
from hypothesis import HealthCheck, settings

_DATA = os.environ.get("FAVANO_DATA")  # read before tests hide it

# No example fails for being slow: a machine may be busy.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.hookimpl(tryfirst=True)  # before slow tests are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("slow"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for name, same in cases.items():  # by the name: not the same methods everywhere
        for place, item in enumerate(same, len(name)):
            if place % min(6, len(same)):
                item.add_marker(pytest.mark.slow)
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


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
def _no_checkpoints_by_default() -> Iterator[None]:
    """Whether there is time for one depends on the machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("favano.run.checkpoints.SHARE", 0.0)
        yield
