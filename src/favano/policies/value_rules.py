"""Selection rules that look at what clients have sent: losses and durations."""

from __future__ import annotations

import numpy as np

from favano.errors import require
from favano.options import Below1, Count, PositiveTime, PositiveUnitInterval, UnitInterval, option
from favano.policies.selection import Candidates, Selection, smallest
from favano.policies.selection_rules import exponential_keys
from favano.types import Floats, Ints


class PowerOfChoice(Selection):
    """The highest losses among d candidates (Cho, Wang, Joshi 2020, "Client selection ...").

    The candidates are drawn by samples, without repetition. The loss of a client is that of its
    last job; before its first it is infinite.

    Differs from pow-d, whose candidates compute their losses at the newest model: it is rpow-d of
    the same paper, which costs no messages.
    """

    name, uses_samples, sees = "power-of-choice", True, ("loss",)

    candidates: Count | None = option(
        None, "clients that are drawn first", otherwise="twice as many as are selected", symbol="d"
    )

    def select(self, clients: Candidates, size: int) -> Ints:
        count = 2 * size if self.candidates is None else self.candidates
        rule = f"need at least {size}, the clients that are selected"
        require(count >= size, "candidates", count, rule)
        drawn, keys = np.arange(len(clients.client)), exponential_keys(clients, clients.samples)
        if count < len(drawn):
            drawn = smallest(keys, count)
        loss = np.nan_to_num(clients.loss[drawn], nan=np.inf)
        return clients.client[drawn[np.lexsort((keys[drawn], -loss))[:size]]]


class Oort(Selection):
    """Clients of high utility, and some that are not known yet.

    (Lai, Zhu, Madhyastha, Chowdhury, OSDI 2021, Algorithm 1.)

        U_i = |B_i| loss_i, cut at a quantile, as (U_i - min U) / (max U - min U)
        Util_i = (U_i + sqrt(0.1 log R / L_i)) (T / t_i)^alpha       the factor only if t_i > T

    in round R = 1, 2, ..., with the samples |B_i| of client i, the duration t_i of its last job and
    the last round L_i that selected it. T is a quantile of all known durations. A share epsilon_R =
    max(0.9 0.98^R, 0.2) of the selected is explored: drawn from clients whose loss is not known.
    The others are drawn in proportion to Util among those with at least c = 0.95 of the utility
    that would just do.

    Differs from the paper: loss_i is the mean loss of the last job, not the root of the mean
    squared loss of all samples; utilities are scaled to 0..1 as in the authors' code; T does not
    grow (no pacer), and no client is left out for having been selected often; clients are explored
    alike, since their speeds are not known; epsilon_R s is rounded at random, so that single
    clients are explored, too.
    """

    uses_samples, sees = True, ("loss",)

    exploration: UnitInterval = option(0.9, "share of unknown clients at first", symbol="epsilon")
    exploration_decay: UnitInterval = option(0.98, "what it is multiplied by in each round")
    least_exploration: UnitInterval = option(0.2, "what it does not fall below")
    cut_off: UnitInterval = option(0.95, "of the utility that would just do", symbol="c")
    preferred: PositiveUnitInterval = option(0.3, "quantile of durations that is T")
    penalty: PositiveTime = option(2.0, "of slower clients", symbol="alpha")
    clip: Below1 = option(0.95, "quantile at which utilities are cut")

    def select(self, clients: Candidates, size: int) -> Ints:
        known = np.flatnonzero(np.isfinite(clients.loss))
        unknown = np.flatnonzero(~np.isfinite(clients.loss))
        share = self.exploration * self.exploration_decay ** (clients.round + 1)
        share = max(share, self.least_exploration)
        explored = min(int(size * share + clients.rng.random()), len(unknown))
        used = min(size - explored, len(known))
        explored = size - used
        best = self._drawn(clients, known, used) if used else known[:0]
        new = unknown[smallest(clients.random[unknown], explored)] if explored else unknown[:0]
        chosen: Ints = clients.client[np.concatenate([best, new])]
        return chosen

    def _drawn(self, clients: Candidates, known: Ints, size: int) -> Ints:
        """Some of the known clients, in proportion to their utility."""
        utility = self.utility(clients)[known]
        enough = self.cut_off * np.sort(utility)[-size]
        weight = np.where(utility >= enough, np.maximum(utility, 1e-12), 0.0)
        with np.errstate(divide="ignore"):
            keys = -np.log1p(-clients.random[known]) / weight
        return known[smallest(keys, size)]

    def utility(self, clients: Candidates) -> Floats:
        """Util of each client, (m,); NaN where the loss is not known."""
        known = np.isfinite(clients.loss)
        value = clients.samples * clients.loss
        value = np.minimum(value, np.quantile(value[known], self.clip))
        low, high = value[known].min(), value[known].max()
        scaled = (value - low) / (high - low) if high > low else value - low + 1.0
        with np.errstate(divide="ignore", invalid="ignore"):
            unsure = np.sqrt(0.1 * np.log(clients.round + 1) / (clients.last + 1))
            preferred = np.quantile(clients.duration[known], self.preferred)
            slower = (preferred / clients.duration) ** self.penalty
        late = clients.duration > preferred
        return np.asarray((scaled + unsure) * np.where(late, slower, 1.0))
