"""A program: a job script that gets SIGTERM when all runs are saved, and is then run again.

Its arguments are the script and those of `favano`, with `--out FOLDER` last.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

RUNS = 2


def main() -> None:
    """Start the script twice."""
    command, out = ["bash", *sys.argv[1:]], Path(sys.argv[-1])
    script = subprocess.Popen(command)
    while script.poll() is None and _saved(out) < RUNS:
        time.sleep(0.05)
    script.terminate()
    ended = script.wait()
    sys.stderr.write(f"ended with {ended}\n")
    sys.exit(subprocess.run(command).returncode)


def _saved(out: Path) -> int:
    """How many runs have a checkpoint."""
    paths = out.glob("*/checkpoints/seed-*.checkpoint")
    return len({(path.parent, path.name.partition(".")[0]) for path in paths})


if __name__ == "__main__":
    main()
