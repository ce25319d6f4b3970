"""Short runs on the data sets that are looked for in $FAVANO_DATA, then in ../shared/data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.golden.records import Values
from tests.golden.trained_models import TOLERANCE as TOLERANCE
from tests.golden.trained_models import record as record_of

NEEDS: Final = Path(os.environ.get("FAVANO_DATA", "../shared/data")).resolve()
_SMALL: Final = (
    "--clients 10 --selected 2 --local-steps 2 --batch-size 8 --horizon 30 --evaluate-every 15"
)
CASES: Final[Mapping[str, str]] = {
    "mnist": f"--dataset mnist {_SMALL} --data-fraction 0.05",
    "mnist, by writer": (
        "--dataset mnist --split column:writer_id --selected 2 --local-steps 2 --batch-size 8 "
        "--horizon 30 --evaluate-every 15 --data-fraction 0.05"
    ),
    "cifar10": f"--dataset cifar10 {_SMALL} --data-fraction 0.004 --split iid",
    "femnist": f"--dataset femnist {_SMALL} --data-fraction 0.05",
    "shakespeare": f"--dataset shakespeare {_SMALL} --data-fraction 0.02",
}
QUICK: Final = ()


def record(case: str) -> Values:
    """As for the other models."""
    return record_of(f"favano run {case} --data-dir {NEEDS} --out result")
