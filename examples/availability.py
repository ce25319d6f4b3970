"""Clients that come and go: what absence does to each method, before and after training.

    python examples/availability.py

Half of the clients are there for nine tenths of the time, the others for a fourth. `plan` says who
would train the model without training anything; `simulate` trains it.
"""

import favano


def fleet(when_away="lost"):
    """Two groups of clients that are equally fast, and not equally often there."""
    groups = [
        {"name": "often", "share": 0.5, "mean": 4, "availability": "two-state:90:10"},
        {"name": "seldom", "share": 0.5, "mean": 4, "availability": "two-state:25:75"},
    ]
    return favano.Fleet.groups(groups, clients=20, when_away=when_away)


def main(horizon=3000):
    keys = {"selected": 4, "horizon": horizon}
    plan = favano.plan("favano", "digits", fleet(), **keys)
    print(plan, "\n")
    for when_away in ("lost", "paused", "later"):
        for method in ("favano", "fedavg"):
            planned = favano.plan(method, "digits", fleet(when_away), **keys)
            lost = planned.absence.lost_jobs
            print(f"jobs {when_away:6} {method:7} {lost:4} lost; {planned.audit.verdict}")
    result = favano.simulate("favano", "digits", fleet(), learning_rate=0.1, **keys)
    print(f"\n{result.accuracy[0]:.0%} correct")
    return result


if __name__ == "__main__":
    main()
