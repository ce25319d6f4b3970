"""Text without a download: clients write about different things, one model learns from all.

python examples/text.py
"""

import random

import torch
from torch import nn

import favano

WORDS = {
    "the sea": ["ships", "waves", "storms", "harbours"],
    "the town": ["streets", "bridges", "markets", "towers"],
    "the wood": ["foxes", "ferns", "owls", "paths"],
}
LETTERS = "abcdefghijklmnopqrstuvwxyz ."
LENGTH, CLIENTS = 24, 9


def written_by(client, sentences):
    """What a client writes: sentences about one subject, as numbers of letters."""
    draw, subject = random.Random(client), list(WORDS)[client % len(WORDS)]
    things = WORDS[subject]
    pairs = (draw.sample(things, 2) for _ in range(sentences))
    text = " ".join(f"{subject} has {first} and {second}." for first, second in pairs)
    return torch.tensor([LETTERS.index(letter) for letter in text])


def windows(client, sentences):
    """Windows of LENGTH letters, and the letter that follows each window."""
    pieces = written_by(client, sentences).unfold(0, LENGTH + 1, 3)
    return pieces[:, :-1], pieces[:, -1]


class NextLetter(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters = nn.Embedding(len(LETTERS), 16)
        self.past = nn.LSTM(16, 64, batch_first=True)
        self.output = nn.Linear(64, len(LETTERS))

    def forward(self, letters):
        return self.output(self.past(self.letters(letters))[0][:, -1])


def main(horizon=1200):
    train = [windows(client, 10 + 5 * client) for client in range(CLIENTS)]
    test = tuple(map(torch.cat, zip(*(windows(100 + n, 10) for n in range(3)), strict=True)))
    problem = favano.Problem(NextLetter, train, test, batch_size=16)
    keys = {"selected": 3, "learning_rate": 1.0, "horizon": horizon}
    result = favano.simulate("favano", problem, favano.Fleet.two_speeds(CLIENTS), **keys)
    print(f"{result.accuracy[0]:.0%} of the letters; 1 in {len(LETTERS)} by chance")
    return result


if __name__ == "__main__":
    main()
