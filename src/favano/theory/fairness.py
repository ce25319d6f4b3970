"""Who trains the model: shares of groups of clients, with their uncertainty, and a verdict.

A client's fair share is 1/n. What a method gives it depends on the draws of the schedule; the share
of a group over consecutive stretches of the schedule says by how much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from favano.errors import need
from favano.types import Floats, Ints

CONFIDENCE = 0.99
_BLOCKS = 20


@dataclass(frozen=True)
class Share:
    """What a group of clients has moved of all that moved the model."""

    name: str
    clients: int
    weight: float  # its share
    low: float  # of a confidence interval
    high: float
    fair: float  # its share of the clients

    @property
    def favoured(self) -> bool:
        """More than fair, beyond doubt."""
        return self.low > self.fair

    @property
    def neglected(self) -> bool:
        """Less than fair, beyond doubt."""
        return self.high < self.fair


def block_sums(moved: Floats, client: Ints, visit: Ints, updates: int, clients: int) -> Floats:
    """What each client moved in each of up to 20 equal stretches of the updates, (blocks, n).

    Args:
        moved: by each job, (J,).
        client: of each job.
        visit: the update that used each job, below `updates`.
        updates: number of server updates V.
        clients: number of clients n.

    >>> block_sums(np.ones(4), np.array([0, 1, 0, 0]), np.arange(4), 4, 2).tolist()
    [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]
    """
    blocks = min(_BLOCKS, max(1, updates))
    block = visit * blocks // max(1, updates)
    total = np.bincount(block * clients + client, moved, minlength=blocks * clients)
    return np.asarray(total.reshape(blocks, clients), dtype=np.float64)


def shares(
    weight: Floats,
    blocks: Floats,
    group: Ints,
    names: Sequence[str],
    *,
    confidence: float = CONFIDENCE,
) -> list[Share]:
    """The groups' shares of `weight`, (n,), with intervals from the spread over the blocks.

    With y_b and x_b what the group and all clients moved in block b, r = sum y / sum x has the
    standard error sqrt(B/(B-1) sum_b (y_b - r x_b)^2) / sum x, and a t interval with B - 1 degrees.

    >>> moved = np.array([[1.0, 1.0], [1.2, 0.8]])
    >>> fast, slow = shares(np.array([0.55, 0.45]), moved, np.array([0, 1]), ["fast", "slow"])
    >>> fast.weight, fast.fair, fast.favoured
    (0.55, 0.5, False)
    """
    need(0 < confidence < 1, "confidence", confidence, "need a number between 0 and 1")
    need(len(names) == int(group.max()) + 1, "names", list(names), "need one a group")
    total, count = blocks.sum(axis=1), len(blocks)
    found = []
    for number, name in enumerate(names):
        members = group == number
        part = blocks[:, members].sum(axis=1)
        error = 1.0
        if count > 1 and total.sum() > 0:
            rest = part - part.sum() / total.sum() * total
            scale = np.sqrt(count / (count - 1) * (rest**2).sum()) / total.sum()
            error = float(scale * stats.t.ppf((1 + confidence) / 2, count - 1))
        share = float(weight[members].sum())
        low, high = max(0.0, share - error), min(1.0, share + error)
        found.append(Share(name, int(members.sum()), share, low, high, float(members.mean())))
    return found


def verdict(found: Sequence[Share]) -> str:
    """One sentence: whom the method favours, if it favours anybody.

    >>> fast, slow = (11, 0.671, 0.65, 0.69, 0.11), (89, 0.329, 0.31, 0.35, 0.89)
    >>> verdict([Share("fast", *fast), Share("slow", *slow)])
    'favours fast clients: 67.1 % of the model [65.0, 69.0] is theirs, fair is 11.0 %'
    >>> fast, slow = (5, 0.51, 0.48, 0.54, 0.5), (5, 0.49, 0.46, 0.52, 0.5)
    >>> verdict([Share("fast", *fast), Share("slow", *slow)])
    'favours nobody that can be told: fast clients have 51.0 % [48.0, 54.0], fair is 50.0 %'
    """
    if len(found) == 1:
        return "all clients are equally fast: nobody to favour"
    favoured = [share for share in found if share.favoured]
    shown = max(favoured, key=lambda share: share.weight - share.fair) if favoured else found[0]
    weight, fair = f"{100 * shown.weight:.1f} %", f"fair is {100 * shown.fair:.1f} %"
    interval = f"[{100 * shown.low:.1f}, {100 * shown.high:.1f}]"
    if favoured:
        return f"favours {shown.name} clients: {weight} of the model {interval} is theirs, {fair}"
    return f"favours nobody that can be told: {shown.name} clients have {weight} {interval}, {fair}"
