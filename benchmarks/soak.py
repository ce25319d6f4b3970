"""Memory of comparisons that are repeated for a long time in one process.

    python benchmarks/soak.py [MINUTES] [--samples FILE.csv] [--out FILE.json]

Five methods, two seeds each, on two worker processes, with a checkpoint of each run every five
seconds; one comparison after another, each with new seeds, into a folder that is removed
afterwards. The memory of the whole tree of processes is noted every five seconds: resident pages,
those that processes share counted once (Pss). It should be flat after the first minute.
"""

from __future__ import annotations

import argparse
import csv
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from statistics import linear_regression, median
from tempfile import TemporaryDirectory
from time import perf_counter, sleep

from measurement import heading, write

METHODS = ("favano", "fedbuff", "quafl", "scaffold", "asofed")
PERIOD = 5.0  # seconds
WARM = 60.0  # seconds, after which memory should be flat

Samples = Sequence[tuple[float, float]]  # seconds since the beginning, MiB


def compare_forever() -> None:
    """Comparisons in this process, until it is killed; each prints one line of JSON."""
    from favano.cli.compare import compare
    from favano.planning.comparison import comparison

    shared = {"horizon": 800.0, "seeds": 2, "codec": "qsgd"}
    for seed in count(step=2):
        methods = [{"algorithm": name} for name in METHODS]
        specs = comparison({**shared, "seed": seed}, methods, [])
        with TemporaryDirectory() as folder:
            compare(specs, Path(folder), None, json=True, force=False, every=5.0)


def tree(root: int) -> Iterator[int]:
    """A process and all that it and they have started."""
    yield root
    try:
        children = Path(f"/proc/{root}/task/{root}/children").read_text().split()
    except OSError:  # has ended
        return
    for child in children:
        yield from tree(int(child))


def memory(root: int) -> float:
    """MiB that the processes of a tree have in memory."""
    total = 0
    for process in tree(root):
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:  # has ended
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def watch(minutes: float, samples: Path) -> tuple[list[tuple[float, float]], int]:
    """Memory over time, also written to a file as it is sampled, and the comparisons made."""
    with samples.open("w", newline="") as file, TemporaryDirectory() as folder:
        rows, done = csv.writer(file), Path(folder) / "done"
        rows.writerow(["seconds", "mebibytes"])
        with done.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, __file__, "--comparisons"],
                env={**os.environ, "TMPDIR": folder},
                stdout=output,
                stderr=subprocess.DEVNULL,
            )
        began, memories = perf_counter(), []
        try:
            while (now := perf_counter() - began) < 60 * minutes:
                sleep(PERIOD - now % PERIOD)
                if process.poll() is not None:
                    raise RuntimeError(f"the comparisons ended with {process.returncode}")
                memories.append((perf_counter() - began, memory(process.pid)))
                rows.writerow([f"{number:.1f}" for number in memories[-1]])
                file.flush()
        finally:
            for child in reversed(list(tree(process.pid))):
                os.kill(child, signal.SIGKILL)
            process.wait()
        return memories, len(done.read_text().splitlines())


def verdict(samples: Samples) -> dict[str, float]:
    """Memory after the first minute against that at one minute, in MiB, and its slope."""
    later = [(seconds, size) for seconds, size in samples if seconds >= WARM]
    slope, _ = linear_regression(
        [seconds / 60 for seconds, _ in later], [size for _, size in later]
    )
    third = len(later) // 3 or 1
    return {
        "at_one_minute": later[0][1],
        "most_afterwards": max(size for _, size in later),
        "median_of_first_third": median(size for _, size in later[:third]),
        "median_of_last_third": median(size for _, size in later[-third:]),
        "slope_per_minute": slope,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("minutes", nargs="?", type=float, default=30.0)
    parser.add_argument("--samples", type=Path, default=Path("soak.csv"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--comparisons", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.comparisons:
        compare_forever()
    samples, comparisons = watch(given.minutes, given.samples)
    document = verdict(samples)
    print(f"{comparisons} comparisons in {given.minutes:g} minutes, {len(samples)} samples")
    print(
        f"at one minute {document['at_one_minute']:.0f} MiB, "
        f"at most {document['most_afterwards']:.0f}"
    )
    first, last = document["median_of_first_third"], document["median_of_last_third"]
    print(f"median of the first third {first:.0f} MiB, of the last third {last:.0f} MiB")
    print(f"slope {document['slope_per_minute']:+.2f} MiB per minute")
    if given.out:
        facts = {"minutes": given.minutes, "comparisons": comparisons, "mebibytes": document}
        write(given.out, {**heading("soak.py"), **facts})


if __name__ == "__main__":
    main()
