"""Measures favano against JAX programs on one GPU: five networks, each system in a fresh process.

    python benchmarks/peers/gpu.py [--repeats 3] [--seconds 5] [--only lstm,convnet]
                                   [--against FOLDER] --out FILE.json

Runs in one environment that has PyTorch and JAX for CUDA. FedJAX is taken from there, or from the
folder in `$FAVANO_FEDJAX`. Systems take turns within a repeat. `--against` adds an earlier release
of favano, a folder of unpacked packages.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, cast

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path += [str(HERE.parent), str(ROOT / "src")]

from measurement import Document, Missing, call, heading, last_document, spread, write  # noqa: E402

STARTUP = 120  # seconds a system may take beside the measured ones


@dataclass(frozen=True)
class Work:
    """A network, and how many runs at once favano and the plain JAX program make."""

    label: str
    runs: int


NETWORKS = {
    "perceptron": Work("perceptron 784-32-10", 120),
    "resnet20": Work("ResNet-20, TF32", 3),
    "convnet": Work("ConvNet, 1.66 million parameters, TF32", 10),
    "lstm": Work("LSTM over 28 rows, TF32", 10),
    "transformer": Work("transformer, two layers, TF32", 10),
}
SYSTEMS = {"favano": "favano_gpu.py", "jax": "jax_.py", "fedjax": "fedjax_gpu.py"}
BEFORE = "favano-before"


class Sample(TypedDict):
    """One run of a system."""

    system: str
    network: str
    runs: int
    repeat: int
    images_per_second: float
    version: str


def measure(network: str, system: str, seconds: float, repeat: int, sources: Path) -> Sample:
    """One run of a system in a fresh process."""
    runs = 1 if system == "fedjax" else NETWORKS[network].runs
    command: list[str | Path] = [
        sys.executable,
        HERE / "systems" / SYSTEMS.get(system, "favano_gpu.py"),
        network,
        "--runs",
        f"{runs}",
    ]
    paths = [
        str(sources),
        os.environ.get("PYTHONPATH", ""),
        os.environ.get("FAVANO_FEDJAX", ""),
    ]
    variables = {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
    output = call([*command, "--seconds", f"{seconds:g}"], STARTUP + 5 * seconds, variables)
    return cast(Sample, {**last_document(output), "system": system, "repeat": repeat})


def rates(samples: list[Sample], network: str, system: str) -> dict[int, float]:
    """Images per second by repeat."""
    return {
        sample["repeat"]: sample["images_per_second"]
        for sample in samples
        if (sample["network"], sample["system"]) == (network, system)
    }


def summary(samples: list[Sample], missing: dict[str, str], network: str) -> Document:
    """The speed of each system with a network, and favano's over it within a repeat."""
    ours, systems = rates(samples, network, "favano"), dict[str, Document]()
    measured = {sample["system"]: None for sample in samples}
    for system in {**SYSTEMS, **measured}:
        theirs = rates(samples, network, system)
        if not theirs:
            systems[system] = {"missing": missing.get(f"{network}/{system}", "not measured")}
            continue
        paired = [ours[repeat] / rate for repeat, rate in theirs.items() if repeat in ours]
        systems[system] = {
            "images_per_second": spread(list(theirs.values())),
            "ratio": spread(paired) if paired and system != "favano" else None,
        }
    return {"label": NETWORKS[network].label, "runs": NETWORKS[network].runs, "systems": systems}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="measured per run")
    parser.add_argument("--only", help=f"comma-separated, of {', '.join(NETWORKS)}")
    parser.add_argument("--against", type=Path, help="an earlier release: unpacked packages")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    asked.networks = asked.only.split(",") if asked.only else list(NETWORKS)
    if unknown := set(asked.networks) - set(NETWORKS):
        parser.error(f"--only {','.join(sorted(unknown))}: need some of {', '.join(NETWORKS)}")
    return asked


def main() -> None:
    """Measure in turn, and write the file after each system."""
    asked = arguments()
    samples, missing = list[Sample](), dict[str, str]()
    head = heading("peers/gpu.py", gpu=True)
    for repeat in range(asked.repeats):
        for network in asked.networks:
            for system in [*SYSTEMS, *([BEFORE] if asked.against else [])]:
                sources = asked.against if system == BEFORE else ROOT / "src"
                name = f"{network}/{system}"
                try:
                    samples.append(
                        sample := measure(network, system, asked.seconds, repeat, sources)
                    )
                    print(f"{name}: {sample['images_per_second']:,.0f} images/s", flush=True)
                except (Missing, OSError) as reason:
                    missing[name] = f"failed: {reason}"
                    print(f"{name}: {missing[name]}", file=sys.stderr, flush=True)
                lines = {name: summary(samples, missing, name) for name in asked.networks}
                how = {"repeats": asked.repeats, "seconds": asked.seconds}
                write(asked.out, head | how | {"networks": lines, "samples": samples})


if __name__ == "__main__":
    main()
