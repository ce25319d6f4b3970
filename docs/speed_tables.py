"""The tables of `docs/reference/performance.md`, from `benchmarks/results/`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import ceil
from pathlib import Path

from limits import BATCH, NETWORKS, Limit, Precision, limit, step_bytes
from speed_records import (
    Gpu,
    Heading,
    Kept,
    Line,
    PeerOnGpu,
    Peers,
    PeersGpu,
    Scaling,
    Spread,
)

from favano.records import read_ledger
from favano.report.sheet import Sheet, markdown

ROOT = Path(__file__).parent.parent
RESULTS, LEDGERS = ROOT / "benchmarks" / "results", ROOT / "results"
BOTH: tuple[Precision, ...] = ("tf32", "bf16")
TRAINED: Mapping[str, tuple[str, Precision]] = {  # by lines of the GPU's table
    "table-2": ("perceptron", "tf32"),
    "table-2-command": ("perceptron", "tf32"),
    "methods": ("perceptron", "tf32"),
    "favano-mnist": ("perceptron", "tf32"),
    "resnet20-bf16": ("resnet20", "bf16"),
    "resnet20-tf32": ("resnet20", "tf32"),
    "favano-cifar10": ("resnet20", "tf32"),
    "resnet18-bf16": ("resnet18", "bf16"),
}
FIGURES = {  # in bf16: the network, and the samples of each client
    "figure-cifar10-precision-bf16": ("resnet20", 500),
    "figure-tinyimagenet-precision-bf16": ("resnet18", 1000),
}


def text(name: str) -> str:
    """A result file."""
    return (RESULTS / f"{name}.json").read_text(encoding="utf-8")


def page_sheet(headings: Sequence[str], rows: Sequence[Sequence[str]], heading: Heading) -> str:
    """A table, and under it when, where and how it was measured."""
    machine = heading["machine"]
    cores = f", {machine['cores']} cores" if "cores" in machine else ""
    where = machine.get("gpu") or f"{machine['cpu']}{cores}"
    how = f"`{heading['command']}`" if "command" in heading else heading["source"]
    about = f"Release {heading['release']}, {heading['date']}, {where}: {how}."
    return markdown(Sheet("", headings, rows, about))


def shown(numbers: Spread | None, form: str = ",.0f") -> str:
    """Median and range."""
    if numbers is None:
        return ""
    if "min" not in numbers or numbers["min"] == numbers["max"]:  # one sample
        return format(numbers["median"], form)
    return f"{numbers['median']:{form}} ({numbers['min']:{form}}..{numbers['max']:{form}})"


def rounded(value: float) -> str:
    """Three digits that count.

    >>> rounded(2_509_888.1)
    '2,510,000'
    """
    return f"{float(f'{value:.3g}'):,.0f}"


def peers(name: str = "peers") -> str:
    """Other systems, and favano's speed over theirs."""
    peers: Peers = json.loads(text(name))
    rows = [
        [system["label"], f"missing: {system['missing']}", "", ""]
        if "missing" in system
        else [system["label"], shown(system["steps_per_second"]), shown(system["ratio"], ".2f"),
              system["version"]]
        for system in peers["systems"].values()
    ]  # fmt: skip
    table = page_sheet(["system", "steps/s", "favano / peer", "version"], rows, peers)
    how = f"{peers['repeats']} interleaved runs of {peers['seconds']:g} s after the warm-up"
    return f"{table} Median (min..max) of {how}, each in a fresh process; ratios within a repeat."


def peers_gpu() -> str:
    """Programs in JAX on a GPU, and favano's speed over theirs."""
    peers: PeersGpu = json.loads(text("peers_gpu"))

    def cells(system: PeerOnGpu) -> list[str]:
        if "missing" in system:
            return [f"missing: {system['missing']}", ""]
        return [shown(system["images_per_second"]), shown(system["ratio"], ".2f")]

    rows = [
        [
            network["label"],
            str(network["runs"]),
            shown(network["systems"]["favano"].get("images_per_second")),
            *cells(network["systems"]["jax"]),
            *cells(network["systems"]["fedjax"]),
        ]
        for network in peers["networks"].values()
    ]
    headings = ["images/s", "runs", "favano", "JAX", "favano / JAX", "FedJAX", "favano / FedJAX"]
    how = f"{peers['repeats']} interleaved runs of {peers['seconds']:g} s"
    return (
        f"{page_sheet(headings, rows, peers)} Median (min..max) of {how}, each in a fresh process;"
        " FedJAX makes one run, the others as many at once as the second column says."
    )


def gpu() -> str:
    """Every line: what was measured, what the hardware allows, and how much of it is reached."""
    gpu: Gpu = json.loads(text("gpu"))
    rows = [
        [line["what"], measured(line), started(line), *allowed(line, limit_of(name)),
         origin(line)]
        for name, line in gpu["lines"].items()
    ]  # fmt: skip
    headings = ["", "measured", "before it", "allowed by", "reached", "measured with"]
    return page_sheet(headings, rows, gpu)


def origin(line: Line) -> str:
    """Release and date of a line, and where it comes from unless `gpu.py` made it."""
    parts = [line.get("release", ""), line.get("date", ""), line.get("source", "")]
    return ", ".join(filter(None, parts))


def limit_of(line: str) -> Limit | None:
    """What the hardware allows a line, if it trains a network that we have counted."""
    if line not in TRAINED:
        return None
    network, precision = TRAINED[line]
    return limit(NETWORKS[network], precision)


def measured(line: Line) -> str:
    """What a line of the GPU's table measured."""
    if "missing" in line:
        return f"missing: {line['missing']}"
    forms = {
        "seconds": "{:.1f} s",
        "running": "{:.1f} s",
        "steps_per_second": "{:,.0f} steps/s",
        "images_per_second": "{:,.0f} images/s",
        "loop_images_per_second": "plain loop {:,.0f}",
        "first_start": "first {:.1f} s",
        "second_start": "second {:.1f} s",
        "group_seconds": "GroupNorm {:.1f} s",
        "batch_seconds": "BatchNorm {:.1f} s",
        "ratio": "ratio {:.2f}",
    }
    values: Mapping[str, object] = {**line}
    return ", ".join(form.format(values[key]) for key, form in forms.items() if key in values)


def started(line: Line) -> str:
    """What passed before the first update, and the captured graphs."""
    start = f"{line['start_up']:.1f} s" if "start_up" in line else ""
    return (
        f"{start}, {line['graphs']} graphs {line['capturing']:.1f} s" if "graphs" in line else start
    )


def allowed(line: Line, most: Limit | None) -> list[str]:
    """The limit, and the share of it that is reached."""
    if most is None or "missing" in line:
        return ["", ""]
    if "images_per_second" in line:
        share = line["images_per_second"] / most.images
        return [f"{most.by}: {rounded(most.images)} images/s", f"{share:.0%}"]
    if "steps_per_second" in line:
        share = BATCH * line["steps_per_second"] / most.images
        return [f"{most.by}: {rounded(most.images / BATCH)} steps/s", f"{share:.0%}"]
    if "steps" not in line:
        return ["", ""]
    seconds = BATCH * line["steps"] / most.images
    return [f"{most.by}: {seconds:.1f} s", f"{seconds / line['seconds']:.0%}"]


def whole_figures() -> str:
    """Figures from start to end, with evaluations and everything before the first update."""
    rows = []
    for folder, (network, samples) in FIGURES.items():
        runs = read_ledger(LEDGERS / folder / "runs.csv")
        steps = sum(run.local_steps or 0 for run in runs)
        seconds = sum(run.machine_seconds or 0.0 for run in runs)
        speed = steps * samples / ceil(samples / BATCH) / seconds
        most = limit(NETWORKS[network], "bf16")
        rows.append([
            f"`{folder}`", f"{len(runs)}", f"{steps:,}", f"{seconds:,.0f}", rounded(speed),
            f"{most.by}: {rounded(most.images)}", f"{speed / most.images:.0%}",
        ])  # fmt: skip
    headings = ["", "runs", "local steps", "s", "images/s", "allowed by", "reached"]
    return markdown(Sheet("", headings, rows))


def hardware() -> str:
    """What an H200 allows each network."""
    rows = []
    for name, network in NETWORKS.items():
        moved = (f"{step_bytes(network, precision) / BATCH / 1e6:.3g}" for precision in BOTH)
        most = [limit(network, precision) for precision in BOTH]
        speeds = (f"{rounded(speed.images)} ({speed.by})" for speed in most)
        rows.append([name, f"{network.flops / 1e6:,.1f}", *moved, *speeds])
    headings = ["per image", "MFLOP", "MB, TF32", "MB, bf16", "images/s, TF32", "images/s, bf16"]
    return markdown(Sheet("", headings, rows))


def scaling() -> str:
    """Cost against the number of clients, the horizon and the number of server steps."""
    scaling: Scaling = json.loads(text("scaling"))
    clients = [
        [f"{row['clients']:,}", shown(row["step_us"]), shown(row["planning_us"]),
         f"{row['peak_mib']:,.0f}"]
        for row in scaling["clients"]
    ]  # fmt: skip
    horizons = [
        [f"{row['steps']:,}", shown({"median": row["ms"]["median"] / 1e3}, ".1f")]
        for row in scaling["horizons"]
    ]
    kept = [
        [f"{row.get(key, ''):,.0f}" if key in row else "" for key in Kept.__annotations__]
        for row in scaling["versions_kept"]
    ]
    first = ["n", "us per local step", "us of planning per local step", "peak MiB"]
    last = ["server steps", "versions kept", "their MiB", "peak MiB"]
    return "\n\n".join(
        [
            markdown(Sheet("", first, clients)),
            "Longer runs, n = 1,000:",
            markdown(Sheet("", ["local steps", "s"], horizons)),
            "Many server steps, n = 100,000, s = 100, nothing trained:",
            page_sheet(last, kept, scaling),
        ]
    )


TABLES: Mapping[str, Callable[[], str]] = {
    "peers": peers,
    "peers-intel": partial(peers, "peers_intel"),
    "peers-gpu": peers_gpu,
    "peers-arm": partial(peers, "peers_arm"),
    "gpu": gpu,
    "whole-figures": whole_figures,
    "hardware": hardware,
    "scaling": scaling,
}
