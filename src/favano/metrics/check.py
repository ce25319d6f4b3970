"""A check of metrics before any training."""

from __future__ import annotations

from numbers import Real

import torch
from torch import Tensor

from favano.errors import BadInput, need
from favano.metrics.evaluation import Evaluator
from favano.metrics.metric import Metric


def check_metrics(evaluate: Evaluator) -> None:
    """Refuse metrics that raise or return no number, for the model as it is now.

    Metrics of all samples are computed for the whole test set, the others for two samples of it.
    """
    for name, metric in evaluate.metrics.items():
        size = len(evaluate.targets) if metric.whole else 2
        targets = evaluate.targets[:size]
        try:
            with torch.no_grad():
                found = metric.function(evaluate.outputs(size), targets)
        except Exception as error:
            why = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            raise BadInput("metrics", name, f"raises {why}") from error
        _check_value(name, metric, found, len(targets))


def _check_value(name: str, metric: Metric, found: object, samples: int) -> None:
    """Refuse what is neither a number nor a number per sample."""
    if not isinstance(found, Tensor):
        rule = f"returns {type(found).__name__}, need a number"
        need(isinstance(found, Real), "metrics", name, rule)
        return
    shape = tuple(found.shape)
    one = found.numel() == 1 if metric.whole else not shape or shape[0] == samples
    need_one = "one number" if metric.whole else "one number, or one per sample"
    rule = f"returns a tensor of shape {shape} for {samples} samples, need {need_one}"
    need(one and not found.is_complex(), "metrics", name, rule)
