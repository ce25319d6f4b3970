"""The law of X = min(E, K) for a client whose step times are recorded and played in order.

A job that begins at line p begins its j-th step if the steps before end before the contact, and
makes it if it ends by then. The next job begins with the first line that was not begun, so the
lines at which jobs begin form a Markov chain on the L lines, and X has the law

    P(X >= j) = sum_p pi(p) P(S_j(p) <= W),     S_j(p) = D_p + ... + D_(p+j-1),

with pi(p) the share of the client's jobs that begin at line p in the long run.
"""

from __future__ import annotations

import numpy as np
import scipy

from favano.policies import Polling
from favano.timing.ties import at_or_before, before
from favano.types import Floats, Mask

_LONG_RUN = 1e9  # jobs; where they begin is averaged over about so many


def polled_steps(durations: Floats, policy: Polling, chance: float) -> Floats:
    """P(X >= j), j = 1..K, of a client that is polled at each tick with this chance."""
    starts, ends = _step_times(durations, policy.longest_job)
    made = _reached(policy, ends, chance, strict=policy.strict_ties)
    begun = _reached(policy, starts, chance, strict=True)
    return np.asarray(_long_run(begun) @ made)


def deadline_steps(durations: Floats, local_steps: int, deadline: float) -> Floats:
    """P(X >= j), j = 1..K, of a client that is stopped at a deadline."""
    starts, ends = _step_times(durations, local_steps)
    begun = before(starts, deadline).astype(np.float64)
    return np.asarray(_long_run(begun) @ at_or_before(ends, deadline))


def _step_times(durations: Floats, local_steps: int) -> tuple[Floats, Floats]:
    """When the K steps of a job that begins at each line start and end, (L, K) each."""
    lines = len(durations)
    ends = np.cumsum(durations[np.add.outer(np.arange(lines), np.arange(local_steps)) % lines], 1)
    return np.concatenate([np.zeros((lines, 1)), ends[:, :-1]], axis=1), ends


def _reached(policy: Polling, time: Floats, chance: float, *, strict: bool) -> Floats:
    """P(W >= time), or P(W > time), for the window W between two contacts of a client."""

    def too_short(gap: Floats) -> Mask:
        window = policy.window(gap)
        return ~(before(time, window) if strict else at_or_before(time, window))

    gap = np.floor(time / policy.period)
    for _ in range(3):  # idle time, ties; a time may be so long that one gap more is none
        gap = gap + too_short(gap)
    return np.asarray((1.0 - chance) ** (np.maximum(gap, 1.0) - 1.0))


def _long_run(begun: Floats) -> Floats:
    """The share of jobs that begin at each line, (L,), from P(a job begins its j-th step), (L, K).

    The first job begins at line 0. Chains may have several cycles, and lines to which no job comes
    back: the share is that among the jobs before a geometric time of mean 10^9, which has a law.
    """
    lines = len(begun)
    tail = np.concatenate([np.ones((lines, 1)), begun, np.zeros((lines, 1))], axis=1)
    used = tail[:, :-1] - tail[:, 1:]  # P(a job uses u lines), u = 0..K
    here, lines_used = np.nonzero(used)
    move = scipy.sparse.csc_array(
        (used[here, lines_used], ((here + lines_used) % lines, here)), shape=(lines, lines)
    )
    first = np.zeros(lines)
    first[0] = 1.0
    last = 1 / _LONG_RUN  # chance that a job is the last
    share = np.atleast_1d(
        scipy.sparse.linalg.spsolve(
            scipy.sparse.eye_array(lines, format="csc") - (1 - last) * move, first
        )
    )
    return np.asarray(share / share.sum())
