"""The constants of the theorem measured at a model: gradients, their noise, and curvature.

    ||grad f(x)||^2,  G^2 = (1/n) sum_i ||grad f_i(x) - grad f(x)||^2,
    sigma^2 = max_i E ||g_i(x) - grad f_i(x)||^2 over mini-batches,
    L = max_i ||Hessian of f_i(x)||, by power iteration on Hessian-vector products.

The assumptions are about all x and all clients. Measurements at some points and some clients can
only be too small: they estimate the constants along a run, and prove nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from favano.training import FlatModel, Task
from favano.types import Floats, Vector

_MOST_SAMPLES = 4096  # per client, for its full gradient
_ITERATIONS = 30
_SETTLED = 0.01  # relative change at which the power iteration ends


class Point(NamedTuple):
    """The constants measured at one model."""

    loss: float  # f(x), the mean over clients of their mean training loss
    gradient: float  # ||grad f(x)||^2
    dissimilarity: float  # G
    noise: float  # sigma, of the noisiest client
    noise_typical: float  # of the median client
    noise_error: float  # standard error of `noise`
    smoothness: float  # L, of the sharpest client
    smoothness_typical: float  # of the median client


@dataclass(frozen=True, eq=False)
class Probe:
    """Measures constants for one network on one split of the data.

    Gradients of all clients are exact (up to 4096 samples each); noise and curvature are measured
    at `sample` clients, evenly spread.
    """

    model: FlatModel
    task: Task
    sample: int = 8
    batches: int = 8  # mini-batches per client, for the noise

    def at(self, vector: Vector) -> Point:
        """Measure at a flat model; costs about one pass over the data."""
        clients = len(self.task.batches.parts)
        chosen = np.unique(np.linspace(0, clients - 1, min(self.sample, clients)).astype(int))
        mean, squares, losses = torch.zeros_like(self.model.gradient), 0.0, 0.0
        noises, sharpness = [], []
        for client in range(clients):
            part = self.task.batches.parts[client][:_MOST_SAMPLES]
            features, labels = self.task.samples(part, self.model.vector.dtype)
            loss, gradient = self._gradient(vector, features, labels)
            mean += gradient / clients
            squares += float(gradient.square().sum()) / clients
            losses += loss / clients
            if client in chosen:
                noises.append(self._noise(vector, client, gradient))
                sharpness.append(self._curvature(vector, features, labels, gradient))
        norm = float(mean.square().sum())
        variance = np.array([noise.mean() for noise in noises])
        worst = noises[int(variance.argmax())]
        sigma = float(np.sqrt(variance.max()))
        error = float(worst.std(ddof=1) / np.sqrt(len(worst))) if len(worst) > 1 else 0.0
        return Point(
            loss=losses,
            gradient=norm,
            dissimilarity=float(np.sqrt(max(0.0, squares - norm))),
            noise=sigma,
            noise_typical=float(np.sqrt(np.median(variance))),
            noise_error=error / (2 * sigma) if sigma else 0.0,  # of a square root
            smoothness=max(sharpness),
            smoothness_typical=float(np.median(sharpness)),
        )

    def _loss(self, vector: Vector, features: Tensor, labels: Tensor) -> Tensor:
        self.model.load(vector)
        self.model.module.train()
        if self.model.draws is not None:
            self.model.draws.set(0, vector.device)  # one draw of dropout for all measurements
        with self.model.drawing():
            return self.task.loss(self.model.outputs(features), labels)

    def _gradient(self, vector: Vector, features: Tensor, labels: Tensor) -> tuple[float, Vector]:
        self.model.gradient.zero_()
        loss = self._loss(vector, features, labels)
        torch.autograd.backward(loss)
        return float(loss.detach()), self.model.gradient.clone()

    def _noise(self, vector: Vector, client: int, gradient: Vector) -> Floats:
        """||g - grad f_i||^2 of the client's first mini-batches."""
        squares = []
        for step in range(self.batches):
            batch = self.task.batch(client, step, self.model.vector.dtype)
            _, drawn = self._gradient(vector, *batch)
            squares.append(float((drawn - gradient).square().sum()))
        return np.array(squares)

    def _curvature(self, vector: Vector, features: Tensor, labels: Tensor, start: Vector) -> float:
        """The spectral norm of the Hessian of f_i."""
        trained = [*self.model.tied()[0].values()]
        loss = self._loss(vector, features, labels)
        slopes = torch.autograd.grad(loss, trained, create_graph=True)
        flat = torch.cat([slope.flatten() for slope in slopes])

        def product(direction: Vector) -> Vector:
            parts = torch.autograd.grad(flat @ direction, trained, retain_graph=True)
            return torch.cat([part.flatten() for part in parts])

        return spectral_norm(product, flat.detach() if bool(start.any()) else torch.ones_like(flat))


def spectral_norm(product: Callable[[Vector], Vector], start: Vector) -> float:
    """The largest |eigenvalue| of a symmetric map, by power iteration; never too large.

    >>> matrix = torch.diag(torch.tensor([1.0, -3.0]))
    >>> round(spectral_norm(lambda v: matrix @ v, torch.ones(2)), 2)
    3.0
    """
    direction, norm = start / start.norm(), 0.0
    for _ in range(_ITERATIONS):
        image = product(direction)
        before, norm = norm, float(image.norm())
        if norm == 0 or abs(norm - before) <= _SETTLED * norm / _ITERATIONS:
            break
        direction = image / norm
    return norm
