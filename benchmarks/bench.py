"""`favano bench` for the paper's three networks, one after the other.

python benchmarks/bench.py [mnist cifar10 tiny-imagenet] [--seconds 60] [--repeats 3]
                           [--device cpu] [--out FILE.json]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from time import perf_counter

import torch
from measurement import Document, call, heading, last_document, write


def product_flops(size: int = 2048, repeats: int = 5) -> float:
    """Floating-point operations per second in a large product on all cores."""
    factor = torch.randn(size, size)
    taken = []
    for _ in range(repeats):
        began = perf_counter()
        factor @ factor
        taken.append(perf_counter() - began)
    return 2 * size**3 / min(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("datasets", nargs="*", default=["mnist", "cifar10", "tiny-imagenet"])
    parser.add_argument("--seconds", default="60")
    parser.add_argument("--repeats", default="3")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, help="write the results as JSON")
    asked = parser.parse_args()
    effort = ["--seconds", asked.seconds, "--repeats", asked.repeats, "--device", asked.device]
    gpu, documents = asked.device != "cpu", list[Document]()
    document = heading("bench.py", gpu=gpu) | {"benches": documents}
    if not gpu:
        document["flops"] = product_flops()
    for dataset in asked.datasets:
        words = ["bench", "--dataset", dataset, *effort]
        output = call([sys.executable, "-m", "favano", *words, "--json"])
        documents.append({"command": " ".join(["favano", *words]), **last_document(output)})
        print(f"{dataset}: lanes / plain loop {documents[-1]['ratio']}", flush=True)
        if asked.out:
            write(asked.out, document)


if __name__ == "__main__":
    main()
