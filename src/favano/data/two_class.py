"""Two classes per client: the paper's non-iid split and its two variants.

The paper says "each client takes two classes (out of the ten possible) without replacement", but
not how. Here classes are taken without replacement within a block of C/2 clients, so that in whole
blocks every class has the same number of holders.
"""

from __future__ import annotations

import numpy as np

from favano.errors import require
from favano.rng import Stream, permutation
from favano.types import Ints

_DEAL = 0  # sub-streams of Stream.SPLIT: 0 deals classes, 1 + c shuffles the samples of class c


def class_blocks(classes: int, clients: int, seed: int) -> Ints:
    """Pairs of distinct classes, (clients, 2): random orders of all classes cut into pairs.

    With an odd number of classes, every second order begins with the second class of a pair. If
    both classes of this pair would be the same, the first two classes of the order are swapped.

    >>> pairs = class_blocks(10, 5, seed=0)
    >>> sorted(pairs.ravel().tolist())
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    dealt: list[int] = []
    for block in range(-(-2 * clients // classes)):
        order = permutation(seed, Stream.SPLIT, classes, client=_DEAL, index=block).tolist()
        if len(dealt) % 2 == 1 and dealt[-1] == order[0]:
            order[0], order[1] = order[1], order[0]
        dealt.extend(order)
    return np.asarray(dealt[: 2 * clients], dtype=np.int64).reshape(clients, 2)


def free_classes(classes: int, clients: int, seed: int) -> Ints:
    """Pairs of distinct classes, (clients, 2), drawn independently for each client."""
    orders = (
        permutation(seed, Stream.SPLIT, classes, client=_DEAL, index=client)
        for client in range(clients)
    )
    return np.stack([order[:2] for order in orders])


def share_out(labels: Ints, pairs: Ints, seed: int, how: str, *, trim: bool = False) -> list[Ints]:
    """Split each class's shuffled samples evenly over its holders.

    Args:
        labels: class of every sample.
        pairs: the two classes of each client, (clients, 2), as positions in the sorted classes.
        seed: of the shuffling.
        how: the split, for messages.
        trim: leave out samples, so that all clients have the same number of each of their classes.
    """
    names = np.unique(labels)
    holders = [np.flatnonzero((pairs == place).any(axis=1)) for place in range(len(names))]
    samples = [np.flatnonzero(labels == name) for name in names]
    for name, own, held in zip(names, samples, holders, strict=True):
        rule = (
            f"class {name} has {len(own)} samples for {len(held)} holders: "
            "need fewer clients or another split"
        )
        require(len(own) >= len(held), "split", how, rule)
    held_classes = [place for place, held in enumerate(holders) if len(held)]
    least = min(len(samples[place]) // len(holders[place]) for place in held_classes)
    portions: list[list[Ints]] = [[] for _ in pairs]
    for place in held_classes:
        own, held = samples[place], holders[place]
        shuffled = own[permutation(seed, Stream.SPLIT, len(own), client=1 + int(names[place]))]
        kept = shuffled[: least * len(held)] if trim else shuffled
        for client, portion in zip(held, np.array_split(kept, len(held)), strict=True):
            portions[client].append(portion)
    return [np.sort(np.concatenate(both)) for both in portions]
