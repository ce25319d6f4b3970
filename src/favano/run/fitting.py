"""The caller's data and network, fitted to each other: types, columns, and what is called how.

Whatever is changed is said; whatever does not fit otherwise is left for the checks before a run.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from favano.errors import require
from favano.notices import notice
from favano.run.samples import Samples, is_whole, number_type
from favano.run.targets import check_counted
from favano.training import IGNORED, Calling, Field, FlatModel
from favano.training.calling import LABELS, logits_of, packed, part_of, style_of, takes, unpacked

_FEW = 4  # samples that are tried
_CLOSE = 1e-4  # relative; losses of one model that are no nearer are not the same


def as_called(network: nn.Module, samples: Samples) -> Samples:
    """The samples in the type of the network's weights, and how the network takes them.

    64-bit floats become what the weights are.
    """
    if not samples.own:
        return samples
    style = style_of(network, samples.calling.fields)
    samples = replace(samples, calling=replace(samples.calling, style=style))
    kinds = {weight.dtype for weight in network.parameters()}
    wide = samples.features.dtype == torch.float64
    return samples if not wide or torch.float64 in kinds else _cast(samples, network)


def fitted(flat: FlatModel, samples: Samples) -> Samples:
    """The samples as this network can be trained on them, with its own loss if it has one.

    Outputs of one column get targets of one column; of objects with `logits` these are the outputs.
    """
    if not samples.own:
        return samples
    with flat.unchanged(), torch.no_grad(), torch.random.fork_rng(devices=[]):
        flat.module.eval()
        made = _tried(flat, samples)
        if made is None and is_whole(samples.features) and not samples.calling.fields:
            cast = _cast(samples, flat.module)
            if (made := _tried(flat, cast)) is not None:
                samples = cast
        if made is None:
            return _own_loss(flat, samples, None)
        if isinstance(made, Tensor):
            return _in_columns(flat, samples, made)
        if "loss" in samples.open:
            samples = _own_loss(flat, samples, made)
        if samples.calling.kind == "tensor" and isinstance(part_of(made, "logits"), Tensor):
            samples = replace(samples, calling=replace(samples.calling, kind="logits"))
            samples = _in_columns(flat, samples, logits_of(made))
    return samples


class Fitted(NamedTuple):
    """A network as a vector, and the samples as it can be trained on them."""

    flat: FlatModel
    samples: Samples


def fit(network: nn.Module, samples: Samples, device: torch.device | str) -> Fitted:
    """Fit samples and a network to each other; samples that are fitted already stay as they are."""
    samples = as_called(network, samples)
    dtype = number_type(network, samples)
    flat = FlatModel(network, samples.loss, device=device, dtype=dtype, calling=samples.calling)
    if not samples.own:
        return Fitted(flat, samples)
    samples = replace(fitted(flat, samples), open=frozenset())
    # A new copy of the network, since constants may have changed when it was tried.
    flat = FlatModel(network, samples.loss, device=device, dtype=dtype, calling=samples.calling)
    return Fitted(flat, samples)


def mean_output(output: Tensor, targets: Tensor) -> Tensor:
    """The loss of a network that gives its own: every sample has a copy of it as output."""
    return output.mean()


def _tried(flat: FlatModel, samples: Samples) -> Any:
    """What the network makes of a few samples; None if it fails."""
    try:
        return samples.calling.made(flat.module, samples.features[:_FEW].clone())
    except Exception:  # the checks before a run say it
        return None


def _cast(samples: Samples, network: nn.Module) -> Samples:
    """The samples as floats of the type of the trained weights."""
    weights = [*network.parameters()]
    trained = [weight.dtype for weight in weights if weight.requires_grad]
    kind = next(iter(trained or [weight.dtype for weight in weights]), torch.float32)
    if not kind.is_floating_point:
        return samples
    notice(f"inputs of {samples.features.dtype} become {kind}, the type of the network")
    fields = tuple(
        field._replace(dtype=kind) if field.dtype == torch.float64 else field
        for field in samples.calling.fields
    )
    wide = samples.labels.dtype == torch.float64
    return replace(
        samples,
        features=samples.features.to(kind),
        test_features=samples.test_features.to(kind),
        labels=samples.labels.to(kind) if wide else samples.labels,
        test_labels=samples.test_labels.to(kind) if wide else samples.test_labels,
        calling=replace(samples.calling, fields=fields),
    )


def _in_columns(flat: FlatModel, samples: Samples, outputs: Tensor) -> Samples:
    """Targets of shape (N,) as (N, 1) where outputs have one column, and the other way round.

    Only if the loss then is a mean over samples: one that takes out the column by itself would pair
    every output with every target.
    """
    labels = samples.labels
    if not labels.is_floating_point() or {labels.ndim, outputs.ndim} != {1, 2}:
        return samples
    if max(labels[:1].numel(), outputs[:1].numel()) > 1:
        return samples

    def shaped(targets: Tensor) -> Tensor:
        return targets.reshape(-1, *outputs.shape[1:])

    few = shaped(labels[: len(outputs)])
    try:
        whole = flat.loss(outputs, few)
        rows = [
            flat.loss(*pair)
            for pair in zip(*(torch.split(part, 1) for part in (outputs, few)), strict=True)
        ]
        good = torch.allclose(whole, torch.stack(rows).mean(), rtol=1e-3)
    except Exception:  # the checks before a run say it
        return samples
    if not good:
        return samples
    return replace(samples, labels=shaped(labels), test_labels=shaped(samples.test_labels))


def _own_loss(flat: FlatModel, samples: Samples, made: Any) -> Samples:
    """The samples for the loss that a network computes itself if it is given labels.

    Cross entropy of its logits, with each label at its place or at the place before, is computed
    here; of any other, the network gives the value.
    """
    module, calling = flat.module, samples.calling
    if "loss" not in samples.open or not is_whole(samples.labels) or not takes(module, LABELS):
        return samples
    if made is None and calling.style == "one":  # it may need its labels
        return samples
    few = slice(None, _FEW)
    try:
        labelled = partial(module, labels=samples.labels[few])
        given = calling.made(labelled, samples.features[few].clone())
        value, logits = part_of(given, "loss"), part_of(given, "logits")
    except Exception:  # the checks before a run say it
        return samples
    if not (isinstance(value, Tensor) and value.ndim == 0 and bool(value.isfinite())):
        return samples
    known = _known(value, logits, samples.labels[few])
    if known == ["shifted"]:
        notice(
            f"the loss is that of {type(module).__name__}: cross entropy of each label with the "
            "output at the place before"
        )
        return _shifted(samples)
    if known == ["as they are"]:
        return samples
    return _with_labels(module, samples)


def _known(value: Tensor, logits: object, labels: Tensor) -> list[str]:
    """How cross entropy of the logits with the labels gives this value."""
    if not isinstance(logits, Tensor):
        return []
    outputs = logits_of({"logits": logits})
    ways = {"as they are": labels}
    if labels.ndim == 2:
        ways["shifted"] = shifted(labels)
    near = []
    for way, targets in ways.items():
        try:
            own = functional.cross_entropy(outputs, targets)
        except Exception:  # other shapes
            continue
        if torch.isclose(own.float(), value.float(), rtol=_CLOSE, atol=_CLOSE):
            near.append(way)
    return near


def shifted(labels: Tensor) -> Tensor:
    """Each label at the place before, where the network has not seen it yet.

    >>> shifted(torch.tensor([[5, 6, 7]]))
    tensor([[   6,    7, -100]])
    """
    return functional.pad(labels[:, 1:], (0, 1), value=IGNORED)


def _shifted(samples: Samples) -> Samples:
    labels, test_labels = shifted(samples.labels), shifted(samples.test_labels)
    for name, part in (("train", labels), ("test", test_labels)):
        check_counted(name, part)
    return replace(samples, labels=labels, test_labels=test_labels)


def _with_labels(module: nn.Module, samples: Samples) -> Samples:
    """The samples for a network whose output is its loss, with labels among its inputs."""
    name, calling = type(module).__name__, samples.calling
    rule = (
        f"need outputs, but {name} has a loss of its own that is no cross entropy of its logits, "
        "and then gives that alone; choose a loss as well"
    )
    require("metrics" in samples.open, "metrics", ", ".join(samples.metrics), rule)
    fields = calling.fields
    if calling.style == "one":
        alone = samples.features
        fields = (Field(_first(module), tuple(alone.shape[1:]), alone.dtype),)
    rule = 'is given labels by name, and must be given its inputs so, as {"input_ids": x}'
    named = calling.style in ("one", "name") and bool(fields[0].name)
    require(named, "model", name, rule)

    def beside(features: Tensor, labels: Tensor) -> tuple[Tensor, tuple[Field, ...]]:
        several: list[Tensor] = [features]
        if calling.fields:
            several = unpacked(features, calling.fields)
        named: Mapping[str, Tensor] = {
            field.name: part for field, part in zip(fields, several, strict=True)
        }
        return packed("train", {**named, LABELS: labels})

    features, known = beside(samples.features, samples.labels)
    test_features, _ = beside(samples.test_features, samples.test_labels)
    notice(f"the loss is that of {name}, which judges models; there are no other metrics")
    return replace(
        samples,
        features=features,
        test_features=test_features,
        calling=Calling(known, "name", "loss"),
        loss=mean_output,
        metrics={},
    )


def _first(module: nn.Module) -> str:
    """The name of the first argument of a network; nothing if it takes any."""
    first = next(iter(inspect.signature(module.forward).parameters.values()))
    return first.name if first.kind is first.POSITIONAL_OR_KEYWORD else ""
