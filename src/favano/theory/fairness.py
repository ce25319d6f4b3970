"""Shares of groups of clients in the model, with their uncertainty, and a verdict.

A client's fair share is 1/n, or its share of all samples where these count. The share that a method
gives it depends on the draws of the schedule; how much the share of a group varies between
stretches of the schedule gives its uncertainty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from favano.errors import require
from favano.types import Floats, Ints

CONFIDENCE = 0.99
"""The level of all intervals of an audit together."""
_BLOCKS = 20
_FEWEST = 10  # fewer stretches are often alike by chance, which would look like certainty
_RARE = 10  # fewer client updates of a group, or of all others, are alike in most stretches, too


@dataclass(frozen=True)
class ShareEstimate:
    """The share of a group of clients in all that moved the model."""

    name: str
    clients: int
    weight: float  # its share
    low: float  # end of a confidence interval
    high: float
    fair: float  # its share of the clients, or of all samples

    @property
    def favoured(self) -> bool:
        """Whether its share is significantly larger than fair."""
        return self.low > self.fair

    @property
    def slighted(self) -> bool:
        """Whether its share is significantly smaller than fair."""
        return self.high < self.fair

    @property
    def clients_named(self) -> str:
        """`fast clients`, `the slowest tenth`."""
        part = self.name.endswith("tenth") or self.name.startswith("half")
        return f"the {self.name}" if part else f"{self.name} clients"


def shares(
    weight: Floats,
    moved: Floats,
    clients: Ints,
    names: Sequence[str],
    late: Floats | None = None,
    *,
    updates: Ints | None = None,
    fair: Floats | None = None,
    confidence: float = CONFIDENCE,
) -> list[ShareEstimate]:
    """The groups' shares, with intervals from their spread along the schedule.

    More than 20 updates are joined to 20 equal stretches. If the group and all clients moved the
    model by y_b and x_b in stretch b, r = sum y / sum x has the standard error
    sqrt(B/(B-1) sum_b (y_b - r x_b)^2) / sum x, and a t interval with B - 1 degrees of freedom.
    This assumes that stretches are independent. With `late`, the shares in other server models of
    the same schedule, the error is at least their standard deviation. Fewer than 10 stretches say
    nothing: their interval is from 0 to 1. The intervals of g groups hold together: each has the
    level 1 - (1 - confidence) / (g - 1), as two groups have one share between them.

    A group that is hardly ever heard, or never, varies too little to be judged by its spread: with
    `answers`, its interval is at least that of Clopper and Pearson for as many updates of equal
    weight as all updates are worth, 1 / sum_b (m_b^2 / n_b) if n_b of them have the share m_b.

    Args:
        weight: share of each group, (g,).
        moved: how far each group moved the model at each update, or in each stretch, (V, g).
        clients: number of clients in each group, (g,).
        names: names of the groups.
        late: shares of the groups in some server models, (m, g).
        updates: number of updates that moved the model, of each group and as `moved`, (V, g).
        fair: fair share of each group, (g,); None: its share of the clients.
        confidence: that all intervals hold.

    >>> moved = np.array([[1.0, 1.0], [1.2, 0.8]])
    >>> fast, slow = shares(np.array([0.55, 0.45]), moved, np.array([2, 2]), ["fast", "slow"])
    >>> fast.weight, fast.fair, fast.favoured
    (0.55, 0.5, False)
    """
    require(0 < confidence < 1, "confidence", confidence, "need a number between 0 and 1")
    require(len(names) == len(clients) == len(weight), "names", list(names), "need one per group")
    count = min(_BLOCKS, len(moved))
    edges = np.linspace(0, len(moved), count + 1).astype(np.int64)[:-1]
    blocks = np.add.reduceat(moved, edges) if count else moved
    total = blocks.sum(axis=1)
    groups = []
    level = 1 - (1 - confidence) / max(1, len(weight) - 1)
    spread = np.zeros(len(weight)) if late is None or len(late) < 2 else late.std(axis=0, ddof=1)
    heard = np.zeros_like(blocks) if updates is None else np.add.reduceat(updates, edges)
    counts = heard.sum(axis=0)
    due = clients / clients.sum() if fair is None else fair
    columns = zip(blocks.T, weight.tolist(), spread, counts, clients, names, due, strict=True)
    for part, share, deviation, own, size, name, right in columns:
        error, low, high = 1.0, 0.0, 1.0
        if count >= _FEWEST and total.sum() > 0:
            rest = part - part.sum() / total.sum() * total
            scale = np.sqrt(count / (count - 1) * (rest**2).sum()) / total.sum()
            quantile = scipy.special.stdtrit(count - 1, (1 + level) / 2)
            error = float(max(scale, deviation) * quantile)
            low, high = max(0.0, share - error), min(1.0, share + error)
            if updates is not None and min(own, counts.sum() - own) < _RARE:
                widest = _binomial_interval(share, _worth(total, heard.sum(axis=1)), level)
                low, high = min(low, widest[0]), max(high, widest[1])
        groups.append(ShareEstimate(name, int(size), share, low, high, float(right)))
    return groups


def _worth(weight: Floats, updates: Floats) -> float:
    """How many updates of equal weight are as good as these, which have these weights together."""
    share, some = weight / weight.sum(), updates > 0
    return float(1.0 / np.sum(share[some] ** 2 / updates[some]))


def _binomial_interval(share: float, size: float, level: float) -> tuple[float, float]:
    """The interval of Clopper and Pearson (1934) for a share of `size` answers."""
    seen, tail = share * size, (1 - level) / 2
    low = scipy.special.betaincinv(seen, size - seen + 1, tail) if seen > 0 else 0.0
    high = scipy.special.betaincinv(seen + 1, size - seen, 1 - tail) if seen < size else 1.0
    return float(low), float(high)


def verdict(
    groups: Sequence[ShareEstimate], *, enough: bool = True, fair_is: str = "fair is"
) -> str:
    """One sentence that says which clients the method favours or slights, if any.

    Nothing is judged if the clients that it is about are not `enough`. `fair_is` says what is fair.

    >>> fast, slow = (11, 0.671, 0.65, 0.69, 0.11), (89, 0.329, 0.31, 0.35, 0.89)
    >>> verdict([ShareEstimate("fast", *fast), ShareEstimate("slow", *slow)])
    'favours fast clients: 67.1 % of the model [65.0, 69.0] is theirs, fair is 11.0 %'
    >>> fast, slow = (5, 0.51, 0.48, 0.54, 0.5), (5, 0.49, 0.46, 0.52, 0.5)
    >>> verdict([ShareEstimate("fast", *fast), ShareEstimate("slow", *slow)])
    'shows no significant bias: fast clients have 51.0 % [48.0, 54.0], fair is 50.0 %'
    >>> fast, slow = (5, 0.6, 0.0, 1.0, 0.5), (5, 0.4, 0.0, 1.0, 0.5)
    >>> verdict([ShareEstimate("fast", *fast), ShareEstimate("slow", *slow)])
    'shows too little to judge: fast clients have 60.0 % [0.0, 100.0], fair is 50.0 %'
    """
    if len(groups) == 1:
        return "has nobody to favour: all clients are equally fast"
    favoured = [share for share in groups if share.favoured]
    slighted = [share for share in groups if share.slighted]
    telling = (favoured or slighted or groups[:1]) if enough else groups
    shown = max(telling, key=lambda share: abs(share.weight - share.fair))
    weight, fair = f"{100 * shown.weight:.1f} %", f"{fair_is} {100 * shown.fair:.1f} %"
    interval, who = f"[{100 * shown.low:.1f}, {100 * shown.high:.1f}]", shown.clients_named
    if enough and (favoured or slighted):
        said = "favours" if favoured else "slights"
        return f"{said} {who}: {weight} of the model {interval} is theirs, {fair}"
    known = enough and (shown.low > 0.0 or shown.high < 1.0)
    said = "shows no significant bias" if known else "shows too little to judge"
    verb = "has" if who.startswith("the ") else "have"
    return f"{said}: {who} {verb} {weight} {interval}, {fair}"
