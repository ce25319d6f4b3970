"""Whole commands on a CPU, from start to end.

    python benchmarks/commands.py [--against WHEEL] [--only help,...] [--repeats 7] [--out FILE]

`mnist` reads `$FAVANO_DATA`; run it once before, so that the data are decoded.
"""

from __future__ import annotations

from releases import favano, main, work

QUIET = ("--checkpoint-every", "1e9", "--json")
FOUR = "favano,fedavg,quafl,fedbuff"
LINES = {
    "import": work("import favano", "seconds", "import"),
    "help": favano("favano --help", "--help"),
    "run-help": favano("favano run --help", "run", "--help"),
    "methods": favano("favano methods", "methods"),
    "plan": favano("favano plan", "plan", "--json"),
    "digits": favano("favano run", "run", *QUIET),
    "compare": favano("favano compare", "compare", "--algorithms", FOUR, *QUIET),
    "mnist": favano(
        "favano run --dataset mnist", "run", "--dataset", "mnist", "--horizon", "1000", *QUIET
    ),
    "host": work(
        "host time per job",
        "running",
        "train",
        "tiny",
        FOUR,
        "clients=100",
        "selected=20",
        "local_steps=1",
        "horizon=2000.0",
        "batch_size=2",
        "samples=1000",
        "learning_rate=0.1",
    ),
}

if __name__ == "__main__":
    main("commands.py", LINES, repeats=7)
