"""Work for whichever release of favano is imported, by its public names; prints a line of JSON.

python benchmarks/work.py import
python benchmarks/work.py plan fedbuff clients=1000 availability=two-state:600:200
python benchmarks/work.py train resnet20 favano,fedavg seeds=3 device=cuda horizon=500
"""

from __future__ import annotations

import argparse
import ast
import json
from dataclasses import dataclass, field
from time import perf_counter, process_time
from typing import Any

Keys = dict[str, Any]


@dataclass
class Stopwatch:
    """A display of progress that notes when how many local steps were made."""

    created: float = field(default_factory=perf_counter)
    times: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)

    def begin(self, steps: int) -> None: ...

    def advance(self, label: str, steps: int, time: float) -> None:
        self.times.append(perf_counter())
        self.steps.append(steps + (self.steps[-1] if self.steps else 0))

    def end(self) -> None: ...

    @property
    def start_up(self) -> float:
        """Seconds before the first update."""
        return self.times[0] - self.created

    @property
    def running(self) -> float:
        """Seconds from the first update to the last."""
        return self.times[-1] - self.times[0]

    @property
    def steady_rate(self) -> float:
        """Local steps per second in the middle half of the steps."""
        quarter, rest = (self._reached(share * self.steps[-1]) for share in (0.25, 0.75))
        return (self.steps[rest] - self.steps[quarter]) / (self.times[rest] - self.times[quarter])

    def _reached(self, steps: float) -> int:
        return next(place for place, made in enumerate(self.steps) if made >= steps)


def importing() -> Keys:
    """The package alone."""
    began = perf_counter()
    import favano  # noqa: F401

    return {"seconds": perf_counter() - began}


def plan(method: str, keys: Keys) -> Keys:
    """A plan on the digits, and how long each of its jobs took."""
    import favano

    favano.plan(method, "digits", clients=10, selected=2, horizon=100.0)  # loads what is needed
    began, cpu_began = perf_counter(), process_time()
    schedule = favano.plan(method, "digits", **keys).schedule
    seconds, cpu = perf_counter() - began, process_time() - cpu_began
    jobs = schedule.jobs
    return {
        "seconds": seconds,
        "cpu_seconds": cpu,
        "jobs": jobs,
        "cpu_us_per_job": 1e6 * cpu / jobs,
    }


def train(network: str, methods: list[str], keys: Keys) -> Keys:
    """Runs that share the lanes, on random images; evaluated in the beginning and the end."""
    from networks import NETWORKS, random_images

    import favano

    inputs, make = NETWORKS[network]
    train, test = random_images(inputs, keys.pop("samples", 60_000)), random_images(inputs, 100)
    problem = favano.Problem(
        make, train, test, split="iid", batch_size=keys.pop("batch_size", None)
    )
    watch = Stopwatch()
    keys = {"evaluate_every": keys.get("horizon", 5000.0), "non_finite": "skip", **keys}
    if len(methods) == 1:
        favano.simulate(methods[0], problem, progress=watch, **keys)
    else:
        favano.compare(methods, problem, progress=watch, **keys)
    return {
        "start_up": watch.start_up,
        "running": watch.running,
        "steps": watch.steps[-1],
        "steps_per_second": watch.steady_rate,
    }


def value(text: str) -> object:
    """A number or list as in Python; anything else is a word."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["import", "plan", "train"])
    parser.add_argument("words", nargs="*", help="network, methods, KEY=VALUE")
    asked = parser.parse_args()
    names = [word for word in asked.words if "=" not in word]
    pairs = (word.split("=", 1) for word in asked.words if "=" in word)
    keys: Keys = {key: value(text) for key, text in pairs}
    if asked.what == "import":
        document = importing()
    elif asked.what == "plan":
        document = plan(names[0], keys)
    else:
        document = train(names[0], names[1].split(","), keys)
    print(json.dumps(document), flush=True)


if __name__ == "__main__":
    main()
