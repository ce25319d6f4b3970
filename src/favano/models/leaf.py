"""The networks of LEAF (Caldas et al. 2018, arXiv 1812.01097) for FEMNIST and Shakespeare."""

from __future__ import annotations

from torch import Tensor, nn

from favano.errors import require

_EMBEDDING, _HIDDEN, _LAYERS = 8, 256, 2


def leaf_cnn(*, input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """Two 5x5 convolutions of 32 and 64 with 2x2 max-pooling, and a dense layer of 2,048.

    6,603,710 parameters on FEMNIST.
    """
    require(len(input_shape) == 3, "input_shape", input_shape, "need channels, height and width")
    channels, height, width = input_shape
    return nn.Sequential(
        nn.Conv2d(channels, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * (height // 4) * (width // 4), 2048),
        nn.ReLU(),
        nn.Linear(2048, classes),
    )


class LeafLSTM(nn.Module):
    """Embedding of 8, two LSTM layers of 256, and a linear layer on the last hidden state.

    Differs from LEAF's in a second bias per gate, which PyTorch has: 819,920 parameters.
    """

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, _EMBEDDING)
        self.lstm = nn.LSTM(_EMBEDDING, _HIDDEN, _LAYERS, batch_first=True)
        self.output = nn.Linear(_HIDDEN, characters)

    def forward(self, windows: Tensor) -> Tensor:
        """Logits (B, characters) of the next character after windows (B, T)."""
        hidden, _ = self.lstm(self.embedding(windows.long()))
        logits: Tensor = self.output(hidden[:, -1])
        return logits


def leaf_lstm(*, input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """LEAF's network for the next character."""
    require(len(input_shape) == 1, "input_shape", input_shape, "need the length of a text")
    return LeafLSTM(classes)
