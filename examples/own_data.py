"""Data of your own, split as you like: each function makes a problem for `favano.simulate`.

python examples/own_data.py
"""

import numpy as np
from torch import nn, utils

import favano


def samples(count):
    """Points around three centres; the class says which."""
    random, label = np.random.default_rng(count), np.arange(count) % 3
    points = random.normal(size=(count, 5)) + 2 * np.eye(5)[label]
    return points.astype("float32"), label


def network():
    return nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3))


def by_client():
    """Data that are already split: a pair per client, of any size."""
    train = [samples(20), samples(150), samples(75)]
    return favano.Problem(network, train=train, test=samples(60), batch_size=16)


def by_index():
    """Lists of samples per client; what no list has is left out."""
    own = [range(0, 20), range(20, 170), np.arange(170, 240)]
    return favano.Problem(network, train=samples(300), test=samples(60), split=own)


class Points(utils.data.Dataset):  # map-style
    def __init__(self, count):
        self.points, self.label = samples(count)

    def __len__(self):
        return len(self.label)

    def __getitem__(self, place):
        return self.points[place], self.label[place]


def from_pytorch():
    return favano.Problem(network, train=Points(300), test=Points(60), split="two-class")


def main(*cases):
    for case in cases:
        result = favano.simulate("favano", case(), selected=2, learning_rate=0.2, horizon=500)
        print(f"{case.__name__:20} {result.spec.fleet.clients:3} clients: {result.accuracy[0]:.0%}")


CASES = (by_client, by_index, from_pytorch)
if __name__ == "__main__":
    main(*CASES)
