"""A check of metrics before any training."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real

import torch
from torch import Tensor

from favano.errors import in_hook, require
from favano.metrics.evaluation import Evaluator


def check_metrics(evaluate: Evaluator) -> None:
    """Refuse metrics that raise or return no number, for the model as it is now.

    Metrics of all samples are computed for the whole test set, the others for two samples of it.
    """
    for name, metric in evaluate.metrics.items():
        size = len(evaluate.targets) if metric.whole else 2
        targets = evaluate.targets[:size].clone()
        value = _called(name, metric.function, evaluate.outputs(size), targets)
        require(targets._version == 0, "metrics", name, "changes the targets in place; need a copy")
        _check_value(name, value, len(targets), whole=metric.whole)
        if metric.then is not None:
            mean = torch.as_tensor(value, device=targets.device).double().mean()
            made = _called(f"{name}, then", metric.then, mean)
            _check_value(f"{name}, then", made, len(targets), whole=True)


def _called(name: str, function: Callable[..., object], *given: Tensor) -> object:
    """What a function of the user's returns."""
    with in_hook("metrics", name, ""), torch.no_grad():
        return function(*given)


def _check_value(name: str, value: object, samples: int, *, whole: bool) -> None:
    """Refuse what is neither a number nor, unless the metric is `whole`, a number per sample."""
    if not isinstance(value, Tensor):
        rule = f"returns {type(value).__name__}, need a number"
        require(isinstance(value, Real), "metrics", name, rule)
        return
    shape = tuple(value.shape)
    fits = value.numel() == 1 if whole else not shape or shape[0] == samples
    need_one = "one number" if whole else "one number, or one per sample"
    rule = f"returns a tensor of shape {shape} for {samples} samples, need {need_one}"
    require(fits and not value.is_complex(), "metrics", name, rule)
