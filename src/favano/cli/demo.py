"""`favano demo`: a comparison of four methods in a minute, on embedded data."""

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

Out = Annotated[Path, typer.Option(metavar="DIR", help="result folder")]


def demo_command(out: Out = Path("favano-demo"), json: Json = False, force: Force = False) -> None:
    """Compare FAVANO, FedAvg, QuAFL and FedBuff on scikit-learn's digits."""
    if not json:
        screen.print(
            "30 clients hold two digits each; a third of them are 8 times slower. Four methods "
            "train the same network in the same simulated time.",
            soft_wrap=True,
        )
    specs = comparison({"dataset": "digits", "seeds": 3}, [{ALGORITHM: name} for name in DEFAULT])
    compare(specs, out, None, json=json, force=force)
