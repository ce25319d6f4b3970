"""Without Ray, a cluster is refused with the way to install it."""

from __future__ import annotations

import pytest

from favano import cluster
from favano.run.inputs import RunInputs
from favano.specification.presets import resolve
from tests.cli.test_cli import SHORT, Program, favano
from tests.specs import spec_of

__all__ = ["favano"]


def test_a_cluster_needs_ray(favano: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    sentence = "favano: cluster=auto: needs Ray, which is not installed: pip install"
    for words in (["compare", *SHORT], ["reproduce", "table-2"]):
        code, out, err = favano(*words, "--cluster", "auto")
        assert (code, out) == (2, "")
        assert sentence in err


def test_data_are_sent_once_per_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many groups of runs there are on them."""
    pytest.importorskip("ray", reason="needs Ray: pip install 'favano[cluster]'")
    from favano.cluster import ray_cluster
    from favano.cluster.ray_parcel import Parcel

    sent: list[RunInputs] = []

    def parcel(inputs: RunInputs) -> Parcel:
        sent.append(inputs)
        return Parcel(inputs, None)

    monkeypatch.setattr(ray_cluster, "parcel", parcel)
    cluster = ray_cluster.Cluster("auto", "127.0.0.1:1")
    for keys in ({}, {"algorithm": "fedavg"}, {"quantise": "luq"}, {"clients": 30}):
        cluster.load(resolve(spec_of(**keys)), None, lambda total: None)
    assert len(sent) == 1
    cluster.load(resolve(spec_of(holdout=100)), None, lambda total: None)
    assert len(sent) == 2
