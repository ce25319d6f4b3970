"""The constants C of Table 1: the mean length of a server step in simulated time.

    FAVANO, QuAFL      I + V
    FedAvg             I + E[max_{i in S} (D_i1 + ... + D_iK)]
    FedBuff, `reset`   I + E[Z-th smallest of n such sums]
    free-running       Z / sum_i 1 / (K m_i + I)       (renewal theory; AsyncSGD has Z = K = 1)

are exact for geometric and constant steps, and integrals with an error that is given for others. No
form is known if clients wait for each other or queue, or if steps are recorded: then a schedule
is planned, and the mean length of its steps has a standard error.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from favano.errors import require
from favano.policies import Buffered, Policy, Polling, Rounds, Uniform, Windowed
from favano.schedule import plan
from favano.schedule.draws import client_steps
from favano.theory.durations import finished, job_laws
from favano.timing import ClientSpeeds, Deterministic, Geometric, StepLaw, Trace
from favano.types import Floats, Ints

_PLACES = 1 << 14  # of the trapezoidal rule
_SHORTEST, _LONGEST = 1e-6, 1e9  # its first and last place, in mean jobs
_CELLS = 1 << 15  # of the convolution of steps, for each scale of time
_SURE = 1e-9  # a client is late with so small a probability: it counts as done from then on
_REST = 1e-12  # probability of longer rounds, left out of a sum
_BLOCKS = 20


class ServerTime(NamedTuple):
    """Mean length of a server step."""

    mean: float
    error: float = 0.0  # of the quadrature, or the standard error of a plan; 0: exact


def server_time(
    policy: Policy, fleet: ClientSpeeds, *, updates: int = 1000, seed: int = 0
) -> ServerTime:
    """Mean simulated time between two updates of the server, in the long run.

    Args:
        policy: policy of the method.
        fleet: the clients.
        updates: number of updates to plan if there is no closed form.
        seed: seed of that plan.

    >>> from favano.timing import two_speeds
    >>> round(server_time(Rounds(selected=20, local_steps=20), two_speeds(100)).mean, 1)
    417.4
    """
    rule = "leaves the time of a server step without a known law; plan the run instead"
    require(fleet.conditions.always_there, "fleet", "absence or faults", rule)
    match policy:
        case Polling() | Windowed():
            return ServerTime(policy.period)
        case Rounds() if _independent(policy, fleet):
            mean, error = _round_length(policy, fleet)
            return ServerTime(policy.interaction_time + mean, error)
        case Buffered() if _never_waits(policy, fleet):
            talk = policy.interaction_time if policy.latency == "client" else 0.0
            rate = 1 / (
                client_steps(policy, fleet) * fleet.mean + talk
            )  # client updates of each client
            return ServerTime(policy.buffer / float(rate.sum()))
        case _:
            return _planned(policy, fleet, updates, seed)


def _independent(policy: Rounds, fleet: ClientSpeeds) -> bool:
    """Whether a round waits for all its clients, drawn alike, or for some of all, and so on.

    One draw for all steps is a job's only where all jobs are equally long.
    """
    drawn = policy.round_time == "mean" or not isinstance(fleet.law, Trace)
    scaled = policy.round_time != "one-draw" or len(set(client_steps(policy, fleet).tolist())) == 1
    everybody = policy.selected == fleet.clients
    alike = everybody or policy.selection == Uniform()
    return drawn and scaled and alike and (policy.wait_for is None or everybody)


def _never_waits(policy: Buffered, fleet: ClientSpeeds) -> bool:
    """Whether every client works all the time, independently of the others."""
    at_once = policy.hand_out == "arrival" or (policy.hand_out == "flush" and policy.buffer == 1)
    everybody = policy.concurrency in (None, fleet.clients)
    unpaused = policy.latency != "server" or policy.interaction_time == 0
    return at_once and everybody and unpaused and policy.max_staleness is None


def _round_length(policy: Rounds, fleet: ClientSpeeds) -> ServerTime:
    """E[min(deadline, time of the last update waited for)], the integral of P(longer than x)."""
    one, steps = policy.round_time == "one-draw", client_steps(policy, fleet)
    law: StepLaw = Deterministic() if policy.round_time == "mean" else fleet.law
    scale, steps = (float(steps[0]), np.ones_like(steps)) if one else (1.0, steps)
    deadline = None if policy.deadline is None else policy.deadline / scale
    if isinstance(law, Geometric | Deterministic):
        length = ServerTime(_summed(policy, fleet, law, steps, deadline))
    else:
        length = _integrated(policy, fleet, law, steps, deadline)
    return ServerTime(scale * length.mean, scale * length.error)


def _summed(
    policy: Rounds, fleet: ClientSpeeds, law: StepLaw, steps: Ints, deadline: float | None
) -> float:
    """The integral where sums of steps take only values of a grid, on which P is constant."""
    longest = 4.0 * float((steps * fleet.mean).max())
    while True:
        time = np.append(0.0, np.unique(steps * fleet.mean))
        if not isinstance(law, Deterministic):
            time = np.arange(np.ceil(longest) + 1)
        late = _late(policy, fleet, law, time, steps, cells=1)
        if late.round[-1] < _REST:
            break
        longest *= 2
    if deadline is not None:
        time = np.minimum(time, deadline)
    return float(late.round[:-1] @ np.diff(time))


def _integrated(
    policy: Rounds, fleet: ClientSpeeds, law: StepLaw, steps: Ints, deadline: float | None
) -> ServerTime:
    """The integral by the trapezoidal rule in log x, which sees all scales of a heavy tail alike.

    Beyond the last place at most one client is still at work, so the mean round has what the mean
    jobs have there: s K m less the integral of the expected number of clients at work. The error is
    what half as many places, and half as fine a convolution, change.
    """
    job = steps * fleet.mean
    top = _LONGEST * float(job.max()) if deadline is None else deadline
    low = min(_SHORTEST * float(job.min()), top / 2)
    time = np.exp(np.linspace(np.log(low), np.log(top), _PLACES + 1))
    fine, coarse = (
        _late(policy, fleet, law, time, steps, cells=cells) for cells in (_CELLS, _CELLS // 2)
    )
    waits_for_all = policy.wait_for in (None, policy.selected)

    def length(late: _Late, stride: int) -> tuple[float, float]:
        seen, working = (_trapezoidal(each[::stride], time[::stride]) for each in late)
        return seen, waits_for_all * (policy.selected * float(job.mean()) - working)

    lengths = [length(fine, 1), length(fine, 2), length(coarse, 1)]
    if deadline is None:
        mean, *others = (seen + beyond for seen, beyond in lengths)
        unknown = 0.0
    else:  # after nearly all rounds, it cuts off some of what is beyond
        mean, *others = (seen for seen, _ in lengths)
        unknown = abs(lengths[0][1]) if fine.round[-1] == 0 else 0.0
    return ServerTime(mean, unknown + sum(abs(mean - other) for other in others))


def _trapezoidal(value: Floats, time: Floats) -> float:
    """The integral from 0 on, of values at times in geometric progression."""
    part = value * time
    step = float(np.log(time[1] / time[0]))
    return float(part[0] + step * (part.sum() - (part[0] + part[-1]) / 2))


class _Late(NamedTuple):
    """What is unfinished at each time."""

    round: Floats  # P(too few of the selected clients have made their steps)
    clients: Floats  # expected number of selected clients that have not


def _late(
    policy: Rounds, fleet: ClientSpeeds, law: StepLaw, time: Floats, steps: Ints, *, cells: int
) -> _Late:
    done = [
        (len(members), _done(own, mean, time, most, cells))
        for members, own, mean, most in job_laws(fleet, law, steps)
    ]
    if policy.wait_for in (None, policy.selected):
        enough = _mean_product(done, policy.selected)
    else:
        enough = _at_least(done, policy.wait_for)
    working = np.sum([count * (1.0 - chance) for count, chance in done], axis=0)
    late = np.where(working > 0, 1.0 - enough, 0.0)  # 1 - 1 is rounded, and times are long
    return _Late(late, policy.selected / fleet.clients * working)


def _done(law: StepLaw, mean: float, time: Floats, steps: int, cells: int) -> Floats:
    """P(all steps are made) at each time, from grids that are the coarser the later the time."""
    chance = np.ones(len(time))
    first, end = 0, 8.0 * steps * mean
    while first < len(time):
        stop = int(np.searchsorted(time, end, side="right"))
        if stop > first:
            part = finished(law, mean, time[first:stop], steps, cell=end / cells)[:, -1]
            chance[first:stop] = part
            if 1.0 - part[-1] < _SURE:
                break
        first, end = stop, 4 * end
    return chance


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
    first, second = scipy.special.gammaln(of + 1), scipy.special.gammaln(chosen + 1)
    return np.asarray(first - second - scipy.special.gammaln(of - chosen + 1))


def _at_least(groups: list[tuple[int, Floats]], wanted: int) -> Floats:
    """P(at least `wanted` clients are done)."""
    below = np.zeros((wanted, len(groups[0][1])))  # P(k done), k < wanted
    below[0] = 1.0
    for size, chance in groups:
        done = np.arange(min(size, wanted - 1) + 1)[:, None]
        pmf = np.zeros_like(below)
        powers = scipy.special.xlogy(done, chance) + scipy.special.xlog1py(size - done, -chance)
        pmf[: len(done)] = np.exp(_log_choose(size, done) + powers)
        below = np.stack([(pmf[: k + 1] * below[k::-1]).sum(axis=0) for k in range(wanted)])
    return np.asarray(1.0 - below.sum(axis=0))


def _planned(policy: Policy, fleet: ClientSpeeds, updates: int, seed: int) -> ServerTime:
    """From a planned schedule: means of blocks, without its first tenth."""
    horizon = 10.0 * policy.longest_job * float(fleet.mean.mean())
    schedule = plan(policy, fleet, horizon=horizon, seed=seed)
    while schedule.updates < updates:
        horizon *= max(2.0, 1.2 * updates / max(1, schedule.updates))
        schedule = plan(policy, fleet, horizon=horizon, seed=seed)
    time = schedule.time[schedule.updates // 10 :]
    ends = np.linspace(0, len(time) - 1, _BLOCKS + 1).astype(np.int64)
    means = np.diff(time[ends]) / np.diff(ends)
    spread = float(means.std(ddof=1) / np.sqrt(_BLOCKS))
    return ServerTime(float((time[-1] - time[0]) / (len(time) - 1)), spread)
