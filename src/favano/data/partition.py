"""The split of a data set over the clients.

iid              random order, equal parts
two-class        two classes per client, dealt in blocks: the paper's non-iid split
two-class-free   two classes per client, drawn independently for each client
two-class-trim   two-class, and all clients have the same number of samples
shards:N         sorted by label, cut, N shards per client (McMahan et al. 2017)
dirichlet:A      class proportions by Dirichlet(A)
column:NAME      one client per value of a column of the data
file:PATH        one client per number or name in a file, which has one for each training sample
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from favano.data.dirichlet import dirichlet
from favano.data.natural import OWN, is_natural, owned_parts
from favano.data.two_class import class_blocks, free_classes, share_out
from favano.errors import BadInput, require
from favano.notices import notice
from favano.rng import Stream, permutation
from favano.types import Ints

_PLAIN = ("iid", "two-class", "two-class-free", "two-class-trim")
SPLITS = (*_PLAIN, "shards:N", "dirichlet:A", "column:NAME", "file:PATH")


@dataclass(frozen=True, eq=False)
class Traits:
    """What a split may know of the training samples: their classes, and whose they are."""

    count: int
    labels: Ints | None = None  # None: their targets are not classes
    classes: int = 0
    owners: Mapping[str, Ints] = field(default_factory=dict)  # by column
    dealt: dict[Hashable, list[Ints]] = field(default_factory=dict, init=False, repr=False)

    def owners_by(self, how: str) -> Ints:
        """The client of each sample in a natural split."""
        column = how.removeprefix("column:")
        known = f"need one of {', '.join(self.owners)}" if self.owners else "the data have none"
        rule = f"is no column of words or whole numbers beside inputs and labels; {known}"
        require(column in self.owners, "split", how, rule)
        owners = self.owners[column]
        rule = "names no client; -1, blank and missing cells name nobody"
        require(bool((owners >= 0).any()), "split", how, rule)
        return owners

    def clients_by(self, how: str) -> int:
        """The number of clients of a natural split."""
        owners = self.owners_by(how)
        return len(np.unique(owners[owners >= 0]))


def partition(traits: Traits, clients: int, how: str, seed: int) -> list[Ints]:
    """Sorted positions of each client's samples; refused if a client or a class has none.

    Natural splits may leave out classes: they are as they are. Runs with the same split share it,
    and the first says how many samples no client has.
    """
    key = clients, how, seed
    if key not in traits.dealt:
        if is_natural(how) and not traits.dealt:
            _say_left_out(traits.owners_by(how), how)
        traits.dealt[key] = _partition(traits, clients, how, seed)
    return traits.dealt[key]


def _partition(traits: Traits, clients: int, how: str, seed: int) -> list[Ints]:
    if is_natural(how):
        return owned_parts(traits.owners_by(how), clients, how, seed)
    labels = traits.labels
    if labels is None:
        rule = "deals out by class; targets that are not one class per sample need iid"
        require(how == "iid", "split", how, rule)
        labels = np.zeros(traits.count, dtype=np.int64)
    parts = split(labels, clients, how, seed)
    check_parts(parts, labels, traits.classes or 1, how=how)
    return parts


def _say_left_out(owners: Ints, how: str) -> None:
    if left_out := int((owners < 0).sum()):
        rule = f"leaves out {left_out} of {len(owners)} training samples, which no client has"
        notice(f"split={how} {rule}")


def split(labels: Ints, clients: int, how: str, seed: int) -> list[Ints]:
    """Sorted positions of each client's samples in the training set; the parts are disjoint.

    Args:
        labels: class of every training sample.
        clients: number of clients, n.
        how: one of `SPLITS`, except those that the data say.
        seed: of all draws.

    >>> labels = np.repeat(np.arange(4), 6)
    >>> [np.unique(labels[part]).size for part in split(labels, 4, "two-class", seed=0)]
    [2, 2, 2, 2]
    """
    kind, argument = _parse(how)
    require(clients >= 1, "clients", clients, "need 1 or more")
    if kind == "iid":
        order = permutation(seed, Stream.SPLIT, len(labels))
        return [np.sort(part) for part in np.array_split(order, clients)]
    if kind == "shards":
        return _shards(labels, clients, int(argument), seed)
    if kind == "dirichlet":
        return dirichlet(labels, clients, argument, seed)
    classes = len(np.unique(labels))
    require(classes >= 2, "split", how, f"the labels have {classes} class: need 2 or more")
    deal = free_classes if kind == "two-class-free" else class_blocks
    pairs = deal(classes, clients, seed)
    return share_out(labels, pairs, seed, how, trim=kind == "two-class-trim")


def check_split(how: str) -> None:
    """Refuse an unknown split.

    >>> check_split("shards:0")
    Traceback (most recent call last):
    favano.errors.BadInput: split=shards:0: need shards:N with N a whole number from 1
    """
    _parse(how)


def check_parts(
    parts: Sequence[Ints],
    labels: Ints,
    classes: int,
    *,
    how: str = "given",
    allow_missing_classes: bool = False,
) -> None:
    """Refuse parts that overlap, that are empty, or that leave out a class of the samples."""
    require(len(parts) >= 1, "clients", len(parts), "need 1 or more")
    for client, part in enumerate(parts):
        rule = f"client {client} has no samples: need fewer clients or another split"
        require(len(part) > 0, "split", how, rule)
        rule = f"client {client} has samples outside 0..{len(labels) - 1}"
        require(part.min() >= 0 and part.max() < len(labels), "split", how, rule)
    owners = np.bincount(np.concatenate(parts), minlength=len(labels))
    shared = int(np.argmax(owners > 1))
    rule = f"sample {shared} has {owners[shared]} owners: need disjoint parts"
    require(owners[shared] <= 1, "split", how, rule)
    if allow_missing_classes:
        return
    there, held = (np.bincount(some, minlength=classes) for some in (labels, labels[owners == 1]))
    missing = int(np.argmax((there > 0) & (held == 0)))
    rule = f"class {missing} has no holder: need {_remedy(how, classes)}"
    require(there[missing] == 0 or held[missing] > 0, "split", how, rule)


def _remedy(how: str, classes: int) -> str:
    if how in ("two-class", "two-class-trim"):
        return f"clients >= classes / 2 ({-(-classes // 2)}) or another split"
    return "more clients, another seed or another split"


def _parse(how: str) -> tuple[str, float]:
    """The kind of split and its number, 0 if it has none."""
    kind, colon, argument = how.partition(":")
    if how in (*_PLAIN, OWN) or (is_natural(how) and argument):
        return kind, 0.0
    if kind == "shards" and colon:
        whole = argument.isascii() and argument.isdigit() and int(argument) >= 1
        require(whole, "split", how, "need shards:N with N a whole number from 1")
        return kind, int(argument)
    if kind == "dirichlet" and colon:
        rule = "need dirichlet:A with A a number > 0"
        try:
            concentration = float(argument)
        except ValueError as error:
            raise BadInput("split", how, rule) from error
        require(math.isfinite(concentration) and concentration > 0, "split", how, rule)
        return kind, concentration
    raise BadInput("split", how, f"need one of {', '.join(SPLITS)}")


def _shards(labels: Ints, clients: int, each: int, seed: int) -> list[Ints]:
    """Sort by label, cut into equal shards, and deal `each` of them to every client."""
    count = clients * each
    rule = f"{count} shards of {len(labels)} samples: need at most one shard per sample"
    require(count <= len(labels), "split", f"shards:{each}", rule)
    shards = np.array_split(np.argsort(labels, kind="stable"), count)
    dealt = permutation(seed, Stream.SPLIT, count).reshape(clients, each)
    return [np.sort(np.concatenate([shards[shard] for shard in hand])) for hand in dealt]
