"""Without Ray, a cluster is refused with the way to install it."""

from __future__ import annotations

import pytest

from favano import cluster
from tests.cli.test_cli import SHORT, Program, favano

__all__ = ["favano"]


def test_a_cluster_needs_ray(favano: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    sentence = "favano: cluster=auto: needs Ray, which is not installed: pip install"
    for words in (["compare", *SHORT], ["reproduce", "table-2"]):
        code, out, err = favano(*words, "--cluster", "auto")
        assert (code, out) == (2, "")
        assert sentence in err
