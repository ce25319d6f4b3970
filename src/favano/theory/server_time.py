"""The constants C of Table 1: the mean length of a server step in simulated time.

    FAVANO, QuAFL      I + V
    FedAvg             I + E[max_{i in S} (D_i1 + ... + D_iK)]
    FedBuff, `reset`   I + E[Z-th smallest of n such sums]
    free-running       Z / sum_i 1 / (K m_i + I)       (renewal theory; AsyncSGD has Z = K = 1)

are exact. No closed form is known if clients wait for each other or queue: then a schedule is
planned, and the mean length of its steps has a standard error.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from favano.schedule import Arrival, Barrier, Policy, Poll, Window, plan
from favano.theory.durations import finished, step_laws
from favano.timing import Deterministic, Fleet, Geometric, StepLaw, Trace
from favano.types import Floats, Ints

_POINTS = 20_000
_REST = 1e-12  # probability of longer rounds, left out
_BLOCKS = 20


class ServerTime(NamedTuple):
    """Mean length of a server step; the standard error is 0 if it is exact."""

    mean: float
    standard_error: float = 0.0


def server_time(policy: Policy, fleet: Fleet, *, updates: int = 1000, seed: int = 0) -> ServerTime:
    """Mean simulated time between two updates of the server, in the long run.

    Args:
        policy: contact policy of the method.
        fleet: the clients.
        updates: number of updates to plan if there is no closed form.
        seed: seed of that plan.

    >>> from favano.timing import two_speeds
    >>> round(server_time(Barrier(selected=20, local_steps=20), two_speeds(100)).mean, 1)
    417.4
    """
    match policy:
        case Poll() | Window():
            return ServerTime(policy.period)
        case Barrier() if policy.wait_for is None or policy.selected == fleet.clients:
            return ServerTime(policy.interaction_time + _round_length(policy, fleet))
        case Arrival() if _never_waits(policy, fleet):
            talk = policy.interaction_time if policy.latency == "client" else 0.0
            rate = 1 / (policy.local_steps * fleet.mean + talk)  # answers of each client
            return ServerTime(policy.buffer / float(rate.sum()))
        case _:
            return _planned(policy, fleet, updates, seed)


def _never_waits(policy: Arrival, fleet: Fleet) -> bool:
    """Whether every client works all the time, independently of the others."""
    at_once = policy.hand_out == "arrival" or (policy.hand_out == "flush" and policy.buffer == 1)
    everybody = policy.concurrency in (None, fleet.clients)
    unpaused = policy.latency != "server" or policy.interaction_time == 0
    return at_once and everybody and unpaused and policy.max_staleness is None


def _round_length(policy: Barrier, fleet: Fleet) -> float:
    """E[min(deadline, time of the last answer waited for)], the integral of P(longer than x)."""
    steps = 1 if policy.round_time == "one-draw" else policy.local_steps
    law: StepLaw = Deterministic() if policy.round_time == "mean" else fleet.law
    scale = policy.local_steps / steps
    longest = 4.0 * steps * float(fleet.mean.max())
    while True:
        time = _grid(law, fleet, steps, longest)
        beyond = 1.0 - _all_in(policy, fleet, law, time, steps)
        if beyond[-1] < _REST or longest > 1e6 * fleet.mean.max():
            break
        longest *= 2
    if policy.deadline is not None:
        time = np.minimum(time, policy.deadline / scale)
    if _jumps(law):
        return scale * float(beyond[:-1] @ np.diff(time))
    return scale * float((beyond[:-1] + beyond[1:]) @ np.diff(time)) / 2


def _jumps(law: StepLaw) -> bool:
    """Whether sums of steps take only values of the grid."""
    whole = isinstance(law, Trace) and all((row == np.round(row)).all() for row in law.rows)
    return whole or isinstance(law, Geometric | Deterministic)


def _grid(law: StepLaw, fleet: Fleet, steps: int, longest: float) -> Floats:
    if isinstance(law, Deterministic):
        return np.append(0.0, np.unique(steps * fleet.mean))
    if _jumps(law):
        return np.arange(np.ceil(longest) + 1)
    return np.linspace(0.0, longest, _POINTS)


def _all_in(policy: Barrier, fleet: Fleet, law: StepLaw, time: Floats, steps: int) -> Floats:
    """P(enough of the selected clients have made their steps by each time)."""
    cell = float(time[-1]) / _POINTS
    done = [
        (len(members), finished(own, mean, time, steps, cell=cell)[:, -1])
        for members, own, mean in step_laws(fleet, law)
    ]
    if policy.wait_for is None or policy.wait_for == policy.selected:
        return _mean_product(done, policy.selected)
    return _at_least(done, policy.wait_for)


def _mean_product(groups: list[tuple[int, Floats]], selected: int) -> Floats:
    """The product of F_i over a uniform subset of `selected` clients, averaged over subsets.

    Groups are added one by one; mean[j] is the average over subsets of j clients.
    """
    mean = np.zeros((selected + 1, len(groups[0][1])))
    mean[0] = 1.0
    pool = 0
    for size, chance in groups:
        pool += size
        taken = np.arange(min(size, selected) + 1)
        power = chance[None] ** taken[:, None]
        merged = np.zeros_like(mean)
        for j in range(min(pool, selected) + 1):
            weight = _hypergeometric(taken[: j + 1], pool, size, j)
            merged[j] = np.einsum("k,kt,kt->t", weight, power[: j + 1], mean[j::-1][: len(weight)])
        mean = merged
    return np.asarray(mean[selected])


def _hypergeometric(taken: Ints, pool: int, size: int, drawn: int) -> Floats:
    """P(`taken` of `drawn` clients from the pool are among `size` marked ones)."""
    possible = (taken <= size) & (drawn - taken <= pool - size)
    inside = np.where(possible, taken, 0)
    rest = np.where(possible, drawn - taken, 0)
    chance = _log_choose(size, inside) + _log_choose(pool - size, rest)
    return np.where(possible, np.exp(chance - _log_choose(pool, np.array(drawn))), 0.0)


def _log_choose(of: int, chosen: Ints) -> Floats:
    """log of the binomial coefficient."""
    first, second = special.gammaln(of + 1), special.gammaln(chosen + 1)
    return np.asarray(first - second - special.gammaln(of - chosen + 1))


def _at_least(groups: list[tuple[int, Floats]], wanted: int) -> Floats:
    """P(at least `wanted` clients are done)."""
    below = np.zeros((wanted, len(groups[0][1])))  # P(k done), k < wanted
    below[0] = 1.0
    for size, chance in groups:
        done = np.arange(min(size, wanted - 1) + 1)[:, None]
        pmf = np.zeros_like(below)
        powers = special.xlogy(done, chance) + special.xlog1py(size - done, -chance)
        pmf[: len(done)] = np.exp(_log_choose(size, done) + powers)
        below = np.stack([(pmf[: k + 1] * below[k::-1]).sum(axis=0) for k in range(wanted)])
    return np.asarray(1.0 - below.sum(axis=0))


def _planned(policy: Policy, fleet: Fleet, updates: int, seed: int) -> ServerTime:
    """From a planned schedule: means of blocks, without its first tenth."""
    horizon = 10.0 * policy.local_steps * float(fleet.mean.mean())
    schedule = plan(policy, fleet, horizon=horizon, seed=seed)
    while schedule.updates < updates:
        horizon *= max(2.0, 1.2 * updates / max(1, schedule.updates))
        schedule = plan(policy, fleet, horizon=horizon, seed=seed)
    time = schedule.time[schedule.updates // 10 :]
    ends = np.linspace(0, len(time) - 1, _BLOCKS + 1).astype(np.int64)
    means = np.diff(time[ends]) / np.diff(ends)
    spread = float(means.std(ddof=1) / np.sqrt(_BLOCKS))
    return ServerTime(float((time[-1] - time[0]) / (len(time) - 1)), spread)
