import torch

from favano.models.resnet20 import resnet20


def test_size_and_shape_on_cifar10() -> None:
    network = resnet20(input_shape=(3, 32, 32), classes=10)
    assert sum(value.numel() for value in network.parameters()) == 272474
    assert network(torch.rand(2, 3, 32, 32)).shape == (2, 10)
    weights = [value for value in network.parameters() if value.dim() in (2, 4)]
    assert len(weights) == 20 + 2  # twenty layers and two shortcuts


def test_group_norm_has_as_many_parameters_and_no_buffers() -> None:
    network = resnet20(input_shape=(3, 32, 32), classes=10, norm="group")
    assert sum(value.numel() for value in network.parameters()) == 272474
    assert list(network.buffers()) == []


def test_features_are_8x8_before_pooling() -> None:
    network = resnet20(input_shape=(3, 32, 32), classes=10)
    stem, blocks = network.get_submodule("stem"), network.get_submodule("blocks")
    assert blocks(stem(torch.rand(2, 3, 32, 32))).shape == (2, 64, 8, 8)
