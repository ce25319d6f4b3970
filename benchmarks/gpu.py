"""The numbers of one GPU: whole commands, and runs with start-up and steady state apart.

    python benchmarks/gpu.py [--only table-2,resnet20-bf16] [--horizon resnet20-bf16=1000]
                             [--limit 570] [--out gpu.json] [--device cuda] [--quick]

Every line is measured in processes of its own and written to the file as soon as it is known. A
line that fails, or that the time limit leaves no room for, is noted with the reason; the others go
on. Lines that are in the file already stay unless they are measured again, so that a few calls
make one file. Data sets are read from `$FAVANO_DATA`; those that are not there are replaced by
random images of the same shape. Start-up is that of this machine as it is: kernels that an earlier
line has compiled are on disk; the line `second-start` starts without any.

`--quick` makes tiny runs on tiny data, to try the script itself; with `--device cpu` it needs no
GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from time import perf_counter, time
from typing import cast

from lab import HERE, TINY, Lab, flags_of, words_of
from measurement import Document, Missing, call, heading, last_document, write

from favano import __version__
from favano.methods.registry import our_methods

FOUR = "favano,fedavg,fedbuff,quafl"
PAPER = 5000.0  # horizon of Table 2
TINY_HORIZON = 30.0
SAMPLE = 5.0  # seconds, of other networks


def table_2(lab: Lab, horizon: float) -> Document:
    return lab.timed("mnist", lab.keys(horizon), ["--table-2", "1" if lab.quick else "10"])


def table_2_command(lab: Lab, horizon: float) -> Document:
    changes = words_of(lab.keys(None if horizon == PAPER else horizon))
    few = ["--seeds", "1"] if lab.quick else []
    given = [word for change in changes for word in ("--with", change)]
    return lab.whole("mnist", ["reproduce", "table-2", *few, *given])


def methods(lab: Lab, horizon: float) -> Document:
    names = list(our_methods())
    keys = lab.keys(horizon, dataset="mnist", seeds="1" if lab.quick else "3")
    words = ["compare", "--algorithms", ",".join(names), *flags_of(keys)]
    return {"methods": names, **lab.whole("mnist", words)}


def favano_run(dataset: str, lab: Lab, horizon: float) -> Document:
    return lab.whole(dataset, ["run", *flags_of(lab.keys(horizon, dataset=dataset))])


def four_runs(
    dataset: str,
    model: str,
    precision: str,
    lab: Lab,
    horizon: float,
    variables: Mapping[str, str] | None = None,
) -> Document:
    keys = lab.keys(horizon, dataset=dataset, model=model, precision=precision)
    return lab.timed(dataset, keys, ["--algorithms", FOUR], variables)


def group_norm(lab: Lab, horizon: float) -> Document:
    batch, group = (
        four_runs("cifar10", model, "tf32", lab, horizon)
        for model in ("resnet20", "resnet20-groupnorm")
    )
    taken, usual = cast(float, group["running"]), cast(float, batch["running"])
    times = {"group_seconds": taken, "batch_seconds": usual, "ratio": taken / usual}
    return {**times, "group": group, "batch": batch}


def second_start(lab: Lab, horizon: float) -> Document:
    """The first start compiles all kernels, the second finds them on disk."""
    kernels = {"TRITON_CACHE_DIR": tempfile.mkdtemp(dir=lab.folder)}
    first, second = (
        four_runs("cifar10", "resnet20", "bf16", lab, horizon, kernels)["until_first_update"]
        for _ in range(2)
    )
    ratio = cast(float, second) / cast(float, first)
    return {"first_start": first, "second_start": second, "ratio": ratio}


def network(name: str, lab: Lab, horizon: float, **own: str) -> Document:
    """Any other network, in lanes and in the plain loop."""
    keys = {"device": lab.device, **own, **(TINY | {"seeds": "1"} if lab.quick else {})}
    words = [name, *words_of(keys), "--seconds", f"{0.1 if lab.quick else SAMPLE:g}"]
    document = last_document(
        call([sys.executable, str(HERE / "other_networks.py"), *words], lab.left)
    )
    loop, *_, lanes = cast("list[dict[str, dict[str, float]]]", document["systems"])
    return {
        "command": " ".join(["python", "benchmarks/other_networks.py", *words]),
        "images_per_second": lanes["images_per_second"]["median"],
        "loop_images_per_second": loop["images_per_second"]["median"],
        "start_up": lanes["start_up"]["first"],
        "ratio": cast("dict[str, float]", document["ratio"])["median"],
    }


@dataclass(frozen=True)
class Line:
    """One line of the table, and about how long it takes on an H200."""

    what: str
    measure: Callable[[Lab, float], Document]
    start: float  # seconds before training
    pace: float = 0.0  # seconds per unit of the horizon
    horizon: float = 0.0  # 0: chosen by the time it takes

    def estimate(self, horizon: float) -> float:
        return self.start + self.pace * horizon


MNIST, CIFAR = partial(favano_run, "mnist"), partial(favano_run, "cifar10")
RESNET20 = partial(four_runs, "cifar10", "resnet20")
RESNET18 = partial(four_runs, "tiny-imagenet", "resnet18")
LINES = {
    "table-2": Line("`favano reproduce table-2`, 120 runs", table_2, 25, 0.004, PAPER),
    "table-2-command": Line("the same, whole command", table_2_command, 25, 0.004, PAPER),
    "methods": Line("every method on MNIST, 3 seeds, whole command", methods, 15, 0.015, 2000),
    "favano-mnist": Line("FAVANO on MNIST, whole command", MNIST, 15, 0.001, 5000),
    "resnet20-bf16": Line("ResNet-20, 4 methods, bf16", partial(RESNET20, "bf16"), 40, 0.021, 2500),
    "resnet20-tf32": Line("ResNet-20, 4 methods, TF32", partial(RESNET20, "tf32"), 40, 0.039, 2500),
    "favano-cifar10": Line("FAVANO on CIFAR-10, TF32, whole command", CIFAR, 30, 0.024, 5000),
    "groupnorm": Line("ResNet-20, GroupNorm / BatchNorm, TF32", group_norm, 100, 0.29, 250),
    "resnet18-bf16": Line(
        "ResNet-18, 64 x 64, 4 methods, bf16", partial(RESNET18, "bf16"), 60, 0.045, 600
    ),
    "second-start": Line("ResNet-20, second start / first start", second_start, 90, 0.1, 30),
    "lstm": Line("LSTM over 28 rows", partial(network, "lstm"), 60),
    "transformer": Line("transformer, 2 layers", partial(network, "transformer"), 60),
    "convnet": Line("ConvNet, 5 x 5", partial(network, "convnet"), 60),
    "convnet-50": Line(
        "the same in batches of 50, one run of FedAvg: 20 jobs at a time",
        partial(network, "convnet", algorithm="fedavg", batch_size="50", seeds="1"),
        60,
    ),
}
SHOWN = {
    "seconds": "{:.1f} s in all",
    "running": "{:.1f} s from the first update to the last",
    "images_per_second": "{:,.0f} images/s",
    "steady_images_per_second": "{:,.0f} in the middle",
    "loop_images_per_second": "plain loop {:,.0f}",
    "start_up": "{:.1f} s of start-up",
    "capturing": "{:.1f} s of capture",
    "first_start": "first {:.1f} s",
    "second_start": "second {:.1f} s",
    "group_seconds": "GroupNorm {:.1f} s",
    "batch_seconds": "BatchNorm {:.1f} s",
    "ratio": "ratio {:.2f}",
    "missing": "missing: {}",
}


def shown(line: Mapping[str, object]) -> str:
    """A line in words."""
    return ", ".join(form.format(line[key]) for key, form in SHOWN.items() if key in line)


def measure(lab: Lab, line: Line, horizon: float) -> Document:
    """A line with its conditions, or with the reason why it is missing."""
    estimate = 0.0 if lab.quick else line.estimate(horizon)
    began = perf_counter()
    lab.sources.clear()
    try:
        if estimate > lab.left:
            raise Missing(f"not started: about {estimate:.0f} s, {lab.left:.0f} s left")
        measured = line.measure(lab, horizon)
    except Exception as reason:  # of whatever kind: the other lines go on
        measured = {"missing": str(reason) or type(reason).__name__}
    return {
        "what": line.what,
        "date": date.today().isoformat(),
        "release": __version__,
        "horizon": horizon,
        "data": dict(lab.sources),
        "taken": perf_counter() - began,
        **measured,
    }


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", help=f"comma-separated, of {', '.join(LINES)}")
    parser.add_argument("--horizon", action="append", default=[], metavar="LINE=VALUE")
    parser.add_argument("--limit", type=float, default=570.0, help="seconds for all lines")
    parser.add_argument("--out", type=Path, default=Path("gpu.json"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true", help="tiny runs, to try the script")
    asked = parser.parse_args(words)
    asked.lines = asked.only.split(",") if asked.only else list(LINES)
    given = dict(pair.split("=", 1) for pair in asked.horizon)
    if unknown := (set(asked.lines) | set(given)) - set(LINES):
        parser.error(f"no line {','.join(sorted(unknown))}: need some of {', '.join(LINES)}")
    usual = {name: TINY_HORIZON if asked.quick else line.horizon for name, line in LINES.items()}
    asked.horizons = usual | {name: float(value) for name, value in given.items()}
    return asked


def main(words: list[str] | None = None) -> None:
    asked = arguments(words)
    total = sum(LINES[name].estimate(asked.horizons[name]) for name in asked.lines)
    print(f"{len(asked.lines)} lines, about {total:.0f} s on an H200, limit {asked.limit:.0f} s")
    lines = json.loads(asked.out.read_text())["lines"] if asked.out.exists() else {}
    document = heading("gpu.py", gpu=asked.device != "cpu") | {"lines": lines}
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(asked.device, asked.quick, time() + asked.limit, Path(folder))
        for name in asked.lines:
            lines[name] = result = measure(lab, LINES[name], asked.horizons[name])
            write(asked.out, document)
            print(f"{name:16} {shown(result)} [{result['taken']:.0f} s]", flush=True)


if __name__ == "__main__":
    main()
