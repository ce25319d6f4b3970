"""The tables of `docs/performance.md`, from what the benchmarks wrote to `benchmarks/results/`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import ceil
from pathlib import Path

from limits import BATCH, NETWORKS, Limit, Precision, limit, step_bytes
from speed_records import (
    Benches,
    Busy,
    Gpu,
    Heading,
    Host,
    Kept,
    KernelSets,
    Launches,
    Line,
    Peers,
    Scaling,
    Spread,
)

from favano.report.reproduction import read_ledger
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


def page_sheet(headings: Sequence[str], rows: Sequence[Sequence[str]], found: Heading) -> str:
    """A table, and under it when, where and how it was measured."""
    machine = found["machine"]
    cores = f", {machine['cores']} cores" if "cores" in machine else ""
    where = machine.get("gpu") or f"{machine['cpu']}{cores}"
    how = f"`{found['command']}`" if "command" in found else found["source"]
    about = f"Release {found['release']}, {found['date']}, {where}: {how}."
    return markdown(Sheet("", headings, rows, about))


def shown(found: Spread | None, form: str = ",.0f") -> str:
    """Median and range."""
    if found is None:
        return ""
    if "min" not in found:
        return format(found["median"], form)
    return f"{found['median']:{form}} ({found['min']:{form}}..{found['max']:{form}})"


def rounded(value: float) -> str:
    """Three digits that count.

    >>> rounded(2_509_888.1)
    '2,510,000'
    """
    return f"{float(f'{value:.3g}'):,.0f}"


def peers(name: str = "peers") -> str:
    """Other systems, and favano's speed over theirs."""
    found: Peers = json.loads(text(name))
    rows = [
        [one["label"], f"missing: {one['missing']}", "", ""]
        if "missing" in one
        else [one["label"], shown(one["steps_per_second"]), shown(one["ratio"], ".2f"),
              one["version"]]
        for one in found["systems"].values()
    ]  # fmt: skip
    table = page_sheet(["system", "steps/s", "favano / peer", "version"], rows, found)
    how = f"{found['repeats']} interleaved runs of {found['seconds']:g} s after the warm-up"
    return f"{table} Median (min..max) of {how}, each in a fresh process; ratios within a repeat."


def kernel_sets(name: str = "kernel_sets") -> str:
    """Milliseconds of a step with each set of kernels."""
    found: KernelSets = json.loads(text(name))
    ways = list(dict.fromkeys(way for one in found["networks"] for way in one["milliseconds"]))
    rows = [
        [one["model"], *(shown(one["milliseconds"].get(way), ".4g") for way in ways), one["chosen"]]
        for one in found["networks"]
    ]
    return page_sheet(["ms per step", *ways, "chosen"], rows, found)


def lanes() -> str:
    """Lanes and plain loops, and how busy the lanes are."""
    found: Benches = json.loads(text("bench"))
    names = [system["name"] for system in found["benches"][0]["systems"]]
    rows = []
    for one in found["benches"]:
        *_, last = one["systems"]
        reached = ""
        if "flops" in found:
            flops = NETWORKS[one["spec"]["model"]].flops * last["images_per_second"]["median"]
            reached = f"{flops / found['flops']:.0%} of {found['flops'] / 1e9:.0f} GFLOP/s"
        rows.append(
            [
                f"`{one['command']}`",
                *(shown(system["images_per_second"]) for system in one["systems"]),
                shown(one["ratio"], ".2f"),
                shown(last["shares"].get("lane_occupancy"), ".0%"),
                reached,
            ]
        )
    headings = ["images/s", *names, "lanes / faster loop", "lanes busy", "limit: products"]
    return page_sheet(headings, rows, found)


def gpu() -> str:
    """Every line: what was measured, what the hardware allows, and how much of it is reached."""
    found: Gpu = json.loads(text("gpu"))
    rows = [
        [one["what"], measured(one), started(one), *allowed(one, limit_of(name)),
         origin(one)]
        for name, one in found["lines"].items()
    ]  # fmt: skip
    headings = ["", "measured", "before it", "allowed by", "reached", "measured with"]
    return page_sheet(headings, rows, found)


def origin(one: Line) -> str:
    """Release and date of a line, and where it comes from unless `gpu.py` made it."""
    parts = [one.get("release", ""), one.get("date", ""), one.get("source", "")]
    return ", ".join(filter(None, parts))


def limit_of(line: str) -> Limit | None:
    """What the hardware allows a line, if it trains a network that we have counted."""
    if line not in TRAINED:
        return None
    network, precision = TRAINED[line]
    return limit(NETWORKS[network], precision)


def measured(one: Line) -> str:
    """What a line of the GPU's table measured."""
    if "missing" in one:
        return f"missing: {one['missing']}"
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
    values: Mapping[str, object] = {**one}
    return ", ".join(form.format(values[key]) for key, form in forms.items() if key in values)


def started(one: Line) -> str:
    """What passed before the first update, and the captured graphs."""
    start = f"{one['start_up']:.1f} s" if "start_up" in one else ""
    return f"{start}, {one['graphs']} graphs {one['capturing']:.1f} s" if "graphs" in one else start


def allowed(one: Line, most: Limit | None) -> list[str]:
    """The limit, and the share of it that is reached."""
    if most is None or "missing" in one:
        return ["", ""]
    if "images_per_second" in one:
        share = one["images_per_second"] / most.images
        return [f"{most.by}: {rounded(most.images)} images/s", f"{share:.0%}"]
    if "steps_per_second" in one:
        share = BATCH * one["steps_per_second"] / most.images
        return [f"{most.by}: {rounded(most.images / BATCH)} steps/s", f"{share:.0%}"]
    if "steps" not in one:
        return ["", ""]
    seconds = BATCH * one["steps"] / most.images
    return [f"{most.by}: {seconds:.1f} s", f"{seconds / one['seconds']:.0%}"]


def launches() -> str:
    """A step of many lanes, and the kernels that take longest."""
    found: Launches = json.loads(text("launches"))
    rows = [
        [
            f"{one['network']}, {one['precision']}",
            str(one["lanes"]),
            f"{one['milliseconds']:.2f}",
            rounded(one["samples_per_second"]),
            ", ".join(f"{name} {taken:.2g}" for name, taken in one["kernels"].items()),
        ]
        for one in found["lines"].values()
    ]
    return page_sheet(["", "lanes", "ms", "samples/s", "kernels, ms"], rows, found)


def busy() -> str:
    """How long kernels run while many runs are made."""
    found: Busy = json.loads(text("busy"))
    share = found["gpu_seconds"] / found["running"]
    rows = [[
        f"{found['runs']}", f"{found['steps']:,}", f"{found['running']:.2f} s",
        f"{found['gpu_seconds']:.2f} s", f"{share:.0%}",
    ]]  # fmt: skip
    return page_sheet(["runs", "local steps", "all", "kernels", "share"], rows, found)


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
        moved = (f"{step_bytes(network, one) / BATCH / 1e6:.3g}" for one in BOTH)
        most = [limit(network, one) for one in BOTH]
        speeds = (f"{rounded(one.images)} ({one.by})" for one in most)
        rows.append([name, f"{network.flops / 1e6:,.1f}", *moved, *speeds])
    headings = ["per image", "MFLOP", "MB, TF32", "MB, bf16", "images/s, TF32", "images/s, bf16"]
    return markdown(Sheet("", headings, rows))


def host() -> str:
    """The host's part of Table 2."""
    found: Host = json.loads(text("host"))
    taken = shown(found["cpu_seconds"], ".1f")
    rows = [[f"{found['steps']:,}", taken, f"{found['calls_per_round']:.0f}"]]
    return page_sheet(["local steps", "s of CPU time", "calls of PyTorch per round"], rows, found)


def scaling() -> str:
    """Cost against the number of clients, the horizon and the number of server steps."""
    found: Scaling = json.loads(text("scaling"))
    clients = [
        [f"{one['clients']:,}", shown(one["step_us"]), shown(one["planning_us"]),
         f"{one['peak_mib']:,.0f}"]
        for one in found["clients"]
    ]  # fmt: skip
    horizons = [
        [f"{one['steps']:,}", shown({"median": one["ms"]["median"] / 1e3}, ".1f")]
        for one in found["horizons"]
    ]
    kept = [
        [f"{one.get(key, ''):,.0f}" if key in one else "" for key in Kept.__annotations__]
        for one in found["versions_kept"]
    ]
    first = ["n", "us per local step", "us of planning per local step", "peak MiB"]
    last = ["server steps", "versions kept", "their MiB", "peak MiB"]
    return "\n\n".join(
        [
            markdown(Sheet("", first, clients)),
            "Longer runs, n = 1,000:",
            markdown(Sheet("", ["local steps", "s"], horizons)),
            "Many server steps, n = 100,000, s = 100, nothing trained:",
            page_sheet(last, kept, found),
        ]
    )


TABLES: Mapping[str, Callable[[], str]] = {
    "peers": peers,
    "peers-intel": partial(peers, "peers_intel"),
    "peers-arm": partial(peers, "peers_arm"),
    "kernel-sets": kernel_sets,
    "kernel-sets-arm": partial(kernel_sets, "kernel_sets_arm"),
    "lanes": lanes,
    "gpu": gpu,
    "launches": launches,
    "busy": busy,
    "whole-figures": whole_figures,
    "hardware": hardware,
    "host": host,
    "scaling": scaling,
}
