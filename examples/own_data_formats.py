"""Data of your own from elsewhere: Hugging Face, files, and samples of different lengths.

python examples/own_data_formats.py
"""

import tempfile

import datasets
import numpy as np
import torch
from own_data import main, network, samples
from torch import nn

import favano


def from_hugging_face():
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
    def __init__(self):
        super().__init__()
        self.words, self.output = nn.Embedding(10, 8, padding_idx=0), nn.Linear(8, 2)  # 0 pads

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


CASES = (from_hugging_face, mapped, of_different_lengths)

if __name__ == "__main__":
    main(*CASES)
