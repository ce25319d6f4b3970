"""What a job costs is what runs count: bits of messages, and operations by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import favano
from favano.errors import BadInput
from favano.models import build
from favano.run.job_cost import job_cost, named_cost
from favano.run.samples import Samples
from tests.specs import complete

SHORT = {"clients": 6, "local_steps": 2, "horizon": 60.0, "evaluate_every": 60.0}


def random_samples(*shape: int, classes: int = 5, words: int = 0) -> Samples:
    """Four samples of noise, or of numbers of words."""
    torch.manual_seed(0)
    inputs = torch.randint(0, words, (4, *shape)) if words else torch.randn(4, *shape)
    labels = torch.randint(0, classes, (4,))
    return Samples(inputs, labels, inputs, labels, classes)


def flops(model: nn.Module, samples: Samples, batch_size: int = 1) -> float:
    """Operations of a step."""
    spec = complete(flops_per_second=1e9, batch_size=batch_size)
    cost = job_cost(spec, samples, model)
    assert cost is not None
    return cost.flops


def test_nothing_is_counted_where_no_time_depends_on_it() -> None:
    assert named_cost(complete()) is None


def test_operations_of_a_perceptron_by_hand() -> None:
    model = build("perceptron", input_shape=(8, 8), classes=5)
    forward, weights, inputs = 64 * 32 + 32 * 5, 64 * 32 + 32 * 5, 32 * 5
    by_hand = 2 * (forward + weights + inputs)
    assert flops(model, random_samples(8, 8)) == by_hand
    assert flops(model, random_samples(8, 8), batch_size=7) == 7 * by_hand


def test_recurrent_layers_and_attention_are_counted() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.lstm = nn.Embedding(9, 3), nn.LSTM(3, 4, batch_first=True)

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            hidden: torch.Tensor = self.lstm(self.words(inputs))[0][:, -1]
            return hidden

    samples = random_samples(6, classes=4, words=9)
    forward = 6 * (3 + 4) * 16  # six words; the first state, zeros, has no gradient
    assert flops(Recurrent(), samples) == 2 * (3 * forward - 4 * 16)

    class Attending(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(3, 4)

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            scale = self.out.weight[:3]
            mixed = nn.functional.scaled_dot_product_attention(inputs * scale.sum(), inputs, inputs)
            logits: torch.Tensor = self.out(mixed.mean(1))
            return logits

    scores, mixed, out = 5 * 5 * 3, 5 * 5 * 3, 3 * 4
    forward = scores + mixed + out
    backward = scores + mixed + 2 * out  # keys and values have no gradient
    assert flops(Attending(), random_samples(5, 3, classes=4)) == 2 * (forward + backward)


@pytest.mark.parametrize("name", ["resnet20", "leaf-cnn", "vgg11"])
def test_batch_normalisation_and_dropout_are_left_as_they_are(name: str) -> None:
    model = build(name, input_shape=(3, 32, 32), classes=10)
    before = [tensor.clone() for tensor in model.state_dict().values()]
    assert flops(model, random_samples(3, 32, 32, classes=10)) > 1e7
    assert all(map(torch.equal, before, model.state_dict().values()))


def test_a_network_without_counted_operations_is_refused() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(5))

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return inputs * self.scale

    with pytest.raises(BadInput, match="model=Scaled: has no operations that are counted"):
        flops(Scaled(), random_samples(5))


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"algorithm": "fedbuff", "codec": "min-max", "codec_bits": 4},
        {"algorithm": "fedavg", "codec": "qsgd"},
        {"algorithm": "scaffold"},
    ],
    ids=lambda keys: "-".join(map(str, keys.values())) or "favano",
)
def test_bits_are_those_that_runs_count(keys: dict[str, object]) -> None:
    """Every upload of a run has the size from which plans make its time."""
    keys = {**SHORT, **keys}
    result = favano.simulate(keys.pop("algorithm", "favano"), "digits", **keys, progress=False)  # type: ignore[arg-type]
    row, timed = result.rows[-1], complete(**{**result.spec.given, "link": "home"})
    cost = named_cost(timed)
    assert cost is not None
    uploads = row.bits_up / cost.bits_up
    assert uploads.is_integer()
    assert uploads > 0
    if "codec" not in keys:
        assert row.bits_down % cost.bits_down == 0
