import torch

from favano.models.resnet18 import resnet18


def test_size_and_shape_on_tiny_imagenet() -> None:
    network = resnet18(input_shape=(3, 64, 64), classes=200)
    assert sum(value.numel() for value in network.parameters()) == 11279112
    assert network(torch.rand(2, 3, 64, 64)).shape == (2, 200)
    weights = [value for value in network.parameters() if value.dim() in (2, 4)]
    assert len(weights) == 18 + 3  # eighteen layers and three shortcuts


def test_a_thousand_classes_give_torchvisions_count() -> None:
    network = resnet18(input_shape=(3, 224, 224), classes=1000)
    assert sum(value.numel() for value in network.parameters()) == 11689512


def test_the_3x3_stem_keeps_the_resolution() -> None:
    network = resnet18(input_shape=(3, 64, 64), classes=200, stem="3x3")
    assert network.get_submodule("stem")(torch.rand(1, 3, 64, 64)).shape == (1, 64, 64, 64)
    assert network.get_parameter("stem.0.weight").shape == (64, 3, 3, 3)


def test_a_single_small_image_can_be_trained_on() -> None:
    network = resnet18(input_shape=(3, 32, 32), classes=10)  # ends in 1x1 pixels
    network(torch.rand(1, 3, 32, 32)).sum().backward()
    assert all(torch.isfinite(value).all() for value in network.buffers())
