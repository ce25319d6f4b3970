"""A trial step: what a network or a loss does that would make a run depend on the order of jobs.

Batches and dropout masks are functions of (seed, client, step), and all that is trained lies in a
flat model. Other draws, from a generator, other state, and tensors that a network moves to other
memory are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from favano.errors import BadInput, require
from favano.quantisation import Draws
from favano.training.dropout import KeyedDropout
from favano.training.flat import FlatModel
from favano.training.job_watch import (
    DEPENDS,
    INSTEAD,
    Readings,
    check_constants,
    check_ties,
    depends_on_values,
)
from favano.training.objective import OF_LOSS
from favano.training.python_state import (
    Generator,
    drawn_since,
    first_change,
    global_generators,
    python_state,
)

# Arguments by which attention and recurrent layers do not draw, though they have the tag of those
# that do.
_SWITCHES = ("dropout_p", "dropout", "train", "training")


def find_draws(
    model: FlatModel, loss: Callable[[Tensor, Tensor], Tensor], batch: Sequence[Tensor]
) -> None:
    """Find out whether the model has dropout; refuse what makes runs depend on the order of jobs.

    The trial is a forward pass of a batch in evaluation mode, a forward and a backward pass in
    training mode, and a second forward pass, which must give the same outputs and loss. Afterwards
    the model and all generators are as before. Other threads may draw meanwhile.
    """
    few = len(batch[1]) < 2  # BatchNorm needs two
    features, labels = (torch.cat([part, part]) if few else part for part in batch)
    device, module = model.vector.device, model.module
    draws = model.draws or Draws()
    draws.set(0, device)
    generators = [device] if device.type == "cuda" else []
    constants = _constants(model)
    versions = model.constant_versions()
    with model.unchanged() as start, torch.random.fork_rng(devices=generators):
        with torch.no_grad(), _Watch(module.eval()):
            model.outputs(own := features.clone())
            changed = own._version > 0
        with torch.enable_grad(), _Watch(module.train()) as watch, Readings() as readings:
            with KeyedDropout(draws.key) as dropout:
                output = model.outputs(own := features.clone())
                value = loss(output, theirs := labels.clone())
                changed = changed or own._version > 0 or theirs._version > 0
            rule = "has no gradient in training: its outputs were detached, or made under no_grad"
            require(value.requires_grad, "model", type(module).__name__, rule)
            leaves = _leaves(value)
            with model.noting_use() as used:
                torch.autograd.backward(value)
        check_ties(model)
        _need_trained(model, used)
        check_constants(model, versions)
        states = python_state(module), python_state(loss)
        model.load(start)
        with torch.enable_grad(), KeyedDropout(draws.key):
            again = model.outputs(features.clone())
            value_again = loss(again, labels.clone())
            second = _leaves(value_again)
        _need_own_leaves(
            model, loss, [leaf for leaf in leaves if any(leaf is two for two in second)]
        )
        _need_same("model", module, states[0])
        rule = f"gives different outputs for the same weights and inputs, {INSTEAD}"
        require(_equal(output, again), "model", type(module).__name__, rule)
        _need_same("loss", loss, states[1])
        changed_buffer = first_change(constants, _constants(model))
        rule = f"changes its buffer {changed_buffer}, {DEPENDS}; keep state in the network's"
        require(changed_buffer is None, "loss", type(model.objective.loss).__name__, rule)
        rule = f"gives different values for the same outputs and targets, {INSTEAD}"
        require(_equal(value, value_again), "loss", _name(loss), rule)
    model.gradient.zero_()
    model.use_varies, model.hooks_inside = watch.reads or readings.reads_values, readings.hooks
    if not model.use_varies:
        model.set_used(used)
    model.draws_checked, model.writes = True, changed
    if dropout.calls:
        model.draws, model.dropout = draws, True


def _constants(model: FlatModel) -> dict[str, Tensor]:
    """The buffers of a loss that is a module, copied; those of the network aside."""
    if (loss := model.objective.loss) is None:
        return {}
    own = {id(buffer) for buffer in model.module.buffers()}
    return {name: buffer.clone() for name, buffer in loss.named_buffers() if id(buffer) not in own}


def _need_trained(model: FlatModel, used: Collection[str]) -> None:
    """Refuse a loss with parameters that are not frozen and have no gradient, as of a teacher.

    They would be sent for nothing.
    """
    for name in model.objective.loss_parameters:
        rule = f"has no gradient for its parameter {name.removeprefix(OF_LOSS)}; freeze it"
        owner = type(model.objective.loss).__name__
        require(name in used, "loss", owner, f"{rule} by requires_grad_(False)")


def _leaves(value: Tensor) -> list[Tensor]:
    """The tensors that a value has a gradient for."""
    leaves, seen, nodes = [], set(), [value.grad_fn]
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        nodes += [following for following, _ in node.next_functions]
        if (leaf := getattr(node, "variable", None)) is not None:
            leaves.append(leaf)
    return leaves


def _need_own_leaves(model: FlatModel, loss: object, lasting: Sequence[Tensor]) -> None:
    """Refuse a loss with gradients for tensors beyond the model that outlast a step.

    They would train nothing. Those that are made in a step, as for a gradient penalty, may be.
    """
    own = {id(parameter) for parameter in model.tied()[0].values()}
    for leaf in lasting:
        rule = (
            f"has a gradient for a tensor of shape {tuple(leaf.shape)} that is not part of the "
            "network, nor of a loss that is an nn.Module, and would not be trained"
        )
        require(id(leaf) in own, "loss", _name(loss), rule)


def _need_same(key: str, owner: object, before: Mapping[str, object]) -> None:
    """Refuse a network or a loss that has changed what it keeps in Python."""
    now = python_state(owner)
    name = first_change(before, now)
    if name is None:
        return
    rule = f"changes {name} from call to call, {DEPENDS}; keep state in buffers alone"
    if isinstance(now[name], Generator):
        rule = f"draws random numbers in training by {name}, {INSTEAD}"
    raise BadInput(key, _name(owner), rule)


def _name(owner: object) -> str:
    """Of a function, or of the class of anything else."""
    return str(getattr(owner, "__name__", type(owner).__name__))


def _equal(value: object, again: object) -> bool:
    """Whether a second pass gives the same; if not, there is a generator that nobody knows of."""
    if isinstance(value, Tensor) and isinstance(again, Tensor):
        return torch.allclose(value, again, rtol=1e-3, atol=1e-6, equal_nan=True)
    return True


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses a network as soon as one of its operations draws from a generator."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._module = module
        self.reads = False  # whether shapes or numbers in Python depend on values
        self._others = global_generators()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here; to rule it out, PyTorch would load its compiler for seconds."""
        return False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        self.reads |= depends_on_values(func, args)
        own = any(isinstance(value, torch.Generator) for value in (*args, *given.values()))
        self._need(not own and not _draws(func, args, given), str(func))
        return func(*args, **given)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Check the generators of Python and NumPy, too."""
        super().__exit__(kind, error, trace)  # type: ignore[no-untyped-call]
        if kind is None:
            self._need(not drawn_since(self._others), "the generator of Python or NumPy")

    def _need(self, good: bool, by: str) -> None:
        when = "in training" if self._module.training else "in evaluation mode"
        rule = f"draws random numbers {when} by {by}, {INSTEAD}"
        require(good, "model", type(self._module).__name__, rule)


def _draws(func: Any, args: Sequence[Any], given: Mapping[str, Any]) -> bool:
    """Whether an operation draws, by what it says of itself."""
    if torch.Tag.nondeterministic_seeded not in getattr(func, "tags", ()):
        return False
    values = {argument.name: argument.default_value for argument in func._schema.arguments}
    values |= {**dict(zip(values, args, strict=False)), **given}
    return False not in (values.get(name) for name in _SWITCHES)  # a share of 0.0 is False, too
