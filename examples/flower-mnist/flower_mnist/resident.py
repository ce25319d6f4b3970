"""The same client as a resident node: one process that stays loaded, for short ticks.

python -m flower_mnist.resident HOST:PORT --partition 0 [--dataset digits] [--clients 4]
    [--data-dir DIR] [--root-certificate authority.crt --key node-0 --operator operator.yaml]
    [--pace SECONDS]
"""

import argparse
from pathlib import Path

from favano.flower import Client, join
from flower_mnist.task import network, share


def main() -> None:
    """Join a federation."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("address")
    parser.add_argument("--partition", type=int, required=True)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--dataset", default="mnist")
    parser.add_argument("--split", default="dirichlet:0.5")
    parser.add_argument("--data-dir", default="")
    parser.add_argument("--root-certificate", type=Path)
    parser.add_argument("--key", type=Path)
    parser.add_argument("--operator", type=Path)
    parser.add_argument("--pace", type=float, default=0.0)
    asked = parser.parse_args()
    config = {name.replace("_", "-"): value for name, value in vars(asked).items()}
    client = Client(
        network(asked.dataset),
        share(config, asked.partition).data(),
        pace=asked.pace,
        notes={"partition": asked.partition},
    )
    join(
        client,
        asked.address,
        root_certificate=asked.root_certificate,
        key=asked.key,
        operator=asked.operator,
    )


if __name__ == "__main__":
    main()
