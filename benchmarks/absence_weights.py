"""How fast measured weights become those of the theory where clients come and go.

    PYTHONPATH=src python benchmarks/absence_weights.py benchmarks/results/absence_weights.json

The paper's fleet and clock (n = 100, s = 20, K = 20), each client away for 30 % of each day. Each
client divides by its own running frequencies, (1 + steps so far) / (1 + contacts so far): no two
clients are there at the same times, so that nothing is pooled. Contacts are drawn from each
client's exact law. Written: the root mean square of M / E[min(E, K)] - 1 after so many contacts, by
speed, and of (1 + contacts with a step) / (1 + contacts) / P(E > 0) - 1.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from favano.policies import Polling
from favano.theory import class_laws
from favano.timing import Conditions, parse_availability, two_speeds
from favano.types import Floats

HORIZON, CONTACTS, RUNS = 5000.0, (1, 3, 10, 30, 100, 300), 200
AVAILABILITY = "daily:0.7:4:1000"


def errors() -> dict[str, dict[int, dict[str, float]]]:
    """Relative errors of both weights, by speed and number of contacts."""
    fleet, availability = two_speeds(100), parse_availability(AVAILABILITY)
    assert availability is not None
    presence = availability.presence(0, fleet.streams, HORIZON)
    fleet = replace(fleet, conditions=Conditions(presence=presence))
    random = np.random.default_rng(0)
    squares: dict[str, list[Floats]] = {"fast": [], "slow": []}
    for members, law in class_laws(Polling(selected=20, local_steps=20), fleet):
        steps = random.choice(len(law.pmf), p=law.pmf / law.pmf.sum(), size=(RUNS, CONTACTS[-1]))
        made = (1 + np.stack([steps > 0, steps]).cumsum(axis=2)) / (2 + np.arange(CONTACTS[-1]))
        expected = np.array([law.p_positive, law.mean])[:, None, None]
        error = (((made / expected - 1) ** 2).mean(axis=1))[:, np.array(CONTACTS) - 1]
        squares["fast" if fleet.mean[members[0]] == 2 else "slow"] += [error] * len(members)
    return {
        speed: {
            contacts: dict(zip(("positive", "mean"), np.sqrt(value).round(3).tolist(), strict=True))
            for contacts, value in zip(CONTACTS, np.mean(all_of, axis=0).T, strict=True)
        }
        for speed, all_of in squares.items()
    }


if __name__ == "__main__":
    document = {"availability": AVAILABILITY, "runs": RUNS, "errors": errors()}
    Path(sys.argv[1]).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
