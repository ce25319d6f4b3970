"""Selection rules: which of the clients that can be asked the server asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from math import nan
from typing import ClassVar, NoReturn, Self

import numpy as np

from favano.errors import BadInput, in_hook, one_line, require
from favano.options import Options, text_of
from favano.policies.policy import ReceivedUpdate
from favano.rng import Bits, Stream, bits, unit_interval
from favano.types import Floats, Ints
from favano.user_classes import is_ours

_VALUES = ("loss", "delta_norm")  # of client updates, that rules may see


@dataclass(frozen=True)
class Candidates:
    """The m clients that can be asked now, and what is known of them, in the order of `client`."""

    round: int  # number of this selection, from 0 on
    client: Ints  # (m,) numbers of the clients, in order
    last: Ints  # (m,) the round that selected each last; -1: none
    times: Ints  # (m,) rounds that have selected each
    samples: Floats  # (m,) training samples, of rules that `use_samples`; else ones
    seed: int
    values: Mapping[str, Floats] = field(default_factory=dict)  # of their last updates, by name

    @property
    def loss(self) -> Floats:
        """(m,) training loss of each client's last job, for rules that see it; NaN: not known."""
        return self._value("loss")

    @property
    def delta_norm(self) -> Floats:
        """(m,) length of each client's last delta, for rules that see it; NaN: not known."""
        return self._value("delta_norm")

    @property
    def duration(self) -> Floats:
        """(m,) how long each client's last job took, for rules that see values; NaN: not known."""
        return self._value("duration")

    def _value(self, name: str) -> Floats:
        if name not in self.values:
            raise AttributeError(f"{name} is for rules that say so: sees = ('loss',)")
        return self.values[name]

    @cached_property
    def random(self) -> Floats:
        """(m,) uniform draws in (0, 1): functions of seed, client and round."""
        return unit_interval(self.bits)

    @cached_property
    def bits(self) -> Bits:
        """(m,) the 64 bits that `random` is made of."""
        return bits(self.seed, Stream.SELECTION, self.client, self.round)

    @cached_property
    def rng(self) -> np.random.Generator:
        """A generator for other draws, seeded by seed and round."""
        return np.random.default_rng([self.seed, int(Stream.SELECTION), self.round])


class Selection(Options):
    """A rule by which policies that draw clients choose them.

    A rule is one class with its options and `select`, a pure function: all that it may look at is
    in the `Candidates`, which are the same in simulations, in federations and after a resume.

    Class attributes: `name` in texts (by default that of the class), `uses_samples`, whether it
    must know how many training samples each client has, and `sees`, values of client updates that
    it looks at: `("loss", "delta_norm")`. A rule that sees values needs rounds or idle clients, and
    nothing can be planned with it.
    """

    name: ClassVar[str] = ""
    uses_samples: ClassVar[bool] = False
    sees: ClassVar[tuple[str, ...]] = ()
    import_path: ClassVar[str] = ""  # `file.py:Name`, where it was read from a file

    samples: tuple[float, ...] = field(default=(), repr=False)  # of each client, from the run

    @classmethod
    def declare(cls) -> None:
        """Name the rule; one that cannot select is refused."""
        if cls.__module__ == __name__:
            return
        cls.name = cls.__dict__.get("name") or cls.__name__.lower()
        whole = cls.select is not Selection.select or cls.keys is not Selection.keys
        require(whole, "selection", cls.name, "has no select; define it")
        known = set(cls.sees) <= set(_VALUES)
        rule = f"sees must be some of {', '.join(_VALUES)}"
        require(known and isinstance(cls.sees, tuple), "selection", cls.name, rule)

    def select(self, clients: Candidates, size: int) -> Sequence[int] | Ints:
        """Numbers of `size` different candidates, in any order; there are more than that."""
        return clients.client[smallest(self.keys(clients), size)]

    def keys(self, clients: Candidates) -> Bits | Floats:
        """Instead of `select`, where rounds do not depend on each other: many are drawn at once.

        A key per round and client, from `client`, `samples` and draws alone; the smallest are
        selected.
        """
        raise NotImplementedError

    def __str__(self) -> str:
        """The rule as files and flags have it: `power-of-choice:candidates=30`."""
        return text_of(self, self.import_path or self.name)


class Selector:
    """A rule in one run, with what is known of the clients so far. Policies hold one.

    `round` is the number of the next selection; a policy may set it.
    """

    def __init__(self, rule: Selection, seed: int) -> None:
        self.round = 0
        self._rule, self._seed = rule, seed
        self._samples = np.array(rule.samples, dtype=np.float64)
        self._last, self._times = np.full(0, -1), np.zeros(0, dtype=np.int64)  # by client
        names = (*rule.sees, "duration") if rule.sees else ()
        self._values: dict[str, dict[int, float]] = {name: {} for name in names}

    def copy(self) -> Self:
        """The same, which goes on by itself."""
        other = copy(self)
        other._last, other._times = self._last.copy(), self._times.copy()
        return other

    def select(self, clients: Iterable[int], size: int) -> list[int]:
        """The clients of the next round, in order: `size` of these, or all if there are fewer."""
        who = _in_order(clients)
        if size < len(who):
            with in_hook("selection", self._rule.name, "select"):
                chosen: object = self._rule.select(self._known(who), size)
            who = np.sort(chosen) if is_ours(self._rule) else self._checked(chosen, who, size)  # type: ignore[call-overload]
        self.note(who)
        found: list[int] = who.tolist()
        return found

    def select_ahead(self, clients: Iterable[int], size: int, rounds: int) -> Ints:
        """The clients of the next rounds, (rounds, size), if these can be asked in all of them."""
        who, rule = _in_order(clients), self._rule
        if size >= len(who) or type(rule).keys is Selection.keys:
            return np.array([self.select(who, size) for _ in range(rounds)])
        number, unknown = self.round + np.arange(rounds)[:, None], np.empty(0, dtype=np.int64)
        samples = self._samples_of(who)
        known = Candidates(number, who, unknown, unknown, samples, self._seed)  # type: ignore[arg-type]
        with in_hook("selection", rule.name, "keys"):
            keys = rule.keys(known)
        self.round += rounds
        return who[smallest(keys, size)]

    def receive(self, update: ReceivedUpdate) -> None:
        """A client update is here."""
        for name, known in self._values.items():
            known[update.client] = getattr(update, name)

    def note(self, clients: Ints | Sequence[int]) -> None:
        """A round has selected these clients."""
        self._make_room(max(clients, default=-1))
        self._last[clients] = self.round
        self._times[clients] += 1
        self.round += 1

    def _known(self, who: Ints) -> Candidates:
        self._make_room(int(who[-1]))
        samples, last, times = self._samples_of(who), self._last[who], self._times[who]
        values = {
            name: np.array([known.get(client, nan) for client in who.tolist()])
            for name, known in self._values.items()
        }
        return Candidates(self.round, who, last, times, samples, self._seed, values)

    def _samples_of(self, who: Ints) -> Floats:
        return self._samples[who] if len(self._samples) else np.ones(len(who))

    def _make_room(self, client: int) -> None:
        """For what is known of this client."""
        if client >= len(self._last):
            more = client + 1
            self._last = np.append(self._last, np.full(more, -1))
            self._times = np.append(self._times, np.zeros(more, dtype=np.int64))

    def _checked(self, chosen: object, who: Ints, size: int) -> Ints:
        """What a rule returns, in order; nonsense is refused in one sentence with its name."""
        try:
            clients = np.asarray(chosen)
        except ValueError:
            clients = np.empty((0, 0))
        right = clients.ndim == 1 and (clients.dtype.kind in "iu" or not len(clients))
        if not right:
            self._refuse(f"returns {one_line(chosen, 60)}; need numbers of clients")
        ordered = np.unique(clients).astype(np.int64)
        strangers = ordered[~np.isin(ordered, who)]
        if len(strangers):
            self._refuse(f"returns client {strangers[0]}, which cannot be asked")
        if len(ordered) < len(clients):
            self._refuse("returns a client twice")
        if len(ordered) != size:
            self._refuse(f"returns {len(ordered)} of {len(who)} clients; need {size}")
        return ordered

    def _refuse(self, rule: str) -> NoReturn:
        raise BadInput("selection", self._rule.name, f"select {rule} (round {self.round})")


def _in_order(clients: Iterable[int]) -> Ints:
    """Numbers of clients in order, which arrays of them are in already."""
    if isinstance(clients, np.ndarray):
        return clients
    return np.array(sorted(clients), dtype=np.int64)


def smallest(keys: Bits | Floats, size: int) -> Ints:
    """Places of the smallest keys in each row, in order of place, (..., size)."""
    return np.sort(np.argpartition(keys, size - 1, axis=-1)[..., :size], axis=-1)
