"""Dropout draws by (seed, client, step): the same on every kind of lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence

from favano.data import BatchStream
from favano.preflight.task import check_fit
from favano.quantisation import Recipe
from favano.training import (
    FlatModel,
    GradientTrace,
    Job,
    LocalRule,
    LoopTrainer,
    Task,
    one_thread,
)
from favano.training.dropout import KeyedDropout
from tests.training.test_stack_lanes import check_equal

KEY = torch.tensor(12345)
FEW_BITS = Recipe(quantised_layers="all")


def hidden() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Dropout(0.1), nn.Linear(36, 7), nn.ReLU(), nn.Dropout(), nn.Linear(7, 4)
    )


def in_place() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(36, 7), nn.Dropout(inplace=True), nn.ReLU(), nn.Linear(7, 4)
    )


def channels() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Dropout2d(0.3), nn.Flatten(),
        nn.Linear(48, 4),
    )  # fmt: skip


def scaled() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.SELU(), nn.FeatureAlphaDropout(0.2), nn.Flatten(),
        nn.AlphaDropout(0.2), nn.Linear(48, 4),
    )  # fmt: skip


class ByHand(nn.Module):
    """Calls the functions; the batch is not the first dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(36, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        turned = functional.dropout(inputs.flatten(1).T, 0.4, self.training).T
        dropped = functional.dropout1d(turned[:, None], p=0.1, training=self.training)[:, 0]
        output: Tensor = self.layer(dropped)
        return output


class OfRows(nn.Module):
    """A layer that reads the rows of an image one by one."""

    def __init__(self, layer: nn.Module, width: int = 6) -> None:
        super().__init__()
        self.layer, self.last = layer, nn.Linear(width, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        output = self.layer(inputs.flatten(1, 2))
        rows = output[0] if isinstance(output, tuple) else output
        scores: Tensor = self.last(rows.mean(1))
        return scores


class Heads(nn.Module):
    """Attention whose weights are asked for, or not; the latter is another path in PyTorch."""

    def __init__(self, need_weights: bool) -> None:
        super().__init__()
        self.heads = nn.MultiheadAttention(6, 2, dropout=0.4, batch_first=True)
        self.need_weights = need_weights

    def forward(self, rows: Tensor) -> Tensor:
        attended: Tensor = self.heads(rows, rows, rows, need_weights=self.need_weights)[0]
        return attended


class Causal(nn.Module):
    """Attention by its function."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(6, 18)

    def forward(self, rows: Tensor) -> Tensor:
        query, key, value = self.mix(rows).chunk(3, -1)
        p = 0.5 * self.training
        attend = functional.scaled_dot_product_attention
        return attend(query, key, value, dropout_p=p, is_causal=True)


class ByTime(nn.Module):
    """A recurrent layer whose sequences have the batch as their second dimension."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, rows: Tensor) -> Tensor:
        output: Tensor = self.layer(rows.transpose(0, 1))[0]
        return output.transpose(0, 1)


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.3, batch_first=True)
    return OfRows(nn.TransformerEncoder(layer, 2))


def attention() -> nn.Module:
    return OfRows(Heads(False))


def attention_with_weights() -> nn.Module:
    return OfRows(Heads(True))


def causal() -> nn.Module:
    return OfRows(Causal())


def lstm() -> nn.Module:
    return OfRows(nn.LSTM(6, 5, 3, dropout=0.4, batch_first=True, bidirectional=True), 10)


def gru() -> nn.Module:
    return OfRows(ByTime(nn.GRU(6, 5, 2, dropout=0.4)), 5)


def rnn() -> nn.Module:
    return OfRows(nn.RNN(6, 5, 2, dropout=0.4, batch_first=True, nonlinearity="relu"), 5)


INSIDE = [transformer, attention, attention_with_weights, causal, lstm, gru, rnn]
NETWORKS = [hidden, in_place, channels, scaled, ByHand, *INSIDE]


@pytest.mark.quick(
    "1-0.0-in_place",
    "1-0.0-attention_with_weights",
    "1-0.5-in_place",
    "1-0.5-attention_with_weights",
    "5-0.0-in_place",
    "5-0.0-attention_with_weights",
    "5-0.5-in_place",
    "5-0.5-attention_with_weights",
)
@pytest.mark.parametrize("make", NETWORKS)
@pytest.mark.parametrize("proximal", [0.0, 0.5])
@pytest.mark.parametrize("capacity", [1, 5])
def test_stacked_lanes_equal_the_loop(make: object, proximal: float, capacity: int) -> None:
    check_equal(make, False, functional.cross_entropy, proximal, capacity, "cpu", corrected=1)


@pytest.mark.parametrize("make", [hidden, channels])
def test_with_few_bits_too(make: object) -> None:
    check_equal(make, True, functional.cross_entropy, 0.5, 5, "cpu", recipe=FEW_BITS)


@pytest.mark.gpu
@pytest.mark.parametrize("recipe", [None, FEW_BITS])
@pytest.mark.parametrize("make", NETWORKS)
def test_stacked_lanes_equal_the_loop_on_cuda(make: object, recipe: Recipe | None) -> None:
    check_equal(make, True, functional.cross_entropy, 0.5, 5, "cuda", recipe=recipe)


def task(seed: int = 3) -> Task:
    generator = torch.Generator().manual_seed(2)
    features = torch.randn(40, 1, 6, 6, generator=generator)
    labels = torch.randint(0, 4, (40,), generator=generator)
    return Task(features, labels, BatchStream([np.arange(0, 20), np.arange(20, 40)], 5, seed))


def checked(make: Callable[[], nn.Module]) -> FlatModel:
    torch.manual_seed(1)
    model = FlatModel(make(), device="cpu")
    check_fit(model, task(), classes=4)
    return model


@pytest.mark.quick("scaled", "lstm")
@pytest.mark.parametrize("make", NETWORKS)
def test_a_trace_ends_where_autograd_ends(
    make: Callable[[], nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit, drawing anew in every step."""
    monkeypatch.setattr(GradientTrace, "_pays", lambda self, batch: True)
    monkeypatch.setattr(GradientTrace, "_is_heavy", lambda self, batch: False)
    model, data, job = checked(make), task(), Job(0, 1, 2, 6, 0.2)
    start = model.snapshot()
    if make is lstm:  # on x86, that of oneDNN, which has no trace
        monkeypatch.setattr("torch.backends.mkldnn.enabled", False)
    with one_thread():
        gradient = GradientTrace(model, data.loss)
        assert gradient.prepare([data.batch(client, 0, torch.float32) for client in (0, 1)])
        plain = LoopTrainer(model, data, LocalRule(0.1)).run(start, job)
        traced = LoopTrainer(model, data, LocalRule(0.1), gradient).run(start, job)
    assert torch.equal(traced, plain)


def drawn(make: Callable[[], nn.Module], seed: int, client: int, step: int) -> Tensor:
    """The model after one step on data that are the same for all clients and steps."""
    data, model = task(seed), checked(make)
    data.features[:], data.labels[:] = data.features[:1], data.labels[:1]
    return LoopTrainer(model, data, LocalRule()).run(model.snapshot(), Job(0, client, step, 1, 0.1))


@pytest.mark.parametrize("make", NETWORKS)
def test_seeds_clients_and_steps_draw_differently(make: Callable[[], nn.Module]) -> None:
    """Whatever the state of PyTorch's generator."""
    torch.manual_seed(0)
    places = [(3, 0, 0), (3, 0, 1), (3, 1, 0), (4, 0, 0)]
    outputs = [drawn(make, *place) for place in places]
    torch.manual_seed(99)
    torch.rand(7)
    assert torch.equal(drawn(make, *places[0]), outputs[0])
    for number, output in enumerate(outputs):
        assert all(not torch.equal(output, other) for other in outputs[:number])


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_share_of_zeros_is_p_and_the_mean_stays(p: float) -> None:
    ones = torch.ones(200, 500)
    with KeyedDropout(KEY):
        dropped = functional.dropout(ones, p)
        other = functional.dropout(ones, p)
    assert float((dropped == 0).float().mean()) == pytest.approx(p, abs=0.01)
    assert torch.allclose(dropped[dropped != 0], torch.tensor(1 / (1 - p)))
    both = float(((dropped == 0) & (other == 0)).float().mean())
    assert both == pytest.approx(p**2, abs=0.01)  # calls of one step are independent


def test_channels_are_dropped_as_a_whole() -> None:
    with KeyedDropout(KEY):
        two = functional.dropout2d(torch.ones(50, 40, 3, 3), 0.3)
        three = functional.dropout3d(torch.ones(2000, 2, 2, 2), 0.3)  # without a batch
        lines = functional.dropout1d(torch.ones(2000, 4), 0.3)
    for dropped in (two.flatten(0, 1).flatten(1), three.flatten(1), lines):
        assert torch.equal(dropped.amin(dim=1), dropped.amax(dim=1))
        assert float((dropped == 0).float().mean()) == pytest.approx(0.3, abs=0.05)


@pytest.mark.parametrize("name", ["alpha_dropout", "feature_alpha_dropout"])
def test_alpha_dropout_keeps_mean_and_variance(name: str) -> None:
    values = torch.randn(300, 200, generator=torch.Generator().manual_seed(0))
    values = functional.selu(values)
    with KeyedDropout(KEY):
        dropped = getattr(functional, name)(values, 0.2, True)
        assert getattr(functional, name)(values, 0.2) is values  # not in training by default
    assert float(dropped.mean()) == pytest.approx(float(values.mean()), abs=0.02)
    assert float(dropped.std()) == pytest.approx(float(values.std()), abs=0.03)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_all_or_nothing(p: float) -> None:
    values = torch.randn(4, 5)
    with KeyedDropout(KEY):
        assert torch.equal(functional.dropout(values, p), (1 - p) * values)
        assert torch.equal(functional.alpha_dropout(values, p, True), (1 - p) * values)


def test_wrong_probabilities_are_left_to_pytorch() -> None:
    with (
        KeyedDropout(KEY),
        pytest.raises(ValueError, match="probability has to be between 0 and 1"),
    ):
        functional.dropout(torch.ones(3), 1.5)


def masks(shape: tuple[int, ...], p: float, calls: int = 1) -> list[Tensor]:
    """What dropout multiplies with in the first calls with KEY."""
    with KeyedDropout(KEY):
        return [functional.dropout(torch.ones(shape, dtype=torch.float64), p) for _ in range(calls)]


def some(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


HIDDEN = torch.tensor([[1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1]], dtype=torch.bool)


@pytest.mark.parametrize("mask", [None, HIDDEN, some(3, 4), "causal"], ids=str)
def test_attention_drops_its_weights(mask: Tensor | str | None) -> None:
    """As a sum over keys by hand; a query that sees no key gives zero, as in PyTorch."""
    query, key, value = some(2, 3, 5), some(2, 4, 5) + 1, some(2, 4, 7)
    (kept,) = masks((2, 3, 4), 0.3)
    seen = HIDDEN if mask is HIDDEN else torch.ones(3, 4, dtype=torch.bool)
    seen = torch.tril(seen) if mask == "causal" else seen
    expected = torch.zeros(2, 3, 7, dtype=torch.float64)
    for sample in range(2):
        for place in range(3):
            scores = [float(query[sample, place] @ vector) / 5**0.5 for vector in key[sample]]
            if isinstance(mask, Tensor) and mask.is_floating_point():
                scores = [
                    score + float(more) for score, more in zip(scores, mask[place], strict=True)
                ]
            shares = [
                np.exp(score) * bool(there)
                for score, there in zip(scores, seen[place], strict=True)
            ]
            for number, share in enumerate(shares):
                if sum(shares):
                    part = share / sum(shares) * float(kept[sample, place, number])
                    expected[sample, place] += part * value[sample, number]
    given = {"attn_mask": mask} if isinstance(mask, Tensor) else {"is_causal": mask == "causal"}
    with KeyedDropout(KEY):
        attended = functional.scaled_dot_product_attention(
            query, key, value, dropout_p=0.3, **given
        )
    torch.testing.assert_close(attended, expected)


def test_heads_that_share_keys_are_as_if_they_had_copies() -> None:
    query, key, value = some(2, 6, 3, 5), some(2, 2, 4, 5), some(2, 2, 4, 5)
    keys, values = (tensor[:, [0, 0, 0, 1, 1, 1]] for tensor in (key, value))
    attend = functional.scaled_dot_product_attention
    with KeyedDropout(KEY):
        attended = attend(query, key, value, dropout_p=0.5, enable_gqa=True, scale=0.3)
    with KeyedDropout(KEY):
        expected = attend(query, keys, values, dropout_p=0.5, scale=0.3)
    torch.testing.assert_close(attended, expected)


@pytest.mark.parametrize("need_weights", [True, False])
def test_attention_of_many_heads_drops_its_weights(need_weights: bool) -> None:
    layer, rows = nn.MultiheadAttention(6, 2, dropout=0.4).double(), some(4, 2, 6)  # time first
    (kept,) = masks((2, 2, 4, 4), 0.4)
    query, key, value = (
        (rows @ weight.T + bias).view(4, 2, 2, 3).permute(1, 2, 0, 3)  # batch, head, time
        for weight, bias in zip(
            layer.in_proj_weight.chunk(3), layer.in_proj_bias.chunk(3), strict=True
        )
    )
    weights = (query @ key.mT / 3**0.5).softmax(-1) * kept
    expected = layer.out_proj((weights @ value).permute(2, 0, 1, 3).flatten(2))
    with KeyedDropout(KEY):
        attended, _ = layer(rows, rows, rows, need_weights=need_weights)
    torch.testing.assert_close(attended, expected)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("how", ["time first", "batch first", "one sequence", "packed"])
def test_recurrent_layers_drop_what_is_between_them(
    kind: Callable[..., nn.RNNBase], both: bool, how: str
) -> None:
    """As layers one after the other; the last one's outputs are not dropped."""
    first = how == "batch first"
    whole = kind(3, 5, 3, dropout=0.4, bidirectional=both, batch_first=first).double()
    layers = [
        kind(3 if k == 0 else 5 * (1 + both), 5, bidirectional=both).double() for k in range(3)
    ]
    for number, layer in enumerate(layers):
        layer.load_state_dict({
            name.replace(f"_l{number}", "_l0"): tensor
            for name, tensor in whole.state_dict().items() if f"_l{number}" in name
        })  # fmt: skip
    packed, ends = how == "packed", []
    sequence: Any = some(4, 2, 3)[:, 0] if how == "one sequence" else some(4, 2, 3)
    sequence = pack_padded_sequence(sequence, [4, 2]) if packed else sequence
    given = sequence.transpose(0, 1) if first else sequence
    size = (*(sequence[0] if packed else sequence).shape[:-1], 5 * (1 + both))
    kept = masks(size, 0.4, 2)
    for number, layer in enumerate(layers):
        if number and packed:
            sequence = sequence._replace(data=sequence[0] * kept[number - 1])
        elif number:
            sequence = sequence * kept[number - 1]
        sequence, end = layer(sequence)
        ends.append(end if isinstance(end, tuple) else (end,))
    with KeyedDropout(KEY) as mode:
        outputs, last = whole(given)
    assert mode.calls == 2
    outputs = outputs.transpose(0, 1) if first else outputs
    torch.testing.assert_close(*((outputs[0], sequence[0]) if packed else (outputs, sequence)))
    for number, state in enumerate(last if isinstance(last, tuple) else (last,)):
        torch.testing.assert_close(state, torch.cat([end[number] for end in ends]))


@pytest.mark.parametrize("make", INSIDE)
def test_nothing_is_dropped_in_evaluation(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(1)
    network, inputs = make().eval(), torch.randn(3, 1, 6, 6)
    expected = network(inputs)
    with KeyedDropout(KEY) as mode:
        assert torch.equal(network(inputs), expected)
    assert mode.calls == 0


@pytest.mark.parametrize("make", [attention, attention_with_weights, causal])
def test_the_mean_over_draws_is_the_output_without(make: Callable[[], nn.Module]) -> None:
    """These are linear in what is dropped."""
    torch.manual_seed(1)
    network, inputs = make(), torch.randn(1, 1, 6, 6)
    draws = []
    with torch.no_grad():
        for key in range(1000):
            with KeyedDropout(torch.tensor(key)):
                draws.append(network(inputs))
        whole, outputs = network.eval()(inputs)[0], torch.cat(draws)
    errors = (outputs.mean(0) - whole) / (outputs.std(0) / len(outputs) ** 0.5)
    assert float(errors.abs().max()) < 4
