"""Loss and metrics of a model on the test set."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor
from torch.func import vmap

from favano.errors import require
from favano.metrics.activations import largest_activation
from favano.metrics.metric import OURS, Metric, accuracy
from favano.metrics.running_statistics import load_with_statistics
from favano.training import IGNORED, FlatModel, GraphCache, Loss
from favano.types import Stack, Vector

_NUMBERS = 1 << 23  # input or output numbers per batch
_ACTIVATIONS = 1 << 28  # numbers that one operation makes, of all models that are scored at once
_FEW = 8  # samples that are tried; some losses need more than two
_EMBEDDED = 128  # numbers that a network makes of a token


@dataclass(frozen=True, eq=False)
class Evaluator:
    """Scores flat models on fixed data, in evaluation mode, in large batches."""

    model: FlatModel
    features: Tensor  # (M, ...) inputs of the model
    targets: Tensor  # (M, ...)
    loss: Loss
    calibration: Tensor | None = None  # inputs from which the model's buffers are estimated
    metrics: Mapping[str, Metric] = field(default_factory=lambda: {"accuracy": accuracy})
    ignoring: bool = False  # whether some labels are -100 and count nowhere

    def measure(self, vector: Vector) -> Tensor:
        """Mean loss and metrics, (1 + m,), without waiting for the device."""
        self.load(vector)
        return self.score(self.features, self.targets)

    def load(self, vector: Vector) -> None:
        """Make a model the one that is scored."""
        if self.calibration is None:
            self.model.load(vector)
        else:
            load_with_statistics(self.model, vector, self._lent(self.calibration))
        self.model.module.eval()

    def state_dict(self, vector: Vector) -> dict[str, Tensor]:
        """A flat model as it is scored, with estimated buffers, by the module's own names."""
        if self.calibration is None:
            return self.model.state_dict(vector)
        self.load(vector)
        return self.model.state_dict(self.model.snapshot())

    def score(self, features: Tensor, targets: Tensor) -> Tensor:
        """Mean loss and metrics of the loaded model on these data."""
        sums = torch.zeros(1 + len(self.metrics), device=targets.device, dtype=torch.float64)
        parts, outputs = (torch.split(tensor, self._batch) for tensor in (features, targets)), []
        versions, counted = (features._version, targets._version), torch.zeros_like(sums)
        with torch.no_grad():
            for some, theirs in zip(*parts, strict=True):
                output = self.model.outputs(self._lent(some))
                values = self._values(output, theirs)
                sums += torch.stack(
                    [_sum(value, len(theirs), self._kept(theirs)) for value in values]
                )
                if self.ignoring:
                    counted += torch.stack([_weight(value, self._kept(theirs)) for value in values])
                outputs += [output] if self._whole else []
            rule = "changes its inputs or targets in place, and did not when it was tried"
            same = (features._version, targets._version) == versions
            require(same, "model", type(self.model.module).__name__, rule)
            return self._finished(
                sums / (counted if self.ignoring else len(targets)), outputs, targets
            )

    def _kept(self, targets: Tensor) -> Tensor | None:
        """Which labels count; None: all."""
        return targets != IGNORED if self.ignoring else None

    def outputs(self, size: int) -> Tensor:
        """Outputs of the model as it is now for the first samples."""
        self.model.module.eval()
        with torch.no_grad():
            parts = torch.split(self.features[:size], self._batch)
            return torch.cat([self.model.outputs(self._lent(part)) for part in parts])

    def measure_all(self, vectors: Stack) -> Tensor:
        """Mean loss and metrics of many models, (k, 1 + m).

        If the test set is one batch, many models are scored at once: one model would leave a GPU
        idle most of the time.
        """
        one_by_one = self.calibration is not None or len(self.targets) > self._batch
        if one_by_one or not self._vectorised:
            return torch.stack([self.measure(vector) for vector in vectors])
        largest = max(self._width, self._activation)
        most = max(1, _ACTIVATIONS // max(1, largest * len(self.targets)))
        at_once = 1 << (most.bit_length() - 1)
        return torch.cat([self._captured(part) for part in torch.split(vectors, at_once)])

    def _captured(self, vectors: Stack) -> Tensor:
        """The same for models that are scored at once; on CUDA by a graph.

        A metric of the user's may do what a graph cannot repeat, as moving numbers to the device.
        """
        if not vectors.is_cuda or any(metric not in OURS for metric in self.metrics.values()):
            return self._measure_together(vectors)
        number = len(vectors)
        size = 1 << (number - 1).bit_length()  # few sizes; the last model is scored repeatedly
        rows = torch.arange(size, device=vectors.device).clamp_(max=number - 1)
        return self._graphs.run(size, self._measure_together, vectors[rows])[:number].clone()

    @cached_property
    def _graphs(self) -> GraphCache:
        return GraphCache()

    def _measure_together(self, vectors: Stack) -> Tensor:
        """Score models without a graph."""
        with torch.no_grad():
            values, count = self._stacked(vectors, len(self.targets)), 1 + len(self.metrics)
            kept = self._kept(self.targets)
            means = torch.stack([_mean_of_each(value, kept) for value in values[:count]], dim=1)
            if self._unfinished:
                for place, mean in enumerate(means):
                    self._finished(mean, [output[place] for output in values[count:]], self.targets)
        return means

    def _stacked(self, vectors: Stack, samples: int) -> list[Tensor]:
        """Loss and metrics of each model for the first samples, and its outputs if needed."""
        self.model.module.eval()
        parameters = self.model.layout.parameters
        named = self.model.named(vectors[:, :parameters], vectors[:, parameters:])
        features, targets = self.features[:samples], self.targets[:samples]

        def scores(output: Tensor) -> list[Tensor]:
            return [*self._values(output, targets), *([output] if self._whole else [])]

        def of_one(weights: dict[str, Tensor], buffers: dict[str, Tensor]) -> list[Tensor]:
            given = weights, self.model.typed(buffers), self._lent(features)
            losses: list[Tensor] = self.model.objective.at(*given, scores)
            return losses

        return vmap(of_one)(*named)

    def _lent(self, data: Tensor) -> Tensor:
        """Data for a network or a loss: a copy for those that write into them."""
        return data.clone() if self.model.writes else data

    def _values(self, output: Tensor, targets: Tensor) -> list[Tensor]:
        """Loss and metrics of a batch; zero for metrics of all samples."""
        with torch.enable_grad():  # a gradient penalty needs it
            loss = self.loss(output, self._lent(targets)).detach()
        metrics = self.metrics.values()
        zero = torch.zeros_like(loss)
        return [
            loss,
            *(zero if metric.whole else _value(metric, output, targets) for metric in metrics),
        ]

    def _finished(self, means: Tensor, outputs: list[Tensor], targets: Tensor) -> Tensor:
        """The scores of one model, in the place of means over samples."""
        for place, metric in enumerate(self.metrics.values(), start=1):
            if metric.whole:
                means[place] = _value(metric, torch.cat(outputs), targets)
            elif metric.then is not None:
                means[place] = metric.then(means[place])
        return means

    @property
    def _whole(self) -> bool:
        """Whether all outputs of a model are needed at once."""
        return any(metric.whole for metric in self.metrics.values())

    @property
    def _unfinished(self) -> bool:
        """Whether any metric is more than a mean over samples."""
        return any(metric.whole or metric.then is not None for metric in self.metrics.values())

    @cached_property
    def _vectorised(self) -> bool:
        """Whether many models can be scored at once."""
        try:
            with torch.no_grad(), self.model.unchanged() as model:
                if self.model.objective.linked:  # a loss may keep parameters: those of the model
                    self.model.weights.fill_(math.nan)
                scores = self._stacked(model[None], _FEW)
        except Exception:  # a recurrent layer, or a metric that looks at single values
            return False
        return not self.model.objective.linked or bool(scores[0].isfinite().all())

    @cached_property
    def _width(self) -> int:
        """Numbers in an input or an output, whichever is larger; a token is embedded into many."""
        some = self.features[:2]  # one would be too few for statistics of a batch
        with torch.no_grad():
            self.model.module.eval()
            output = self.model.outputs(self._lent(some))
        embedded = 1 if self.features.is_floating_point() else _EMBEDDED
        return max(1, embedded * some[0].numel(), output.numel() // len(some))

    @cached_property
    def _activation(self) -> int:
        """The most numbers that one operation of the model makes of a sample."""
        self.model.module.eval()
        return max(1, largest_activation(self.model.outputs, self._lent(self.features[:3])))

    @property
    def _batch(self) -> int:
        """Samples in one batch."""
        return max(1, min(_NUMBERS // self._width, _ACTIVATIONS // self._activation))


def _value(metric: Metric, output: Tensor, targets: Tensor) -> Tensor:
    return torch.as_tensor(metric.function(output, targets), device=output.device)


def _sum(value: Tensor, samples: int, kept: Tensor | None) -> Tensor:
    """The sum over the samples of a batch, from a value per sample or from their mean.

    With labels that do not count, it is the sum over those that do, unless a value belongs to a
    whole sample.
    """
    if kept is not None and value.ndim == 0:
        return value.double() * kept.sum()
    if kept is not None and value.shape == kept.shape:
        return (value.double() * kept).sum()
    if value.ndim == 0:
        return value.double() * samples
    return value.double().sum() * (samples / value.numel())


def _weight(value: Tensor, kept: Tensor | None) -> Tensor:
    """What such a sum over a batch is divided by."""
    assert kept is not None
    whole = value.ndim and value.shape != kept.shape
    return torch.tensor(len(kept), device=kept.device).double() if whole else kept.sum().double()


def _mean_of_each(value: Tensor, kept: Tensor | None) -> Tensor:
    """The mean of each of k models, from a value per sample, (k, M, ...), or from means, (k,)."""
    if kept is not None and value.shape[1:] == kept.shape:
        return (value.double() * kept).flatten(1).sum(dim=1) / kept.sum()
    return value.double() if value.ndim == 1 else value.double().flatten(1).mean(dim=1)
