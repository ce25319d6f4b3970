"""What a local step costs on one core with each kind of kernels, for the paper's three networks.

    python benchmarks/kernel_sets.py [mnist cifar10 tiny-imagenet] [--repeats 5] [--out FILE.json]

Turn about; milliseconds of processor time for one client's step, median of the repeats. `batched`
are steps of four clients in one call of `torch.func.vmap`. What `favano run` chooses is printed
last, as measured anew.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time
from typing import cast, get_args

import torch
from measurement import Document, heading, shown, spread, write
from torch import Tensor
from torch.func import functional_call, grad, vmap

from favano.planning.fleet import make_fleet
from favano.run.samples import make_task, named_model
from favano.specification.presets import resolve
from favano.specification.spec import make_spec
from favano.studies.bench import bench_samples
from favano.training import (
    FlatModel,
    GradientTrace,
    Task,
    default_kernels,
    one_thread,
)
from favano.training.kernel_choice import candidates, fastest_kernels
from favano.training.kernel_sets import arranged, using
from favano.training.task import plain_gradient
from favano.types import Kernels

LANES = 4
LONG = 0.05  # seconds of a step that need no repetition


def ways(model: FlatModel, task: Task) -> dict[str, tuple[Callable[[], object], int]]:
    """A call, and how many clients' steps it makes."""
    features, labels = task.batch(0, 0, model.vector.dtype)
    steps_by_name: dict[str, tuple[Callable[[], object], int]] = {}
    for kernels in get_args(Kernels):
        given = arranged(features, kernels)
        steps_by_name[kernels] = partial(step, model, task, given, labels, kernels), 1
        gradient = GradientTrace(model, task.loss, kernels)
        with using(kernels):
            if gradient.prepare([(given, labels)]):
                steps_by_name[f"{kernels}, traced"] = partial(traced, gradient, given, labels), 1
    for kernels in ("onednn", "native"):
        steps_by_name[f"{kernels}, batched"] = batched(model, task, kernels), LANES
    return steps_by_name


def step(model: FlatModel, task: Task, features: Tensor, labels: Tensor, kernels: Kernels) -> None:
    with using(kernels):
        plain_gradient(model, task.loss, features, labels)


def traced(gradient: GradientTrace, features: Tensor, labels: Tensor) -> None:
    with using(gradient.kernels):
        gradient.fill(features, labels)


def batched(model: FlatModel, task: Task, kernels: Kernels) -> Callable[[], object]:
    batches = [task.batch(client, 0, model.vector.dtype) for client in range(LANES)]
    features, labels = (torch.stack(part) for part in zip(*batches, strict=True))
    weights = model.weights.expand(LANES, -1).clone()
    rest = model.vector[model.layout.parameters :].expand(LANES, -1).clone()

    def loss(weights: Tensor, rest: Tensor, features: Tensor, labels: Tensor) -> Tensor:
        named = model.named(weights, rest.clone())
        return task.loss(functional_call(model.module, named, (features,)), labels)

    gradients = vmap(grad(loss))

    def call() -> None:
        with using(kernels):
            gradients(weights, rest, features, labels)

    return call


def measure(dataset: str, repeats: int) -> Document:
    spec = resolve(make_spec({"dataset": dataset}))
    samples = bench_samples(spec)
    model = FlatModel(named_model(spec, samples)(), device="cpu")
    model.module.train()
    task = make_task(spec, 0, make_fleet(spec, 0), samples)
    with one_thread():
        calls = ways(model, task)
        taken: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(repeats + 1):
            for name, (call, steps) in calls.items():
                began, count = process_time(), 0
                while count == 0 or process_time() - began < LONG:
                    call()
                    count += steps
                taken[name].append((process_time() - began) / count)
        default = default_kernels()
        chosen = fastest_kernels(model, task, default, candidates(model, task, default))
    return {
        "dataset": dataset,
        "model": spec.problem.model,
        "batch": len(task.batch(0, 0, torch.float32)[1]),
        "milliseconds": {
            name: spread([1e3 * value for value in values]) for name, (_, *values) in taken.items()
        },
        "chosen": chosen,
    }


def show(document: Document) -> None:
    print(f"{document['model']} on {document['dataset']}, batch {document['batch']}")
    for name, values in cast("dict[str, dict[str, float]]", document["milliseconds"]).items():
        print(f"  {name:24} {shown(values, '.3f')} ms")
    print(f"  chosen: {document['chosen']}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("datasets", nargs="*", default=["mnist", "cifar10", "tiny-imagenet"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, help="write the results as JSON")
    given = parser.parse_args()
    networks = []
    for dataset in given.datasets:
        networks.append(document := measure(dataset, given.repeats))
        show(document)
    if given.out:
        write(given.out, heading("kernel_sets.py") | {"networks": networks})


if __name__ == "__main__":
    main()
