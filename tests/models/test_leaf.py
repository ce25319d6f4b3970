"""LEAF's networks have LEAF's sizes."""

from __future__ import annotations

import torch

from favano.models.leaf import LeafLSTM, leaf_cnn, leaf_lstm


def size(network: torch.nn.Module) -> int:
    return sum(value.numel() for value in network.parameters())


def test_the_convolutions_and_the_dense_layer() -> None:
    network = leaf_cnn(input_shape=(1, 28, 28), classes=62)
    shapes = [tuple(value.shape) for value in network.parameters() if value.ndim > 1]
    assert shapes == [(32, 1, 5, 5), (64, 32, 5, 5), (2048, 3136), (62, 2048)]
    assert size(network) == 6_603_710


def test_the_lstm() -> None:
    network = leaf_lstm(input_shape=(80,), classes=80)
    assert isinstance(network, LeafLSTM)
    assert (network.lstm.num_layers, network.lstm.hidden_size) == (2, 256)
    assert network.embedding.weight.shape == (80, 8)
    assert size(network) == 819_920


def test_the_next_character_depends_on_the_order() -> None:
    torch.manual_seed(0)
    network = leaf_lstm(input_shape=(4,), classes=9)
    there, back = network(torch.tensor([[1, 2, 3, 4], [2, 1, 3, 4]]))
    assert not torch.allclose(there, back, atol=1e-6)
