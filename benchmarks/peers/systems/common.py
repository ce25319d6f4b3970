"""The work every system does, its data and its clock. Needs NumPy only."""

from __future__ import annotations

import argparse
import json
import time
from functools import lru_cache
from importlib.metadata import version

import numpy as np

CLIENTS, SELECTED, LOCAL_STEPS, BATCH, RATE = 100, 20, 20, 128, 0.5
INPUTS, HIDDEN, CLASSES = 784, 32, 10
SAMPLES = 600  # per client; together 60,000, the size of MNIST
STEPS_PER_ROUND = SELECTED * LOCAL_STEPS
WARM_ROUNDS, WARM_SECONDS = 5, 2.0


@lru_cache(maxsize=1)
def samples() -> tuple[np.ndarray, np.ndarray]:
    """Images (100, 600, 784), uniform in [0, 1), and labels 0..9 (100, 600) by client."""
    generator = np.random.default_rng(0)
    images = generator.random((CLIENTS, SAMPLES, INPUTS), dtype=np.float32)
    return images, generator.integers(0, CLASSES, (CLIENTS, SAMPLES))


def one_epoch(client: np.ndarray) -> np.ndarray:
    """A client's samples, repeated to exactly 20 batches of 128: an epoch is then 20 steps."""
    return np.concatenate([client] * 5)[: LOCAL_STEPS * BATCH]


class Meter:
    """Times rounds until `seconds` have passed; what comes before is warm-up."""

    def __init__(self, system: str, seconds: float) -> None:
        self.system, self.seconds = system, seconds
        self.born = time.perf_counter()
        self.seen = self.timed = 0
        self.begun: float | None = None
        self.elapsed = 0.0

    def over(self, rounds: int = 1) -> bool:
        """So many more rounds are done: is it time to stop?"""
        now = time.perf_counter()
        if self.begun is None:
            self.seen += rounds
            if self.seen >= WARM_ROUNDS and now - self.born >= WARM_SECONDS:
                self.begun = now
            return False
        self.timed, self.elapsed = self.timed + rounds, now - self.begun
        return self.elapsed >= self.seconds

    def report(self, *packages: str) -> None:
        """Print the one line of JSON that `run.py` reads, with the versions of `packages`."""
        steps = self.timed * STEPS_PER_ROUND
        line = {
            "system": self.system,
            "steps_per_second": steps / self.elapsed,
            "steps": steps,
            "seconds": self.elapsed,
            "version": ", ".join(f"{package} {version(package)}" for package in packages),
        }
        print(json.dumps(line), flush=True)


def print_rate(
    system: str, asked: argparse.Namespace, steps_per_second: float, *packages: str
) -> None:
    """Print the one line of JSON that `gpu.py` reads."""
    line = {
        "system": system,
        "network": asked.network,
        "runs": asked.runs,
        "images_per_second": steps_per_second * BATCH,
        "version": ", ".join(f"{package} {version(package)}" for package in packages),
    }
    print(json.dumps(line), flush=True)


class GpuMeter(Meter):
    """The same clock for rounds of several runs at once."""

    def __init__(self, system: str, asked: argparse.Namespace) -> None:
        super().__init__(system, asked.seconds)
        self.asked = asked

    def report(self, *packages: str) -> None:
        rate = self.timed * STEPS_PER_ROUND / self.elapsed
        print_rate(self.system, self.asked, rate, *packages)


def gpu_arguments() -> argparse.Namespace:
    """Network, number of runs at once, seconds to measure, and the device of favano's runs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("network")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--device", default="cuda")
    return parser.parse_args()


def seconds_argument() -> float:
    """The value of --seconds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20.0)
    return parser.parse_args().seconds
