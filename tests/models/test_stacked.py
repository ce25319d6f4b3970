"""The calling pattern of `favano.models.norm`: many clients at once equal one after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from favano.models import BatchNorm2d, build

Tensors: TypeAlias = dict[str, Tensor]
CLIENTS, BATCH, CLASSES = 3, 4, 5


def with_our_norm() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, CLASSES)
    )


def with_pytorchs_norm() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, CLASSES)
    )


def named(name: str, shape: tuple[int, ...] = (3, 8, 8)) -> Callable[[], nn.Module]:
    return lambda: build(name, input_shape=shape, classes=CLASSES)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "ours": with_our_norm,
    "stock": with_pytorchs_norm,
    "perceptron": named("perceptron"),
    "resnet20": named("resnet20"),
    "resnet20-groupnorm": named("resnet20-groupnorm"),
    "leaf-cnn": named("leaf-cnn"),
    "leaf-lstm": named("leaf-lstm", (6,)),
    "transformer": named("transformer", (6,)),
}


def stacked_states(network: nn.Module) -> tuple[Tensors, Tensors]:
    """Different parameters and different buffers for every client."""
    generator = torch.Generator().manual_seed(1)

    def spread(value: Tensor) -> Tensor:
        noise = torch.rand(CLIENTS, *value.shape, generator=generator, dtype=torch.float64)
        return value.detach() + 0.1 * noise if value.is_floating_point() else value.repeat(CLIENTS)

    parameters = {name: spread(value) for name, value in network.named_parameters()}
    buffers = {name: spread(value) for name, value in network.named_buffers()}
    return parameters, buffers


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # of PyTorch's LSTM
@pytest.mark.parametrize("kind", NETWORKS)
def test_stacked_clients_equal_a_loop(kind: str) -> None:
    torch.manual_seed(0)
    network = NETWORKS[kind]().double()
    parameters, buffers = stacked_states(network)
    images = torch.randn(CLIENTS, BATCH, 3, 8, 8, dtype=torch.float64)
    if kind in ("leaf-lstm", "transformer"):
        images = torch.randint(0, CLASSES, (CLIENTS, BATCH, 6))
    labels = torch.randint(0, CLASSES, (CLIENTS, BATCH))
    untouched = {name: value.clone() for name, value in buffers.items()}
    own = {name: value.clone() for name, value in network.state_dict().items()}

    def loss(
        parameters: Tensors, buffers: Tensors, images: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensors]:
        buffers = {name: value.clone() for name, value in buffers.items()}
        logits: Tensor = functional_call(network, (parameters, buffers), (images,))
        return cross_entropy(logits, labels), buffers

    gradients, updated = vmap(grad(loss, has_aux=True))(parameters, buffers, images, labels)

    assert all(torch.equal(untouched[name], value) for name, value in buffers.items())
    assert all(torch.equal(own[name], value) for name, value in network.state_dict().items())
    for client in range(CLIENTS):
        state = {name: value[client] for name, value in (parameters | buffers).items()}
        network.load_state_dict(state)
        alone = cross_entropy(network(images[client]), labels[client])
        expected = torch.autograd.grad(alone, list(network.parameters()))
        for (name, _), gradient in zip(network.named_parameters(), expected, strict=True):
            assert torch.allclose(gradients[name][client], gradient, rtol=0, atol=1e-10)
        for name, value in network.named_buffers():
            assert not torch.equal(value, untouched[name][client])
            assert torch.allclose(updated[name][client], value, rtol=0, atol=1e-10)
