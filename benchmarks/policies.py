"""Microseconds of planning per contact, by policy: the virtual clock, and vectorised planners.

    PYTHONPATH=src:examples python benchmarks/policies.py

CPU time, the best of three, K = 20, the paper's two speeds. `LeastRecent` is a policy of one's own.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

from own_policy import LeastRecent

from favano.policies import Buffered, Policy, Polling, Rounds, Windowed
from favano.schedule import Schedule, plan
from favano.schedule.virtual_clock import drive
from favano.timing import two_speeds

CASES: list[tuple[str, int, float, Policy]] = [
    ("idle", 100, 20_000.0, Buffered(hand_out="idle", concurrency=20)),
    ("idle, many clients", 10_000, 5_000.0, Buffered(hand_out="idle", concurrency=200)),
    ("uniform", 100, 20_000.0, Buffered(hand_out="uniform")),
    ("flush", 100, 20_000.0, Buffered(hand_out="flush")),
    ("polling", 100, 20_000.0, Polling(selected=20)),
    ("rounds", 100, 50_000.0, Rounds(selected=20)),
    ("windows", 100, 20_000.0, Windowed(period=50.0)),
    ("least recent", 10_000, 5_000.0, LeastRecent(selected=20)),
]


def best(make: Callable[[], Schedule]) -> float:
    """Microseconds per contact."""
    times = []
    for _ in range(3):
        began = process_time()
        contacts = len(make().client)
        times.append((process_time() - began) / contacts)
    return 1e6 * min(times)


def show(name: str, clients: int, horizon: float, policy: Policy) -> None:
    fleet = two_speeds(clients)
    planned = best(lambda: plan(policy, fleet, horizon=horizon, seed=0))
    driven = best(lambda: drive(policy, fleet, horizon, 0))
    print(f"{name:20}  {planned:8.1f}  {driven:13.1f}")


def main() -> None:
    print("policy                 planned  virtual clock")
    for case in CASES:
        show(*case)


if __name__ == "__main__":
    main()
