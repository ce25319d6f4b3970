"""Data of your own, split as you like: each function makes a problem for `favano.simulate`.

python examples/own_data.py
"""

import tempfile

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset

import favano


def samples(count):
    """Points around three centres; the class says which."""
    random = np.random.default_rng(count)
    label = np.arange(count) % 3
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
    split = [range(0, 20), range(20, 170), np.arange(170, 240)]
    return favano.Problem(network, train=samples(300), test=samples(60), split=split)


class Points(Dataset):
    """A map-style data set of PyTorch."""

    def __init__(self, count):
        self.points, self.label = samples(count)

    def __len__(self):
        return len(self.label)

    def __getitem__(self, place):
        return self.points[place], self.label[place]


def from_pytorch():
    return favano.Problem(network, train=Points(300), test=Points(60), split="two-class")


def from_hugging_face():
    """One client per value of a column."""
    import datasets

    points, label = samples(300)
    columns = {"x": points.tolist(), "y": label.tolist(), "town": ["Rome", "Oslo", "Lima"] * 100}
    table = datasets.Dataset.from_dict(columns).shuffle(seed=0)
    return favano.Problem(network, train=table, test=samples(60), split="column:town")


def mapped():
    """An array in a file, larger than memory perhaps: only the rows of a batch are read."""
    points, label = samples(300)
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        np.save(file, points)
        points = np.load(file.name, mmap_mode="r")
    return favano.Problem(network, train=(points, label), test=samples(60), split="iid")


class BagOfWords(nn.Module):
    """The sum of the words' vectors, and a linear layer; word 0 is padding."""

    def __init__(self):
        super().__init__()
        self.words, self.output = nn.Embedding(10, 8, padding_idx=0), nn.Linear(8, 2)

    def forward(self, texts):
        return self.output(self.words(texts).sum(1))


def of_different_lengths():
    """Sentences of three to eight words: is there a seven in them?"""
    random = np.random.default_rng(0)
    words = [random.integers(1, 10, size=3 + place % 6) for place in range(300)]
    pairs = [(torch.tensor(word), int(7 in word)) for word in words]

    def collate(pairs):
        texts, labels = zip(*pairs, strict=True)
        return nn.utils.rnn.pad_sequence(texts, batch_first=True), torch.tensor(labels)

    train, test = pairs[:240], pairs[240:]
    return favano.Problem(BagOfWords, train=train, test=test, collate=collate, split="iid")


CASES = (by_client, by_index, from_pytorch, from_hugging_face, mapped, of_different_lengths)

if __name__ == "__main__":
    for case in CASES:
        result = favano.simulate("favano", case(), selected=2, learning_rate=0.2, horizon=500)
        print(f"{case.__name__:20} {result.spec.fleet.clients:3} clients: {result.accuracy[0]:.0%}")
