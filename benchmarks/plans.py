"""The public `favano.plan`, by policy, number of clients and what clients meet.

    python benchmarks/plans.py [--against WHEEL] [--only polling-100,...] [--repeats 5] [--out FILE]

CPU time of one plan in a process of its own: the paper's two speeds, s = 20, K = 20, to time 5,000.
"""

from __future__ import annotations

from releases import Line, main, work

POLICIES = {
    "polling": "favano",
    "rounds": "fedavg",
    "buffered": "fedbuff",
}
CLIENTS = (100, 1_000, 10_000)
LINKS = "home"
PRESENCE = "two-state:600:200"
MEETS: dict[str, list[str]] = {
    "": [],
    **{
        f"-{away}": [f"availability={PRESENCE}", f"when_away={away}"]
        for away in ("lost", "paused", "later")
    },
    "-links": [f"link={LINKS}"],
    "-lost-links": [f"availability={PRESENCE}", "when_away=lost", f"link={LINKS}"],
}


def lines() -> dict[str, Line]:
    """Every policy with every number of clients; what clients meet, with up to 1,000."""
    made: dict[str, Line] = {}
    for policy, method in POLICIES.items():
        for clients in CLIENTS:
            for name, keys in MEETS.items():
                run = [f"clients={clients}", "selected=20", "local_steps=20", "horizon=5000.0"]
                words = ["plan", method, *run, *keys]
                made[f"{policy}-{clients}{name}"] = work(" ".join(words), "cpu_seconds", *words)
    return made


if __name__ == "__main__":
    main("plans.py", lines())
