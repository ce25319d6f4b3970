"""`favano demo`: what this package is about, in a minute, on embedded data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from favano.cli.compare import compare
from favano.cli.flags import Json
from favano.cli.shell import screen
from favano.cli.training import Force
from favano.planning.comparison import DEFAULT, comparison
from favano.specification.spec import ALGORITHM


def demo_command(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="result folder")] = Path(
        "favano-demo"
    ),
    json: Json = False,
    force: Force = False,
) -> None:
    """FAVANO against FedAvg, QuAFL and FedBuff on scikit-learn's digits, two classes a client."""
    if not json:
        screen.print(
            "30 clients, a third of them 8 times slower, hold two digits each. Four methods train "
            "one network on them in the same simulated time.",
            soft_wrap=True,
        )
    specs = comparison({"dataset": "digits", "seeds": 3}, [{ALGORITHM: name} for name in DEFAULT])
    compare(specs, out, None, json=json, force=force)
