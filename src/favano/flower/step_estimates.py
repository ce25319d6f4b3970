"""Estimates of P(E > 0) and E[min(E, K)], which nobody knows outside a simulation.

A client's updates say how many steps it made and how long it really trained. The prior of a client
is the law of its step count (`theory.steps`) for its own mean step time and for the time that it
could really train; it counts as much as a few contacts. What was seen at its contacts takes over:

    P = (c P_0 + #{X > 0}) / (c + n),    M = (c M_0 + sum X) / (c + n)

after n contacts, with the prior's P_0, M_0 and its weight c.
"""

from __future__ import annotations

from collections import deque
from math import log, sqrt
from statistics import median

import numpy as np

from favano.methods.method import Expected
from favano.policies import BySamples, Polling, Weighted
from favano.screening import LEAST_STEP
from favano.theory import selection_chances, step_count
from favano.timing import Deterministic, StepLaw
from favano.types import Floats, Ints

PRIOR = 4.0  # contacts that a prior counts for
_CONFIDENCE = 0.95
_NEWEST = 9  # contacts whose median is the time lost: networks change, and a restart is no measure
_CHANGE = 0.05  # of a mean step or of the time lost, for which a prior is computed anew


class StepEstimates:
    """What is known of the steps of each client so far.

    Args:
        policy: when clients are asked.
        clients: number of clients n.
        step_seconds: mean duration of a step, for clients that have made none.
        lost: seconds per contact in which a client cannot train, before any was measured.
        law: of step times around their mean, for the prior.
    """

    def __init__(
        self,
        policy: Polling,
        clients: int,
        *,
        step_seconds: float = 1.0,
        lost: float = 0.0,
        law: StepLaw | None = None,
    ) -> None:
        self._policy, self._law = policy, law or Deterministic()
        self._usual, self._usual_lost = step_seconds, lost
        # What was seen: contacts, those with steps, steps, seconds of training, and the seconds
        # lost per contact.
        self.seen: Floats = np.zeros((5, clients))
        self._lost = [deque[float](maxlen=_NEWEST) for _ in range(clients)]
        weighted = isinstance(policy.selection, Weighted | BySamples) and policy.selected < clients
        # Of other rules the mean chance is that of the uniform one; what is seen takes over.
        self._chance = selection_chances(policy, np.arange(clients)) if weighted else None
        self._priors: dict[int, tuple[float, float, Expected]] = {}

    def count(self, client: int, steps: int, seconds: float, elapsed: float) -> None:
        """A client has answered.

        Args:
            client: who.
            steps: that it made.
            seconds: that it trained.
            elapsed: seconds from its call to its update.
        """
        self.seen[:4, client] += (1, steps > 0, steps, seconds)
        self._lost[client].append(max(0.0, elapsed - seconds))
        self.seen[4, client] = median(self._lost[client])

    @property
    def step_seconds(self) -> Floats:
        """(n,) mean duration of a step."""
        steps, seconds = self.seen[2:4]
        mean = np.maximum(seconds / np.maximum(steps, 1), LEAST_STEP)
        return np.where(steps > 0, mean, self._usual)

    @property
    def lost_seconds(self) -> Floats:
        """(n,) seconds per contact in which a client cannot train: messages, and its start."""
        contacts, lost = self.seen[[0, 4]]
        return np.where(contacts > 0, lost, self._usual_lost)

    def expected(self, client: Ints) -> Expected:
        """The estimates for these clients."""
        priors = [self._prior(who) for who in client.tolist()]
        contacts, positive, steps = self.seen[:3, client]
        total = PRIOR + contacts
        first = np.array([[float(prior.positive[0]), float(prior.mean[0])] for prior in priors]).T
        chance = (PRIOR * first[0] + positive) / total
        mean = (PRIOR * first[1] + steps) / total
        least = 1 / (1 + total)  # nobody is known to make no step ever
        return Expected(np.clip(chance, least, 1.0), np.maximum(mean, least))

    def errors(self, client: Ints) -> Expected:
        """Bounds of the estimates' errors, each true with probability 0.95 for steady clients.

        By Hoeffding, the mean over n contacts is within K sqrt(log(2 / 0.05) / 2n) of E[min(E, K)];
        the estimate is as far from that mean as its prior has moved it.
        """
        expected, policy = self.expected(client), self._policy
        most = np.array([policy.steps_of(who) for who in client.tolist()])
        contacts, positive, steps = self.seen[:3, client]
        count = np.maximum(contacts, 1)
        away = sqrt(log(2 / (1 - _CONFIDENCE)) / 2) / np.sqrt(count)
        chance = np.abs(expected.positive - positive / count) + away
        mean = np.abs(expected.mean - steps / count) + most * away
        known = contacts > 0
        return Expected(
            np.where(known, np.minimum(chance, 1.0), 1.0),
            np.where(known, np.minimum(mean, most), most),
        )

    def _prior(self, client: int) -> Expected:
        """The law of a client's steps, for its mean step and the time that it could train."""
        step, lost = float(self.step_seconds[client]), float(self.lost_seconds[client])
        known = self._priors.get(client)
        if known is not None and _close(step, known[0]) and _close(lost, known[1]):
            return known[2]
        period = self._policy.period
        idle = min(lost, period)  # of the first window; longer ones lose as much
        policy = Polling(
            selected=min(self._policy.selected, self.seen.shape[1]),
            local_steps=self._policy.steps_of(client),
            waiting_time=period - idle,
            interaction_time=idle,
            idle_in_interaction=True,
        )
        chance = None if self._chance is None else float(self._chance[client])
        law = step_count(
            policy, clients=self.seen.shape[1], law=self._law, mean=step, chance=chance
        )
        prior = Expected(np.array([law.p_positive]), np.array([law.mean]))
        self._priors[client] = step, lost, prior
        return prior


def _close(value: float, other: float) -> bool:
    return abs(value - other) <= _CHANGE * max(value, other)
