"""What a step of many lanes costs on a GPU, by network and precision, and in which kernels.

    python benchmarks/launches.py [resnet20 resnet18 lstm ...] [--precision bf16 tf32]
        [--lanes 64] [--seconds 0.5] [--kernels 8] [--out FILE.json]

Milliseconds of a step of all lanes in a captured graph, samples per second, the plain loop on the
same GPU, seconds until graphs are captured, and the kernels that take longest. Medians over
`--seconds`; data are synthetic. A file that is there keeps its other lines.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import torch
from measurement import Document, heading, write
from other_networks import Transformer as RowTransformer
from other_networks import convnet as wide_convnet
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from favano.data import BatchStream, Preprocessing
from favano.models import build
from favano.quantisation import Recipe, quantised
from favano.training import FlatModel, LocalRule, LoopTrainer, Task, product_precision
from favano.training.lane_stack import LaneStack
from favano.training.lanes import Job, Work

CLIENTS, SAMPLES, LETTERS, LENGTH = 100, 512, 90, 80
STEPS = 4  # of a job; batches of 128 are then all equally long


class Text(nn.Module):
    """Letters to one of 10 classes."""

    def __init__(self, width: int, body: nn.Module) -> None:
        super().__init__()
        self.letters, self.body, self.output = nn.Embedding(LETTERS, 32), body, nn.Linear(width, 10)

    def forward(self, text: Tensor) -> Tensor:
        """(B, length) to logits."""
        output = self.body(self.letters(text))
        hidden = output[0] if isinstance(output, tuple) else output
        logits: Tensor = self.output(hidden[:, -1])
        return logits


def lstm() -> nn.Module:
    return Text(128, nn.LSTM(32, 128, num_layers=2, batch_first=True))


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(32, 4, 128, dropout=0.0, batch_first=True)
    return Text(32, nn.TransformerEncoder(layer, 2, enable_nested_tensor=False))


class SelfAttention(nn.Module):
    """As transformers of images have it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.inputs = heads, nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, places: Tensor) -> Tensor:
        """(B, S, E) to the same shape."""
        heads = self.inputs(places).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(*heads.unbind())
        output: Tensor = self.output(attended.transpose(1, 2).flatten(2))
        return output


class VisionLayer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = SelfAttention(width, heads)
        self.wide = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, places: Tensor) -> Tensor:
        """(B, S, E) to the same shape."""
        places = places + self.attention(self.first(places))
        changed: Tensor = places + self.wide(self.second(places))
        return changed


class VisionTransformer(nn.Module):
    """ViT-tiny for images of 32 x 32: squares of 4 x 4, 12 layers, 5.4 million parameters."""

    def __init__(self, width: int = 192, heads: int = 3, layers: int = 12) -> None:
        super().__init__()
        self.squares = nn.Conv2d(3, width, 4, 4)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, 65, width) / 50)
        self.layers = nn.Sequential(*(VisionLayer(width, heads) for _ in range(layers)))
        self.norm, self.classes = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, images: Tensor) -> Tensor:
        """(B, 3, 32, 32) to logits."""
        squares = self.squares(images).flatten(2).mT
        places = torch.cat([self.first.expand(len(images), -1, -1), squares], 1) + self.places
        logits: Tensor = self.classes(self.norm(self.layers(places))[:, 0])
        return logits


def convnet() -> nn.Module:
    """The small network of many examples: two convolutions, two linear layers."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(4096, 256), nn.ReLU(), nn.Linear(256, 10),
    )  # fmt: skip


def vgg11() -> nn.Module:
    """VGG-11 with batch normalisation, as for CIFAR-10: one linear layer."""
    layers: list[nn.Module] = []
    inputs = 3
    for outputs, pooled in zip(
        (64, 128, 256, 256, 512, 512, 512, 512), (1, 1, 0, 1, 0, 1, 0, 1), strict=True
    ):
        norm = nn.BatchNorm2d(outputs)
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), norm, nn.ReLU()]
        layers += [nn.MaxPool2d(2)] * pooled
        inputs = outputs
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10))


def named(name: str, shape: tuple[int, ...], classes: int) -> Callable[[], nn.Module]:
    return lambda: build(name, input_shape=shape, classes=classes)


def few_bits() -> nn.Module:
    """As `quantise=luq` trains it."""
    return quantised(build("resnet20", input_shape=(3, 32, 32), classes=10), Recipe())


# The network, the shape of its images (none: text), and the batch.
NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int]] = {
    "resnet20": (named("resnet20", (3, 32, 32), 10), (3, 32, 32), 128),
    "resnet20-few-bits": (few_bits, (3, 32, 32), 128),
    "resnet20-groupnorm": (named("resnet20-groupnorm", (3, 32, 32), 10), (3, 32, 32), 128),
    "resnet18": (named("resnet18", (3, 64, 64), 200), (3, 64, 64), 128),
    "perceptron": (named("perceptron", (1, 28, 28), 10), (1, 28, 28), 128),
    "leaf-cnn": (named("leaf-cnn", (3, 28, 28), 62), (3, 28, 28), 20),
    "leaf-lstm": (named("leaf-lstm", (LENGTH,), LETTERS), (), 10),
    "convnet": (convnet, (3, 32, 32), 32),
    "wide-convnet": (wide_convnet, (1, 28, 28), 50),
    "vgg11": (vgg11, (3, 32, 32), 128),
    "lstm": (lstm, (), 32),
    "transformer": (transformer, (), 32),
    "row-transformer": (RowTransformer, (1, 28, 28), 128),
    "vit-tiny": (VisionTransformer, (3, 32, 32), 50),
}


def trainer(name: str) -> LoopTrainer:
    make, shape, batch = NETWORKS[name]
    torch.manual_seed(0)
    rows = CLIENTS * SAMPLES // 4  # clients share samples
    steps = None
    if shape:
        features = torch.randint(0, 256, (rows, *shape), dtype=torch.uint8)
        colour = shape[0] > 1  # digits are mostly zeros, and not augmented
        features *= torch.rand(features.shape) < (1.0 if colour else 0.2)
        steps = Preprocessing(scale=255.0, crop_padding=4 if colour else 0, flip=colour)
    else:
        features = torch.randint(0, LETTERS, (rows, LENGTH))
    parts = [np.random.default_rng(client).choice(rows, SAMPLES) for client in range(CLIENTS)]
    labels = torch.randint(0, 10, (rows,))
    data = BatchStream(parts, batch, 1)
    task = Task(features.cuda(), labels.cuda(), data, preprocessing=steps)
    return LoopTrainer(FlatModel(make(), device="cuda"), task, LocalRule())


def load(stack: LaneStack, trained: LoopTrainer) -> None:
    """Give every lane a job of `STEPS` steps, which are one call of `launch`."""
    lanes = np.arange(stack.capacity)
    zeros = np.zeros_like(lanes)
    work = Work(lanes % CLIENTS, zeros, zeros + STEPS, np.full(len(lanes), 0.01))
    stack.load(lanes, trained.model.vector.repeat(len(lanes), 1), zeros, work)
    torch.cuda.synchronize()


def seconds_of(
    call: Callable[[], object],
    least: float,
    before: Callable[[], None] = lambda: None,
    samples: int = 3,
) -> float:
    """Median seconds of a call that leaves the GPU idle; what is done `before` is not counted."""
    taken: list[float] = []
    while sum(taken) < least or len(taken) < samples:
        before()
        began = perf_counter()
        call()
        torch.cuda.synchronize()
        taken.append(perf_counter() - began)
    return median(taken)


def kernels_of(launch: Callable[[], object]) -> Counter[str]:
    """Milliseconds per step, by kernel."""
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        launch()
        torch.cuda.synchronize()
    total: Counter[str] = Counter()
    for event in profiler.key_averages():
        total[short_name(event.key)] += event.self_device_time_total / 1000 / STEPS
    return total


def short_name(kernel: str) -> str:
    """A name that a table has room for.

    >>> short_name("void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*)")
    'PyTorch: vectorized_gather'
    >>> short_name("sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x64x32_warpgroupsize1x1x1")
    'cuBLAS'
    >>> short_name("_turned_kernel")
    'turned'
    """
    if re.search("gemm|gemv|cublas", kernel):
        return "cuBLAS"
    if theirs := re.search(r"at::native::(?:\(anonymous namespace\)::)?(\w+)", kernel):
        return f"PyTorch: {theirs[1].strip('_').removesuffix('_kernel')}"
    return kernel.strip("_").removesuffix("_kernel")[:40]


def main() -> None:
    """Measure the given networks, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=list(NETWORKS))
    parser.add_argument("--precision", nargs="+", default=["bf16", "tf32"])
    parser.add_argument("--lanes", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--kernels", type=int, default=8, help="how many kernels are listed")
    parser.add_argument("--out", type=Path, help="write the result as JSON")
    given = parser.parse_args()
    out: Path | None = given.out
    there = json.loads(out.read_text())["lines"] if out is not None and out.exists() else {}
    document = heading("launches.py", gpu=True) | {"lines": there}
    for name in given.networks:
        there |= measure(name, given.precision, given.lanes, given.seconds, given.kernels)
        if out is not None:
            write(out, document)


def measure(
    name: str, precisions: list[str], lanes: int, seconds: float, kernels: int
) -> dict[str, Document]:
    """Print a line for each precision."""
    lines: dict[str, Document] = {}
    trained, batch = trainer(name), NETWORKS[name][2]
    start, job = trained.model.snapshot(), Job(0, 0, 0, STEPS, 0.01)
    trained.run(start, job)
    loop = seconds_of(lambda: trained.run(start, job), seconds) / STEPS
    for precision in precisions:
        stack = LaneStack(trained.model, [trained], lanes, precision, widest=lanes)  # type: ignore[arg-type]
        again = partial(load, stack, trained)
        ready = seconds_of(stack.launch, 0.0, again, samples=1)
        taken = seconds_of(stack.launch, seconds, again) / STEPS
        print(
            f"{name}, {precision}, {lanes} lanes: {1000 * taken:.2f} ms, "
            f"{lanes * batch / taken:,.0f} samples/s, plain loop {batch / loop:,.0f}, "
            f"ratio {lanes * loop / taken:.1f}; ready in {ready:.1f} s",
            flush=True,
        )
        again()
        longest = kernels_of(stack.launch).most_common(kernels)
        for kernel, milliseconds in longest:
            print(f"    {milliseconds:8.3f} ms  {kernel}")
        lines[f"{name}, {precision}"] = {
            "network": name,
            "precision": precision,
            "lanes": lanes,
            "milliseconds": 1000 * taken,
            "samples_per_second": lanes * batch / taken,
            "loop_samples_per_second": batch / loop,
            "start_up": ready,
            "kernels": dict(longest),
        }
    return lines


if __name__ == "__main__":
    with product_precision("tf32"):
        main()
