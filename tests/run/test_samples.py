"""The user's own tensors: the type of float that a run computes with."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import favano
from favano.data import Preprocessing
from favano.data.dataset import Dataset, Rows
from favano.errors import BadInput
from favano.run.samples import Samples, number_type, samples_of, traits_of
from favano.specification.keys import Keys

FLEET = favano.Fleet(clients=4)
KEYS: Keys = {"selected": 2, "local_steps": 2, "horizon": 70}
TYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)


def pair(rows: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(rows)
    labels = torch.arange(rows) % 3
    return (torch.randn(rows, 5, generator=generator) + labels[:, None]).to(dtype), labels


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))


def problem(
    model: nn.Module, train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor]
) -> favano.Problem:
    return favano.Problem(model, train=train, test=test, split="iid", batch_size=8)


def simulated(
    model: nn.Module,
    dtype: torch.dtype,
    algorithm: str = "favano",
    quantise: Literal["none", "luq"] = "none",
) -> favano.Result:
    given = problem(model, pair(60, dtype), pair(30, dtype))
    keys: Keys = {**KEYS, "quantise": quantise}
    return favano.simulate(algorithm, given, FLEET, **keys)


@pytest.mark.quick("favano-torch.float16", "scaffold-torch.float64")
@TYPES
@pytest.mark.parametrize("algorithm", ["favano", "fedbuff", "scaffold"])
def test_a_run_computes_with_the_type_of_network_and_inputs(
    dtype: torch.dtype, algorithm: str
) -> None:
    """Near the run in float32; the final model and the messages are of that type."""
    result = simulated(network().to(dtype), dtype, algorithm=algorithm)
    usual = simulated(network(), torch.float32, algorithm=algorithm)
    assert {value.dtype for value in result.models[0].values()} == {dtype}
    assert result.rows[-1].loss == pytest.approx(usual.rows[-1].loss, rel=0.05)
    assert result.rows[-1].loss != usual.rows[-1].loss
    ratio = torch.finfo(dtype).bits / 32
    assert result.rows[-1].bits_up == ratio * usual.rows[-1].bits_up


def test_a_network_on_whole_numbers_keeps_its_type() -> None:
    def tokens(rows: int) -> tuple[Tensor, Tensor]:
        labels = torch.arange(rows) % 3
        return labels[:, None].expand(-1, 4).contiguous(), labels

    model = nn.Sequential(nn.Embedding(3, 2), nn.Flatten(), nn.Linear(8, 3)).double()
    result = favano.simulate("favano", problem(model, tokens(60), tokens(30)), FLEET, **KEYS)
    assert {value.dtype for value in result.models[0].values()} == {torch.float64}


def test_inputs_of_another_type_than_the_weights_are_refused_in_one_sentence() -> None:
    """But for 64 bits, which become the type of the weights."""
    assert simulated(network(), torch.float64).rows
    rule = r"its weights are torch.bfloat16, the inputs torch.float32; give both the same type$"
    with pytest.raises(BadInput, match=rule):
        simulated(network().bfloat16(), torch.float32)
    rule = r"its weights are torch.float64, the inputs torch.float32; give both the same type$"
    with pytest.raises(BadInput, match=rule):
        simulated(network().double(), torch.float32)


def test_a_network_of_two_types_is_refused() -> None:
    mixed = nn.Sequential(nn.Linear(5, 4).double(), nn.Linear(4, 3))
    rule = "has weights of torch.float32 and torch.float64, need one type of floats$"
    with pytest.raises(BadInput, match=rule):
        simulated(mixed, torch.float32)


def test_counters_in_half_precision_are_refused() -> None:
    model = nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3)).bfloat16()
    rule = r"model=Sequential: has integer counters \(BatchNorm\), which torch.bfloat16 cannot hold"
    with pytest.raises(BadInput, match=rule):
        simulated(model, torch.bfloat16)


def test_few_bits_need_float32_or_float64() -> None:
    result = simulated(network().double(), torch.float64, quantise="luq")
    usual = simulated(network(), torch.float32, quantise="luq")
    assert result.rows[-1].loss == pytest.approx(usual.rows[-1].loss, rel=0.1)
    rule = "is trained in low precision, which needs float32 or float64, not torch.float16$"
    with pytest.raises(BadInput, match=rule):
        simulated(network().half(), torch.float16, quantise="luq")


def rows(count: int, preprocessing: Preprocessing | None = None) -> Samples:
    """Samples whose inputs are their numbers."""
    inputs, labels = torch.arange(float(count))[:, None], torch.zeros(count, dtype=torch.int64)
    return Samples(inputs, labels, inputs, labels, 1, preprocessing)


def test_buffers_are_calibrated_on_512_samples_from_all_of_the_data() -> None:
    assert rows(1300).calibration()[:, 0].tolist() == list(range(0, 1024, 2))
    assert rows(512).calibration()[:, 0].tolist() == list(range(512))
    assert rows(5).calibration()[:, 0].tolist() == list(range(5))
    assert rows(3, Preprocessing(scale=2.0)).calibration()[:, 0].tolist() == [0, 0.5, 1]


def test_a_split_knows_one_class_per_sample_or_none() -> None:
    owners = {"town": torch.arange(4).numpy()}
    classes = traits_of(torch.tensor([0, 1, 2, 1]), 3, owners)
    assert classes.labels is not None
    assert (classes.labels.tolist(), classes.classes) == ([0, 1, 2, 1], 3)
    for targets, count in ((torch.zeros(4, 7).long(), 3), (torch.zeros(4), 0)):
        several = traits_of(targets, count, owners)
        assert (several.count, several.labels, several.classes) == (4, None, 0)
        assert several.owners is owners


def test_a_network_of_whole_numbers_is_refused() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3, dtype=torch.int64), requires_grad=False)

    with pytest.raises(BadInput, match=r"has weights of torch.int64, need one type of floats$"):
        number_type(Counts(), rows(3))


def test_samples_know_whose_they_are_and_how_they_were_read() -> None:
    images = np.arange(12, dtype=np.uint8).reshape(3, 1, 2, 2)
    mine, theirs = {"town": np.array([0, 1, 1])}, {"town": np.array([1, -1, 0])}
    train, test = (Rows(images, np.array([0, 1, 1]), owners) for owners in (mine, theirs))
    data = Dataset("three", train, test, 2, Preprocessing(scale=2.0))
    samples = samples_of(data, torch.device("cpu"))
    assert (samples.owners, samples.test_owners) == (mine, theirs)
    assert samples.traits.clients_by("column:town") == 2
    assert torch.equal(samples.features, samples.test_features)
    assert samples.features.flatten().tolist() == [pixel / 2 for pixel in range(12)]
    other = Dataset("three", train, Rows(images, test.labels, mine), 2, data.preprocessing)
    assert samples_of(other, torch.device("cpu")).digest != samples.digest
