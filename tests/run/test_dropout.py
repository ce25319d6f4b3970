"""Runs of networks with dropout: the same history to the byte, whatever trains them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import favano
from favano.records import Row
from favano.run.own_data import own_samples, read_data
from favano.run.runner import run
from favano.run.samples import Samples
from favano.specification.spec import make_spec
from tests.specs import read_by

KEYS: dict[str, object] = {
    "clients": 8, "selected": 3, "local_steps": 3, "horizon": 140.0, "split": "iid",
    "batch_size": 8, "learning_rate": 0.1, "evaluate_every": 35.0,
}  # fmt: skip


def samples() -> Samples:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(300, 12, generator=generator)
    labels = torch.randint(0, 4, (300,), generator=generator)
    features[torch.arange(300), labels] += 3.0
    train, test = (features[:192], labels[:192]), (features[192:], labels[192:])
    return own_samples(read_data(favano.Problem(network(), train=train, test=test)), "cpu")


def network() -> nn.Sequential:
    torch.manual_seed(5)
    return nn.Sequential(
        nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(), nn.Linear(16, 8),
        nn.Dropout(0.2), nn.ReLU(), nn.Linear(8, 4),
    )  # fmt: skip


def history(workers: int, **keys: object) -> list[Row]:
    spec = make_spec(read_by({**KEYS, **keys}))
    model = network()
    torch.manual_seed(workers)
    return run(spec, samples(), model, workers=workers).rows


def label(keys: dict[str, object]) -> str:
    return " ".join(map(str, keys.values()))


CASES: list[dict[str, object]] = [
    {"algorithm": "favano"},
    {"algorithm": "favano", "quantise": "luq"},
    {"algorithm": "fedasync"},
    {"algorithm": "scaffold"},
    {"algorithm": "quafl", "seeds": 2},
    {"algorithm": "asyncfeded"},
    {"algorithm": "fedbuff"},
    {"algorithm": "favano", "buffers": "local"},
    {"algorithm": "favano", "variance": "live"},
]


@pytest.mark.quick("favano")
@pytest.mark.parametrize("keys", CASES, ids=label)
def test_whatever_trains_it_changes_nothing(keys: dict[str, object]) -> None:
    """Nor does the state of PyTorch's generator."""
    first = history(1, **keys)
    assert history(2, **keys) == first
    assert history(3, engine="loop", **keys) == first
    assert len(first) > 4


def test_dropout_is_there_and_seeds_differ() -> None:
    still = nn.Sequential(*(nn.Identity() if isinstance(m, nn.Dropout) else m for m in network()))
    spec = make_spec({**KEYS, "seeds": 2})
    without = run(spec, samples(), still, workers=1).rows
    rows = run(spec, samples(), network(), workers=1).rows
    half = len(rows) // 2
    assert rows[0] == without[0]
    assert rows[half - 1] != without[half - 1]
    assert rows[half - 1].loss != rows[-1].loss
