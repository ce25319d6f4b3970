"""The data of a run on its device."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from favano.data import BatchStream, Dataset, Preprocessing, Traits, partition
from favano.data.transforms import to_float
from favano.errors import BadInput, format_error, require
from favano.metrics import Metric, accuracy
from favano.models import build
from favano.records import ACCURACY
from favano.rng import torch_seed
from favano.run.data import load_data
from favano.run.data_digest import data_digest
from favano.specification.spec import Spec, required
from favano.timing import ClientSpeeds
from favano.training import IGNORED, Calling, Loss, Task
from favano.types import Array, Ints

ModelFactory: TypeAlias = Callable[[], nn.Module]

_DEVICES = "need cpu, cuda or cuda:N"
_TEST_BLOCK = 4096
_CALIBRATION = 512  # samples


class Shaped(Protocol):
    """Data for which a network can be made."""

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""

    @property
    def classes(self) -> int:
        """How many classes there are; 0: the targets are not classes."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Training and test data; with `preprocessing`, features are raw until they are in a batch."""

    features: Tensor
    labels: Tensor
    test_features: Tensor
    test_labels: Tensor
    classes: int  # 0: the targets are not classes
    preprocessing: Preprocessing | None = None
    loss: Loss = functional.cross_entropy
    owners: Mapping[str, Ints] = field(default_factory=dict)  # of the training data, by column
    test_owners: Mapping[str, Ints] = field(default_factory=dict)  # numbered like these
    metrics: Mapping[str, Metric] = field(default_factory=lambda: {ACCURACY.name: accuracy})
    read: Sequence[Tensor | Array] = ()  # inputs and targets before they were prepared, for digests
    calling: Calling = field(default_factory=Calling)  # how a network takes the features
    open: frozenset[str] = frozenset()  # of own data: `loss` and `metrics` that were not chosen
    own: bool = False  # whether they are the caller's, and may be fitted to the network

    @cached_property
    def digest(self) -> str:
        """A digest of training and test data, and of whose they are; the same on all devices."""
        mine = (self.features, self.labels, self.test_features, self.test_labels)
        return data_digest(self.read or mine, (self.owners, self.test_owners))

    @cached_property
    def traits(self) -> Traits:
        """What a split may know of the training data."""
        return traits_of(self.labels, self.classes, self.owners)

    def calibration(self) -> Tensor:
        """A batch of training inputs, spread over the data set."""
        step = max(1, len(self.features) // _CALIBRATION)
        batch = self.features[::step][:_CALIBRATION]
        return batch if self.preprocessing is None else to_float(batch, self.preprocessing)

    @cached_property
    def ignoring(self) -> bool:
        """Whether some labels count nowhere."""
        parts = (self.labels, self.test_labels)
        return self.own and any(bool((part == IGNORED).any()) for part in parts if is_whole(part))

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.features.shape[1:])


def is_whole(tensor: Tensor) -> bool:
    """Whether the numbers of a tensor are whole."""
    return not (tensor.is_floating_point() or tensor.is_complex())


def traits_of(targets: Tensor, classes: int, owners: Mapping[str, Ints]) -> Traits:
    """What a split may know of training data with these targets."""
    if not classes or targets.ndim > 1 or bool((targets < 0).any()):
        return Traits(len(targets), owners=owners)
    return Traits(len(targets), targets.cpu().numpy(), classes, owners)


def load_samples(
    spec: Spec, data_dir: Path | None = None, on_image: Callable[[int], None] = lambda total: None
) -> Samples:
    """The data set of a specification on its device; it is the same for all seeds."""
    device = check_device(spec.run.device)
    return samples_of(load_data(spec.problem, data_dir, on_image), device)


def samples_of(data: Dataset, device: torch.device) -> Samples:
    """A data set on a device."""
    train, test, steps = data.train, data.test, data.preprocessing
    features, later = kept(torch.from_numpy(np.array(train.inputs)).to(device), steps)
    blocks = np.array_split(test.inputs, -(-len(test.inputs) // _TEST_BLOCK))
    tests = [to_float(torch.from_numpy(np.array(block)).to(device), steps) for block in blocks]
    return Samples(
        features=features,
        labels=torch.from_numpy(np.array(train.labels)).to(device),
        test_features=torch.cat(tests),
        test_labels=torch.from_numpy(np.array(test.labels)).to(device),
        classes=data.classes,
        preprocessing=later,
        owners=train.owners,
        test_owners=test.owners,
        read=(train.inputs, train.labels, test.inputs, test.labels),
    )


def kept(raw: Tensor, steps: Preprocessing) -> tuple[Tensor, Preprocessing | None]:
    """Training data as a run keeps them, and what is left to do in every batch.

    Images stay raw if they are augmented, and on a GPU, where bytes take a quarter of the memory
    and a kernel scales them as it reads them; others are scaled once.
    """
    if steps.augments or (raw.is_cuda and raw.dtype == torch.uint8 and not steps.tokens):
        return raw, steps
    return to_float(raw, steps), None


def make_task(spec: Spec, seed: int, fleet: ClientSpeeds, samples: Samples) -> Task:
    """The data split over the clients for one seed; a split with an empty client is refused."""
    parts = partition(
        samples.traits, required(spec.fleet.clients), required(spec.problem.split), seed
    )
    size, streams = required(spec.problem.batch_size), fleet.streams
    batches = BatchStream(parts, size, seed, streams, spec.problem.batch_order)
    return Task(samples.features, samples.labels, batches, samples.loss, samples.preprocessing)


def named_model(spec: Spec, samples: Shaped) -> ModelFactory:
    """A function that builds the network of a specification for these data."""
    name, shape, classes = required(spec.problem.model), samples.input_shape, samples.classes
    return lambda: build(name, input_shape=shape, classes=classes)


def initial_module(model: nn.Module | ModelFactory, seed: int) -> nn.Module:
    """The given module, or a new one whose initial weights are a function of the seed."""
    if isinstance(model, nn.Module):
        return model
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(seed))
        name = getattr(model, "__name__", type(model).__name__)
        try:
            made = model()
        except BadInput:  # of a network by name
            raise
        except Exception as error:
            raise BadInput("model", name, f"cannot be made: {format_error(error)}") from error
    require(
        isinstance(made, nn.Module), "model", name, "need a function that makes a torch.nn.Module"
    )
    return made


def new_network(model: nn.Module | ModelFactory, seed: int) -> nn.Module:
    """A network like the one that is trained; a given one is copied, and stays as it is."""
    if not isinstance(model, nn.Module):
        return initial_module(model, seed)
    try:
        return deepcopy(model)
    except Exception as error:
        rule = f"cannot be copied ({format_error(error)}); give a function that makes it"
        raise BadInput("model", type(model).__name__, rule) from error


def number_type(module: nn.Module, samples: Samples) -> torch.dtype:
    """The float type that a run computes with: that of what is trained, and of the inputs.

    Inputs may have the type of frozen weights instead, as of a base in half precision.
    """
    weights, name = [*module.parameters()], type(module).__name__
    trained = [weight for weight in weights if weight.requires_grad]
    kinds = {weight.dtype for weight in trained or weights}
    words = " and ".join(sorted(map(str, kinds)))
    alike = len(kinds) == 1 and all(kind.is_floating_point for kind in kinds)
    require(alike, "model", name, f"has weights of {words or 'no type'}, need one type of floats")
    own, theirs = kinds.pop(), samples.features.dtype
    if samples.preprocessing is not None:  # images, which become float32
        theirs = torch.float32
    rule = f"its weights are {own}, the inputs {theirs}; give both the same type"
    fits = theirs in {own, *(weight.dtype for weight in weights)}
    require(fits or not theirs.is_floating_point, "model", name, rule)
    return own


def check_device(name: str) -> torch.device:
    """The device of this name; refused if there is none."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise BadInput("device", name, _DEVICES) from None
    rule = f"{_DEVICES}; the GPU of a Mac is not used, write cpu"
    require(device.type != "mps", "device", name, rule)
    require(device.type in ("cpu", "cuda"), "device", name, _DEVICES)
    if device.type == "cuda":
        # Tensors of many sizes would fragment blocks of fixed size.
        os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
        require(torch.cuda.is_available(), "device", name, "PyTorch sees no CUDA device here")
        require((device.index or 0) < torch.cuda.device_count(), "device", name, "no such device")
    return device
