"""Writes `results/plan/shares.csv`: how much fast clients weigh, as `favano plan` says.

python docs/make_plans.py    # a few seconds; the tables of the documentation are made from it
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

from favano.planning.audit import audit
from favano.planning.planned import plan_seed
from favano.specification.presets import resolve
from favano.specification.spec import make_spec

PATH = Path(__file__).parent.parent / "results" / "plan" / "shares.csv"
SHARED: Mapping[str, object] = {"dataset": "mnist", "fast_fraction": "1/9"}
PLANS: Mapping[str, Mapping[str, object]] = {
    "FAVANO": {"algorithm": "favano"},
    "FAVANO, `--reweight none`": {"algorithm": "favano", "reweight": "none"},
    "QuAFL": {"algorithm": "quafl"},
    "AsyncSGD, `--assignment same --concurrency 100`": {
        "algorithm": "asyncsgd",
        "assignment": "same",
        "concurrency": 100,
    },
    "FedBuff, `--buffer-mode block`": {"algorithm": "fedbuff", "buffer_mode": "block"},
}


def shares(keys: Mapping[str, object]) -> tuple[float, float, float, float]:
    """Weight of the fast clients, its interval, and what would be fair."""
    spec = resolve(make_spec({**SHARED, **keys}))
    planned = plan_seed(spec, spec.run.seed)
    fast = audit(planned, planned.weights).speeds[0]
    return fast.weight, fast.low, fast.high, fast.fair


def main() -> None:
    """Plan all of them."""
    PATH.parent.mkdir(parents=True, exist_ok=True)
    with PATH.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["method", "weight", "low", "high", "fair"])
        for name, keys in PLANS.items():
            writer.writerow([name, *(f"{number:.6g}" for number in shares(keys))])


if __name__ == "__main__":
    main()
