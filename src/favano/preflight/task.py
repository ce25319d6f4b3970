"""A network and a loss, tried out on the samples they are trained and tested on."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from favano.errors import BadInput, format_error, require
from favano.preflight.draws import find_draws
from favano.preflight.ranges import check_range
from favano.training import FlatModel, Loss, Task
from favano.training.task import Batch

_SUM = "returns the sum over a batch, need the mean"


def check_task(model: FlatModel, task: Task, classes: int, test: Batch | None = None) -> None:
    """Refuse a network or a loss that would fail, or train something else, in the middle of a run.

    Args:
        model: the network; as it was afterwards, but for what is known of its draws.
        task: the samples of all clients, and the loss.
        classes: number of classes among the targets, or 0.
        test: inputs and targets for evaluation, if there are any.
    """
    first = not model.draws_checked
    check_fit(model, task, classes)
    if test is not None:
        _check_inputs(model, test[0], "test inputs")
    _check_single(model, task)
    if first and test is not None:
        check_range(model, task, test)


def check_fit(model: FlatModel, task: Task, classes: int) -> None:
    """Refuse a model or a loss that does not fit the targets, before any training.

    Also refuses a model that draws random numbers other than by dropout (`draws`). `classes`
    is the number of classes among the targets, or 0.
    """
    name = type(model.module).__name__
    features, labels = task.batch(0, 0, model.vector.dtype)
    output = _check_inputs(model, features, "a batch of inputs")
    if classes:
        shape = f"labels of shape {tuple(labels.shape[1:])}"
        rule = (
            "need one class per sample, as y.squeeze(1), or y.argmax(1) of one-hot rows; other "
            "targets than classes need loss= and metrics="
        )
        require(labels.ndim == 1 or output.ndim != 2, "train", shape, rule)
        fits = output.ndim == labels.ndim + 1 and output.shape[1] >= classes
        rule = f"gives {tuple(output.shape[1:])} outputs, labels need {classes}"
        require(fits, "model", name, f"{rule}; other targets than classes need loss= and metrics=")
    if not model.draws_checked:
        _check_loss(model, task.loss, features, labels)
        find_draws(model, task.loss, (features, labels))


def _check_single(model: FlatModel, task: Task) -> None:
    """Refuse a network that cannot train on one sample, as BatchNorm cannot, if a batch has one."""
    if 1 not in task.batches.lengths():
        return
    features, _ = task.batch(0, 0, model.vector.dtype)
    try:
        with model.unchanged(), torch.no_grad(), model.drawing():
            model.module.train()
            model.outputs(features[:1])
    except Exception as error:
        rule = f"cannot train on a batch of one sample, which a client has: {format_error(error)}"
        advice = "; choose another batch_size, or batch_order=continuous"
        raise BadInput("model", type(model.module).__name__, rule + advice) from error


def _check_inputs(model: FlatModel, features: Tensor, what: str) -> Tensor:
    """The outputs for two of these inputs; refused where the model cannot take them."""
    name = type(model.module).__name__
    try:
        with model.unchanged(), torch.no_grad():
            model.module.eval()
            output = model.outputs(features[:2].clone())
    except Exception as error:
        rule = f"cannot take {what} of shape {tuple(features.shape[1:])}: {format_error(error)}"
        raise BadInput("model", name, rule) from error
    rule = f"gives {type(output).__name__}, need one tensor with an output for each sample"
    fits = isinstance(output, Tensor) and output.shape[:1] == features[:2].shape[:1]
    require(fits, "model", name, rule)
    return output


def _check_loss(model: FlatModel, loss: Loss, features: Tensor, targets: Tensor) -> None:
    """Refuse a loss that raises, that is not one number, or that has no gradient."""
    name = getattr(loss, "__name__", type(loss).__name__)
    with torch.enable_grad(), model.unchanged():
        model.module.eval()
        output = model.outputs(features.clone())
        given, wanted = tuple(output.shape[1:]), tuple(targets.shape[1:])
        shapes = f"outputs of shape {given} and targets of shape {wanted}"
        column = {given, wanted} == {(1,), ()} and targets.is_floating_point()
        require(not column, "loss", name, f"would pair every output with every target: {shapes}")
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="Using a target size")
            try:
                value = loss(output, targets.clone())
            except Exception as error:
                rule = f"cannot take {shapes}: {format_error(error)}"
                raise BadInput("loss", name, rule) from error
        scalar = isinstance(value, Tensor) and value.ndim == 0
        kind = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else value
        rule = f"returns {kind}, need a tensor with one number, the mean over a batch"
        require(scalar, "loss", name, rule)
        rule = "has outputs without a gradient: they were detached, or made under no_grad"
        require(output.requires_grad, "model", type(model.module).__name__, rule)
        rule = "has no gradient: it does not depend on the outputs"
        require(value.requires_grad, "loss", name, rule)
        require(not _is_sum(loss, output.detach(), targets), "loss", name, _SUM)


def _is_sum(loss: Loss, output: Tensor, targets: Tensor) -> bool:
    """Whether a loss grows as the number of samples, at two and three times as many.

    The logarithm in a contrastive loss may grow as two does, but not as three.
    """
    try:
        values = [
            loss(torch.cat([output] * times), torch.cat([targets] * times)).detach()
            for times in (1, 2, 3)
        ]
    except Exception:  # it takes batches of one size
        return False
    first = values[0]
    grows = (torch.isclose(v, t * first, rtol=1e-3) for t, v in enumerate(values, 1))
    return bool(first.isfinite()) and bool(first != 0) and all(map(bool, grows))
