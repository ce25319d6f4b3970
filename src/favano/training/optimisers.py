"""Local optimisers: SGD with momentum, Adam and AdamW, weight decay and clipped gradients.

They give the numbers of `torch.optim` and `clip_grad_norm_`, for one model or for a stack of them.
This file does not load PyTorch, since specifications use it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from favano.types import Stack

OptimiserName: TypeAlias = Literal["sgd", "adam", "adamw"]
OptimiserState: TypeAlias = Literal["fresh", "kept"]
Memory: TypeAlias = tuple[Stack, ...]
Number: TypeAlias = "float | Stack"  # of one client, or a column (k, 1) for a stack of models
Count: TypeAlias = "int | Stack"

_AGAINST_ZERO = 1e-6  # as `clip_grad_norm_`


class Numbers(NamedTuple):
    """The numbers of an optimiser; None: nobody needs this one."""

    momentum: Number  # beta_1
    beta2: Number
    epsilon: Number
    l2: Number | None  # weight decay as a part of the gradient
    decay: Number | None  # weight decay beside the gradient
    clip: Number | None


class Form(NamedTuple):
    """What an optimiser computes, whatever its numbers: its vectors, and the direction.

    `direct` makes the direction and the new vectors of the gradient, the vectors before, the number
    of the step from 1 on, and the numbers.
    """

    vectors: int
    direct: Callable[[Stack, Memory, Count, Numbers], tuple[Stack, Memory]]


def _follow(
    gradient: Stack, memory: Memory, count: Count, numbers: Numbers
) -> tuple[Stack, Memory]:
    return gradient, memory


def _momentum(
    gradient: Stack, memory: Memory, count: Count, numbers: Numbers
) -> tuple[Stack, Memory]:
    """m <- mu m + g; the direction is m."""
    moved = gradient + _like(numbers.momentum, gradient) * memory[0]
    return moved, (moved,)


def _nesterov(
    gradient: Stack, memory: Memory, count: Count, numbers: Numbers
) -> tuple[Stack, Memory]:
    """m <- mu m + g; the direction is g + mu m."""
    mu = _like(numbers.momentum, gradient)
    moved = gradient + mu * memory[0]
    return gradient + mu * moved, (moved,)


def _adam(gradient: Stack, memory: Memory, count: Count, numbers: Numbers) -> tuple[Stack, Memory]:
    """m <- b1 m + (1 - b1) g,  v <- b2 v + (1 - b2) g^2; the direction is m' / (sqrt(v') + eps).

    m' = m / (1 - b1^t) and v' = v / (1 - b2^t), since both begin with zeros.
    """
    mean, square = memory
    beta1, beta2 = numbers.momentum, numbers.beta2
    mean = mean.lerp(gradient, _like(1 - beta1, gradient))
    square = square.lerp(gradient * gradient, _like(1 - beta2, gradient))
    scale = square.sqrt() / _like((1 - beta2**count) ** 0.5, gradient)
    direction = mean / (scale + _like(numbers.epsilon, gradient))
    return direction / _like(1 - beta1**count, gradient), (mean, square)


def _like(number: Number, model: Stack) -> Number:
    """A column in the type of the models; it is computed in float64."""
    return number if isinstance(number, float | int) else number.to(model.dtype)


_PLAIN, _HEAVY_BALL = Form(0, _follow), Form(1, _momentum)
_NESTEROV, _ADAM = Form(1, _nesterov), Form(2, _adam)


@dataclass(frozen=True)
class Optimiser:
    """How a client makes steps of its gradients; plain SGD by default.

    Weight decay is a part of the gradient (L2); with adamw, the weights shrink beside it. `clip` is
    the largest norm of a client's gradient, over all parameters. `state` says whether the vectors
    stay with the client from job to job, or begin with zeros in each.
    """

    name: OptimiserName = "sgd"
    momentum: float = 0.0
    nesterov: bool = False
    beta2: float = 0.0
    epsilon: float = 0.0
    weight_decay: float = 0.0
    clip: float | None = None
    state: OptimiserState = "fresh"

    @property
    def plain(self) -> bool:
        """Whether a step follows the gradient as it is."""
        return self.form is _PLAIN and not self.weight_decay and self.clip is None

    @property
    def form(self) -> Form:
        """What it computes."""
        if self.name != "sgd":
            return _ADAM
        if not self.momentum:
            return _PLAIN
        return _NESTEROV if self.nesterov else _HEAVY_BALL

    @property
    def kept(self) -> int:
        """Vectors as long as the parameters that a client keeps from job to job."""
        return self.form.vectors if self.state == "kept" else 0

    @property
    def numbers(self) -> Numbers:
        """The numbers for one client."""
        beside = self.name == "adamw"
        return Numbers(
            self.momentum,
            self.beta2,
            self.epsilon,
            None if beside else self.weight_decay or None,
            self.weight_decay or None if beside else None,
            self.clip,
        )


SGD = Optimiser()
USUAL: Mapping[OptimiserName, Optimiser] = {  # numbers as in `torch.optim`
    "sgd": SGD,
    "adam": Optimiser("adam", momentum=0.9, beta2=0.999, epsilon=1e-8),
    "adamw": Optimiser("adamw", momentum=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.01),
}


def optimised(
    form: Form, gradient: Stack, weights: Stack, memory: Memory, count: Count, numbers: Numbers
) -> tuple[Stack, Memory]:
    """The direction of a step, and the optimiser's vectors after it.

    Args:
        form: of the optimiser.
        gradient: (P,) or (k, P).
        weights: that decay.
        memory: the optimiser's vectors, zeros at first.
        count: the number of this step since then, from 1 on.
        numbers: of the optimiser.
    """
    if numbers.clip is not None:
        gradient = clipped(gradient, _like(numbers.clip, gradient))
    if numbers.l2 is not None:
        gradient = gradient + _like(numbers.l2, gradient) * weights
    direction, memory = form.direct(gradient, memory, count, numbers)
    if numbers.decay is not None:
        direction = direction + _like(numbers.decay, gradient) * weights
    return direction, memory


def clipped(gradient: Stack, most: Number) -> Stack:
    """Gradients that are no longer than `most`, each over all parameters."""
    norm: Stack = gradient.norm(dim=-1, keepdim=True)
    factor: Stack = most / (norm + _AGAINST_ZERO)
    return gradient * factor.clamp(max=1.0)
