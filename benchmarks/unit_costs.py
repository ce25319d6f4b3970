"""What one contact, client, version, run and parameter cost on a CPU.

    python benchmarks/unit_costs.py [--out FILE.json]

Times are processor time of one thread, so that other programs disturb them little. Whatever is
measured by its peak memory has a process of its own; a cost is the difference between two sizes.
At last a plan for 1,000,000 clients is made, to compare it with what these costs predict.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

from measurement import Document, heading, spread, write
from scaling import MODEL_BYTES, sample

REPEATS = 5
SELECTED, PARAMETERS = 20, 4_000_000
MILLION = (1_000_000, 1000, 1000)  # clients, server steps, clients selected


@dataclass(frozen=True)
class Plan:
    """A plan made in a process of its own: its size, seconds, and peak MiB."""

    clients: int
    polls: int
    contacts: int
    seconds: float
    peak: float


def make_plan(clients: int, updates: int, selected: int) -> Plan:
    """Plan so many server steps of FAVANO."""
    from favano.methods import Context
    from favano.methods.clock import ServerClock
    from favano.methods.favano import Favano
    from favano.schedule import plan
    from favano.timing import two_speeds

    began = process_time()
    fleet = two_speeds(clients)
    method = Favano().bind(Context(fleet, 20, ServerClock(selected=selected)))
    policy = method.policy()
    planned = plan(policy, fleet, horizon=updates * policy.period, seed=0)
    return Plan(clients, updates, planned.jobs, process_time() - began, peak())


def make_runs(seeds: int) -> float:
    """Peak MiB of so many short runs that are made together."""
    import favano

    favano.simulate("favano", "digits", seeds=seeds, horizon=100.0)
    return peak()


def peak() -> float:
    """The most MiB that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def child(*words: object) -> Document:
    """What this program finds in a process of its own."""
    command = [sys.executable, __file__, "--child", *map(str, words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    document: Document = json.loads(done.stdout)
    return document


def planned(clients: int, updates: int, selected: int) -> Plan:
    """The same plan in a process of its own."""
    return Plan(**child("plan", clients, updates, selected))  # type: ignore[arg-type]


def planning() -> Document:
    """Costs of a plan: at the start, per client, per poll and client, and per contact."""
    first = planned(200_000, 500, 1000)
    wide, deep = planned(600_000, 500, 1000), planned(200_000, 500, 2000)
    often = planned(200_000, 1000, 500)  # as many contacts as the first
    polls = (often.seconds - first.seconds) / (500 * first.clients)
    clients, contacts = wide.clients - first.clients, deep.contacts - first.contacts
    client_bytes = 2**20 * (wide.peak - first.peak) / clients
    contact_bytes = 2**20 * (deep.peak - first.peak) / contacts
    held = first.clients * client_bytes + first.contacts * contact_bytes
    return {
        "us_per_client": 1e6 * ((wide.seconds - first.seconds) / clients - 500 * polls),
        "ns_per_poll_and_client": 1e9 * polls,
        "us_per_contact": 1e6 * (deep.seconds - first.seconds) / contacts,
        "bytes_per_client": client_bytes,
        "bytes_per_contact": contact_bytes,
        "start_mib": first.peak - held / 2**20,
    }


def version_bytes() -> float:
    """Bytes that a server version takes while clients refer to it, per parameter."""
    few, many = (sample(50_000, updates, 50, train=False) for updates in (200, 800))
    grown = 2**20 * (many.peak - few.peak) / (many.versions - few.versions)
    return grown / (MODEL_BYTES / 4)


def timed(work: Callable[[], object], count: float) -> dict[str, float]:
    """Nanoseconds of processor time for each of so many things."""
    samples = []
    work()
    for _ in range(REPEATS):
        began = process_time()
        work()
        samples.append(1e9 * (process_time() - began) / count)
    return spread(samples)


def per_parameter() -> Document:
    """An update, a digest and a checkpoint of a large model, in ns for each parameter."""
    import numpy as np
    import torch

    from favano.engine import model_digest
    from favano.methods import ClientUpdates, Context
    from favano.methods.clock import ServerClock
    from favano.methods.favano import Favano
    from favano.run.checkpoint_files import CheckpointFiles
    from favano.timing import two_speeds

    torch.set_num_threads(1)
    fleet, who = two_speeds(100), np.arange(SELECTED)
    method = Favano().bind(Context(fleet, 20, ServerClock(selected=SELECTED)))
    size = PARAMETERS // SELECTED
    start, end = torch.rand(SELECTED, size), torch.rand(SELECTED, size)
    updates = ClientUpdates(who, who + 1, who, who + 0.5, 0, start, end)
    state, model = method.init(torch.rand(size)), torch.rand(PARAMETERS)
    with TemporaryDirectory() as folder:
        files, saved = CheckpointFiles(Path(folder), 0), model.numpy()
        checkpoint = timed(lambda: files.write(0, {}, [saved]), PARAMETERS)
        (path,) = files.paths()
        size_on_disk = path.stat().st_size
    return {
        "update_ns": timed(lambda: method.aggregate(state, updates), PARAMETERS),
        "digest_ns": timed(lambda: model_digest(model), PARAMETERS),
        "checkpoint_ns": checkpoint,
        "checkpoint_bytes": size_on_disk / PARAMETERS,
    }


def main() -> None:
    """All costs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, help="write the costs as JSON")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        what, *numbers = options.child
        sizes = [int(number) for number in numbers]
        print(json.dumps(asdict(make_plan(*sizes)) if what == "plan" else make_runs(*sizes)))
        return
    few, many = (child("runs", seeds) for seeds in (10, 50))
    document: Document = {
        "planning": planning(),
        "version_bytes": version_bytes(),
        **per_parameter(),
        "run_mib": (many - few) / 40,  # type: ignore[operator]
        "million": asdict(planned(*MILLION)),
    }
    print(json.dumps(document, indent=1))
    if options.out:
        write(options.out, heading("unit_costs.py") | document)


if __name__ == "__main__":
    main()
