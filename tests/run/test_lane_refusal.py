"""Networks that cannot be trained many at a time are refused before training, in one sentence."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence

import favano
from favano.errors import BadInput
from favano.run import engines
from favano.specification.keys import Keys
from favano.training import Loss
from tests.run.cpu_stacks import cpu_stacks

FLEET = favano.Fleet(clients=4)


class Rows(nn.Module):
    """Goes over the rows (T, 3) of a sample."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.classes = nn.GRU(3, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, rows: Tensor) -> Tensor:
        _, last = self.rows(rows)
        logits: Tensor = self.classes(last[0])
        return logits


class Packed(Rows):
    """Leaves out zeros at the end of a sample."""

    def forward(self, rows: Tensor) -> Tensor:
        lengths = 1 + rows.ne(0).all(-1).sum(1).clamp(max=rows.shape[1] - 1).cpu()
        packed = pack_padded_sequence(rows, lengths, batch_first=True, enforce_sorted=False)
        logits: Tensor = self.classes(self.rows(packed)[1][0])
        return logits


class OwnLayer(nn.GRU):
    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        states: tuple[Tensor, Tensor] = nn.GRU.forward(self, rows)
        return states


class WithOwnLayer(Rows):
    def __init__(self) -> None:
        super().__init__()
        self.rows = OwnLayer(3, 4, batch_first=True)


class Branch(Rows):
    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows if rows.sum() > 0 else -rows)


class Number(Rows):
    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows / rows.abs().max().item())


def branching(output: Tensor, labels: Tensor) -> Tensor:
    loss = functional.cross_entropy(output, labels)
    return loss if loss < 10 else 0.1 * loss


KEYS: Keys = {
    "learning_rate": 0.1,
    "selected": 2,
    "local_steps": 2,
    "horizon": 30,
    "evaluate_every": 10,
}
LOOP: Keys = {**KEYS, "engine": "loop"}


def losses(make: type[nn.Module], loss: Loss | None, keys: Keys) -> list[float]:
    torch.manual_seed(0)
    data = torch.randn(40, 5, 3), torch.arange(40) % 2
    problem = favano.Problem(make, data, data, split="iid", batch_size=4, loss=loss)
    result = favano.simulate("favano", problem, FLEET, **keys)
    return [row.loss for row in result.rows]


CASES: dict[str, tuple[type[nn.Module], Loss | None, str]] = {
    "packed": (Packed, None, r"layer rows \(GRU\): a packed sequence has other lengths in each"),
    "own layer": (WithOwnLayer, None, r"layer rows \(OwnLayer\): .*aten::gru\.input"),
    "branch": (Branch, None, "forward pass: .*data-dependent control flow"),
    "number": (Number, None, r"forward pass: .*\.item\(\)"),
    "loss": (Rows, branching, "loss or gradient: .*data-dependent control flow"),
}


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # of packing
@pytest.mark.parametrize(("make", "loss", "problem"), CASES.values(), ids=CASES)
def test_what_lanes_cannot_train_the_loop_does(
    make: type[nn.Module], loss: Loss | None, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(losses(make, loss, LOOP)) > 2
    monkeypatch.setattr(engines, "_steps", cpu_stacks)
    start = f"model={make.__name__}: cannot be trained in lanes of a GPU, many models at once; "
    with pytest.raises(BadInput, match=f"^{start}{problem}[^\n]*; use engine=loop$"):
        losses(make, loss, KEYS)


def test_what_they_can_train_is_as_in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = losses(Rows, None, LOOP)
    monkeypatch.setattr(engines, "_steps", cpu_stacks)
    assert losses(Rows, None, KEYS) == pytest.approx(expected, rel=1e-4)
