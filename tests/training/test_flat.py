"""Flat models: the vector is the module, and snapshots are copies."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional

from favano.errors import BadInput
from favano.models import build
from favano.training import FlatModel


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3)
    )


def test_the_vector_holds_everything_by_name() -> None:
    module = network()
    flat = FlatModel(module, device="cpu")
    assert flat.layout.parameters == sum(p.numel() for p in module.parameters())
    assert flat.layout.buffers == 8
    assert flat.layout.counters == 1
    assert flat.layout.bits == 32 * (flat.layout.parameters + 8)
    named = flat.state_dict(flat.snapshot())
    assert named.keys() == module.state_dict().keys()
    for name, value in module.state_dict().items():
        assert torch.equal(named[name], value)
        assert named[name].dtype == value.dtype


def test_tensors_that_layers_share_have_all_their_names() -> None:
    linear, norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
    module = nn.Sequential(linear, norm, nn.Linear(4, 4), norm)
    module[2].weight = linear.weight
    flat = FlatModel(module, device="cpu")
    named = flat.state_dict(flat.snapshot() + 1)
    assert named.keys() == module.state_dict().keys()
    module.load_state_dict(named)
    assert torch.equal(module[2].weight, named["0.weight"])
    assert len({value.data_ptr() for value in named.values()}) == len(named)


def test_a_step_on_the_vector_is_a_step_of_sgd() -> None:
    module = network()
    flat = FlatModel(module, device="cpu")
    images, labels = torch.randn(8, 1, 8, 8), torch.randint(0, 3, (8,))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.3)
    for _ in range(3):
        optimizer.zero_grad()
        torch.autograd.backward(functional.cross_entropy(module(images), labels))
        optimizer.step()
        flat.gradient.zero_()
        torch.autograd.backward(functional.cross_entropy(flat.module(images), labels))
        with torch.no_grad():
            flat.weights.sub_(flat.gradient, alpha=0.3)
    state = flat.state_dict(flat.snapshot())
    for name, value in module.state_dict().items():
        assert torch.allclose(state[name], value, atol=1e-6)
    assert int(state["1.num_batches_tracked"]) == 3


def test_messages_are_snapshots() -> None:
    """What the client does after sending must not change what it sent."""
    flat = FlatModel(network(), device="cpu")
    sent = flat.snapshot()
    before = sent.clone()
    with torch.no_grad():
        flat.weights.add_(1.0)
    flat.module(torch.randn(8, 1, 8, 8))
    assert torch.equal(sent, before)
    flat.load(sent)
    assert torch.equal(flat.snapshot(), before)


def test_the_users_module_is_left_alone() -> None:
    module = network()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    flat = FlatModel(module, device="cpu")
    with torch.no_grad():
        flat.weights.zero_()
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])
    assert all(parameter.grad is None for parameter in module.parameters())


@pytest.mark.parametrize("name", ["perceptron", "resnet20", "resnet18"])
def test_the_papers_networks_go_flat_and_back(name: str) -> None:
    shape = (1, 28, 28) if name == "perceptron" else (3, 32, 32)
    module = build(name, input_shape=shape, classes=10)
    flat = FlatModel(module, device="cpu")
    state = flat.state_dict(flat.snapshot())
    assert all(torch.equal(state[key], value) for key, value in module.state_dict().items())


def test_modules_that_cannot_be_trained_are_refused() -> None:
    with pytest.raises(BadInput, match="model=Flatten: has no parameter that is trained"):
        FlatModel(nn.Flatten(), device="cpu")
    with pytest.raises(BadInput, match="model=LazyLinear: has lazy layers"):
        FlatModel(nn.LazyLinear(3), device="cpu")


def test_weights_of_recurrent_layers_stay_in_the_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU, PyTorch moves them if a network asks for it, or after a `functional_call`."""

    def move(layer: nn.RNNBase) -> None:
        for parameter in layer.parameters():
            parameter.data = parameter.data.clone()

    monkeypatch.setattr(nn.RNNBase, "flatten_parameters", move)
    flat = FlatModel(nn.GRU(2, 3), device="cpu")
    inputs = torch.ones(4, 2)
    assert isinstance(flat.module, nn.GRU)
    flat.module.flatten_parameters()
    functional_call(flat.module, flat.named_weights(flat.snapshot()), inputs)
    assert flat.module(inputs)[0].abs().sum() > 0
    flat.load(torch.zeros_like(flat.vector))
    assert flat.module(inputs)[0].abs().sum() == 0


def test_that_they_are_not_where_cudnn_wants_them_is_no_news() -> None:
    message = "RNN module weights are not part of single contiguous chunk of memory. This means"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning):
            warnings.warn(message, stacklevel=1)
        FlatModel(nn.Sequential(nn.GRU(2, 3)), device="cpu")
        warnings.warn(message, stacklevel=1)


class Buffers(nn.Linear):
    """Buffers of all kinds."""

    def __init__(self) -> None:
        super().__init__(2, 2)
        infinite = torch.full((2, 2), float("-inf")).triu(1)
        self.register_buffer("mean", torch.tensor([0.1, 0.2]))
        self.register_buffer("mask", infinite)
        self.register_buffer("turns", torch.polar(torch.ones(2), torch.ones(2)))
        self.register_buffer("fine", torch.tensor([0.1], dtype=torch.float64))
        self.register_buffer("coarse", torch.tensor([0.1], dtype=torch.float16))
        self.register_buffer("factor", torch.tensor([2**24 + 1]))
        self.register_buffer("places", torch.arange(3))
        self.register_buffer("shown", torch.tensor([True, False]))
        self.register_buffer("cached", torch.tensor([0.3]), persistent=False)


def test_buffers_keep_type_and_numbers() -> None:
    module = Buffers()
    flat = FlatModel(module, device="cpu")
    assert (flat.layout.buffers, flat.layout.counters) == (2, 5)  # mean; places and shown
    assert flat.snapshot().isfinite().all()
    flat.load(flat.snapshot())
    expected, buffers = dict(module.named_buffers()), dict(flat.module.named_buffers())
    saved = flat.state_dict(flat.snapshot())
    assert expected.keys() == buffers.keys()
    assert (
        saved.keys()
        == module.state_dict().keys()
        == {*dict(module.named_parameters()), *buffers} - {"cached"}
    )
    for name, value in expected.items():
        for other in (buffers[name], saved.get(name, value)):
            assert other.dtype == value.dtype, name
            assert torch.equal(other, value), name
    Buffers().load_state_dict(saved)


def test_constants_are_where_the_module_is_told_to_be() -> None:
    flat = FlatModel(Buffers(), device="cpu", dtype=torch.float64)
    assert flat.module.get_buffer("mean").dtype == torch.float64
    assert flat.module.get_buffer("mask").dtype == torch.float64  # as the parameters
    assert flat.module.get_buffer("fine").dtype == torch.float64
    assert flat.layout.counters == 6  # 2^24 + 1 is a number like any other


def test_a_counter_beyond_what_the_vector_holds_is_refused() -> None:
    flat = FlatModel(Buffers(), device="cpu")
    flat.module.get_buffer("places").add_(2**24 - 3)
    assert int(flat.snapshot().max()) == 2**24 - 1
    flat.module.get_buffer("places").add_(1)
    with pytest.raises(BadInput, match="model=Buffers: counts to 16777216 in a buffer"):
        flat.snapshot()


def test_a_type_that_no_file_holds_is_refused() -> None:
    module = nn.Linear(2, 2)
    module.register_buffer("turns", torch.ones(2, dtype=torch.complex128))
    with pytest.raises(BadInput, match="a buffer turns of complex128"):
        FlatModel(module, device="cpu")
