import torch

from favano.models.perceptron import Perceptron, perceptron


def test_mnist_size() -> None:
    network = perceptron(input_shape=(1, 28, 28), classes=10)
    shapes = {name: tuple(value.shape) for name, value in network.named_parameters()}
    assert shapes == {
        "hidden.weight": (32, 784),
        "hidden.bias": (32,),
        "output.weight": (10, 32),
        "output.bias": (10,),
    }
    assert sum(value.numel() for value in network.parameters()) == 25450
    assert list(network.buffers()) == []


def test_forward_is_the_formula() -> None:
    network = Perceptron((1, 2, 3), 4, hidden=5)
    images = torch.randn(7, 1, 2, 3)
    weights = dict(network.named_parameters())
    flat = images.reshape(7, 6)
    hidden = (flat @ weights["hidden.weight"].T + weights["hidden.bias"]).clamp(min=0)
    expected = hidden @ weights["output.weight"].T + weights["output.bias"]
    assert torch.allclose(network(images), expected, atol=1e-6)


def test_initialisation_is_pytorchs() -> None:
    torch.manual_seed(3)
    network = Perceptron((1, 28, 28), 10)
    torch.manual_seed(3)
    hidden, output = torch.nn.Linear(784, 32), torch.nn.Linear(32, 10)
    assert torch.equal(network.hidden.weight, hidden.weight)
    assert torch.equal(network.output.bias, output.bias)
