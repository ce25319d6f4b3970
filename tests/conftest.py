"""Tests for CUDA are skipped where there is no device; no test writes to a user's cache."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator

os.environ.setdefault("OMP_NUM_THREADS", "1")  # on a busy machine, threads wait for each other

import pytest
import torch
from hypothesis import settings

from tests.examples import fix_examples

if settings.get_current_profile_name() != "explore":
    fix_examples()


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
