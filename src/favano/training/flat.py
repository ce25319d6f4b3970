"""Modules as flat vectors. Only this file knows layers.

A model is one vector: parameters, then float buffers (BatchNorm statistics), then integer
counters. An update is applied to the parameters; buffers are averaged; of counters the largest is
taken. Buffers that such a vector cannot hold are constants, which stay in the module as they are:
those that are not persistent, complex ones, floats of another type than the parameters, masks with
infinities, and large whole numbers. So are parameters that are frozen (`requires_grad_(False)`).
Training must not change them, so all copies of a network share the memory of what is frozen.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from favano.errors import require
from favano.quantisation import draws_of
from favano.training.calling import Calling
from favano.training.dropout import drawing
from favano.training.objective import Loss, copied_together
from favano.types import Vector


@dataclass(frozen=True)
class Layout:
    """Where the parts of a flat model lie: [parameters | buffers | counters]."""

    parameters: int  # P, those that are trained
    buffers: int
    counters: int
    number_bits: int = 32  # of a parameter or buffer

    @property
    def size(self) -> int:
        """Length of the whole vector."""
        return self.parameters + self.buffers + self.counters

    @property
    def bits(self) -> int:
        """Bits of an uncompressed message: parameters and buffers."""
        return self.number_bits * (self.parameters + self.buffers)


class FlatModel:
    """A private copy of a module; trained parameters, gradients and buffers are views of vectors.

    Writing `vector` changes the module; a backward pass fills `gradient`; a forward pass in
    training mode moves the buffers inside `vector`. With it a loss is copied, which may look at the
    module; trained parameters of a loss that is a module are before those of the network.
    """

    def __init__(
        self,
        module: nn.Module,
        loss: Loss = functional.cross_entropy,
        *,
        device: torch.device | str,
        dtype: torch.dtype = torch.float32,
        calling: Calling | None = None,
    ) -> None:
        name = type(module).__name__
        lazy = any(isinstance(p, nn.UninitializedParameter) for p in module.parameters())
        require(not lazy, "model", name, "has lazy layers; run it on one batch first")
        scripted = any(isinstance(layer, torch.jit.ScriptModule) for layer in module.modules())
        require(
            not scripted,
            "model",
            name,
            "has TorchScript modules; need those that they were made of",
        )
        tensors = (*module.named_parameters(), *module.named_buffers())
        empty = next((key for key, tensor in tensors if tensor.is_meta), None)
        require(empty is None, "model", name, f"has no values for {empty} (meta); load them first")
        self.objective = copied_together(module, loss, calling)
        _convert(self.objective, torch.device(device), dtype)
        self.module, self.loss = self.objective.network, self.objective.compute
        self.draws = draws_of(self.module)  # None without low-precision layers and dropout
        self.dropout = False  # whether it has dropout; set by `preflight`
        self.draws_checked = False
        self.writes = False  # whether its inputs or targets are changed in place; also set there
        self.hooks_inside = False  # whether a forward pass puts hooks on tensors; also set there
        self.jobs = 0  # that were trained in this process
        own = self.objective.loss_parameters
        named = dict(self.module.named_parameters())
        self._parameters = own | {k: p for k, p in named.items() if p.requires_grad}
        self.frozen = {k: p for k, p in named.items() if not p.requires_grad}
        buffers = dict(self.module.named_buffers())
        self._transient = {*_transient_buffers(self.module)}
        held = {k: v for k, v in buffers.items() if k not in self._transient and fits(v, dtype)}
        self._buffers = {k: v for k, v in held.items() if v.is_floating_point()}
        self._counters = {k: v for k, v in held.items() if not v.is_floating_point()}
        self.constants = {k: v for k, v in buffers.items() if k not in held} | self.frozen
        parts = (self._parameters, self._buffers, self._counters)
        sizes = [sum(tensor.numel() for tensor in part.values()) for part in parts]
        self.layout = Layout(sizes[0], sizes[1], sizes[2], torch.finfo(dtype).bits)
        bits = self.layout.number_bits
        rule = "has no parameter that is trained (requires_grad)"
        require(self.layout.parameters > 0, "model", name, rule)
        rule = f"has integer counters (BatchNorm), which {dtype} cannot hold; use float32"
        require(bits > 16 or not self._counters, "model", name, rule)
        for key, constant in self.constants.items():
            rule = f"has a buffer {key} of complex128, which model files do not hold; use complex64"
            unsaved = key in self._transient or key in self.frozen
            good = constant.dtype != torch.complex128 or unsaved
            require(good, "model", name, rule)
        rule = f"is trained in low precision, which needs float32 or float64, not {dtype}"
        require(bits > 16 or self.draws is None, "model", name, rule)
        self.vector: Vector = torch.empty(self.layout.size, device=device, dtype=dtype)
        self.gradient: Vector = torch.zeros(self.layout.parameters, device=device, dtype=dtype)
        self.use_varies = False  # whether a step may leave out parameters that others use
        self._decays: Vector | None = None
        self.set_used(self._parameters)
        self._tie()
        _keep_in_place(self.module)

    def outputs(self, inputs: Tensor) -> Tensor:
        """The outputs of the module for a batch of inputs."""
        return self.objective.calling.outputs(self.module, inputs)

    @property
    def weights(self) -> Vector:
        """The parameters in `vector`, (P,)."""
        return self.vector[: self.layout.parameters]

    @property
    def parameter_sizes(self) -> tuple[int, ...]:
        """Lengths of the parameters in `vector`, one after the other."""
        return tuple(size for p in self._parameters.values() if (size := p.numel()))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tensors in `vector`, in its order."""
        return (*self._parameters, *self._buffers, *self._counters)

    def decaying(self, weights: Tensor) -> Tensor:
        """The weights of parameters that decay, (..., P); zeros for those that are never used."""
        return weights if self._decays is None else weights * self._decays

    def load(self, vector: Vector) -> None:
        """Set the module to this model."""
        self.vector.copy_(vector)
        counted = self.vector[self.layout.size - self.layout.counters :]
        for name, part in _named(self._counters, counted).items():
            self._counters[name].copy_(part.round())

    def snapshot(self) -> Vector:
        """The model as it is now: a copy, never a view."""
        if self._counters:
            counted = [counter.flatten().to(self.vector) for counter in self._counters.values()]
            self.vector[-self.layout.counters :] = torch.cat(counted)
            limit = _first_inexact(self.vector.dtype)
            rule = f"counts to {limit} in a buffer, which {self.vector.dtype} cannot hold exactly"
            exact = bool((self.vector[-self.layout.counters :].abs() < limit).all())
            require(exact, "model", type(self.module).__name__, rule)
        return self.vector.clone()

    def moved(self) -> str:
        """The first parameter, gradient or buffer that no longer lies in the vectors, in words."""
        for name, (owner, key, parameter, weight, gradient) in self._tied.items():
            if owner.get(key) is not parameter or parameter.data_ptr() != weight:
                return f"its parameter {name}"
            if gradient and (parameter.grad is None or parameter.grad.data_ptr() != gradient):
                return f"the gradient of {name}"
        for name, (owner, key, buffer, place) in self._tied_buffers.items():
            if owner.get(key) is not buffer or buffer.data_ptr() != place:
                return f"its buffer {name}"
        return ""

    def constant_versions(self) -> dict[str, int]:
        """How often each constant was written in place, by name."""
        return {name: constant._version for name, constant in self.constants.items()}

    @contextmanager
    def unchanged(self) -> Iterator[Vector]:
        """The model as it is now, which it is again after the `with` block, as is its mode."""
        start, was_training = self.snapshot(), self.module.training
        try:
            yield start
        finally:
            self.load(start)
            self.module.train(was_training)

    def drawing(self, key: Tensor | None = None) -> AbstractContextManager[object]:
        """Draw from this key in a forward pass, by default from that of the current step."""
        return drawing(self.draws, key, self.dropout)

    def tied(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The module's own trained parameters, and all its buffers and constants, by name."""
        return dict(self._parameters), {**self._buffers, **self._counters, **self.constants}

    def named(self, weights: Tensor, rest: Tensor) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Parameters and buffers by name, as views of (..., P) and (..., size - P)."""
        return self.named_weights(weights), _named({**self._buffers, **self._counters}, rest)

    def typed(self, buffers: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Copies of such buffers in the types that they have in the module."""
        counters = self._counters
        return {
            name: values.round().to(counters[name].dtype) if name in counters else values.clone()
            for name, values in buffers.items()
        }

    def named_weights(self, weights: Tensor) -> dict[str, Tensor]:
        """Parameters by name, as views of (..., P)."""
        return _named(self._parameters, weights)

    def state_dict(self, vector: Vector) -> dict[str, Tensor]:
        """A flat model by the module's own names, copied to the CPU, as `load_state_dict` takes it.

        First the tensors of the vector, in its order, then constants and second names. Frozen
        parameters are left out: they are those of the network that was given.
        """
        tensors = {**self._parameters, **self._buffers, **self._counters}
        state = {
            name: values.detach().to("cpu", tensors[name].dtype, copy=True)
            for name, values in _named(tensors, vector).items()
        }
        state |= {
            name: constant.detach().to("cpu", copy=True)
            for name, constant in self.constants.items()
            if name not in self.frozen
        }
        for name, other in self._other_names():
            state[other] = state[name].clone()
        return {name: tensor for name, tensor in state.items() if name not in self._transient}

    def _other_names(self) -> Iterator[tuple[str, str]]:
        """Names of tensors that layers share, and the other names that they have."""
        module = self.module
        for named in (module.named_parameters, module.named_buffers):
            first = {id(tensor): name for name, tensor in named()}
            for name, tensor in named(remove_duplicate=False):
                if name != first[id(tensor)] and first[id(tensor)] not in self.frozen:
                    yield first[id(tensor)], name

    def set_used(self, names: Collection[str]) -> None:
        """Say which parameters steps use; others are left alone, as `torch.optim` does it."""
        every = len(names) == len(self._parameters)
        self._decays = None if every else self.numbers_of(names).to(self.vector.dtype)

    def numbers_of(self, names: Collection[str]) -> Vector:
        """Which numbers belong to these parameters, (P,)."""
        numbers = torch.zeros_like(self.gradient, dtype=torch.bool)
        for name, part in self.named_weights(numbers).items():
            part.fill_(name in names)
        return numbers

    @contextmanager
    def noting_use(self) -> Iterator[set[str]]:
        """The names of the parameters that backward passes in the `with` block give a gradient."""
        used: set[str] = set()
        hooks = [
            self._parameters[name].register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                lambda _, name=name: used.add(name)
            )
            for name in self._parameters
        ]
        try:
            yield used
        finally:
            for hook in hooks:
                hook.remove()

    def _tie(self) -> None:
        """Make parameters, gradients and buffers views of the vectors."""
        weights, gradients = self.named_weights(self.weights), self.named_weights(self.gradient)
        for name, parameter in self._parameters.items():
            weights[name].copy_(parameter.data)
            parameter.data = weights[name]
            parameter.grad = gradients[name]
        first = self.layout.parameters
        buffers = self.vector[first : first + self.layout.buffers]
        for name, view in _named(self._buffers, buffers).items():
            view.copy_(self._buffers[name])
            self._buffers[name].data = view
        layers = [(f"{path}." * bool(path), layer) for path, layer in self.module.named_modules()]
        loss = self.objective.loss
        if loss is not None:
            layers += [(f"{path}.", layer) for path, layer in loss.named_modules(prefix="loss")]
        self._tied = {
            f"{path}{key}": (
                layer._parameters,
                key,
                tensor,
                tensor.data_ptr(),
                _address(tensor.grad),
            )
            for path, layer in layers
            for key, tensor in layer._parameters.items()
            if tensor is not None
        }
        self._tied_buffers = {
            f"{path}{key}": (layer._buffers, key, buffer, buffer.data_ptr())
            for path, layer in layers
            for key, buffer in layer._buffers.items()
            if buffer is not None
        }


def _convert(module: nn.Module, device: torch.device, dtype: torch.dtype) -> None:
    """Move a module to a device; what has the type of its trained parameters gets this one."""
    own = {parameter.dtype for parameter in module.parameters() if parameter.requires_grad}
    module._apply(  # type: ignore[no-untyped-call]
        lambda tensor: tensor.to(device, dtype if tensor.dtype in own else tensor.dtype)
    )


def _transient_buffers(module: nn.Module) -> Iterator[str]:
    """The names of buffers that are not persistent: they are no part of a saved model."""
    for path, layer in module.named_modules(remove_duplicate=False):
        for key in layer._non_persistent_buffers_set:
            yield f"{path}.{key}" if path else key


def fits(buffer: Tensor, dtype: torch.dtype) -> bool:
    """Whether a vector of this type can hold a buffer, so that it can be averaged or counted."""
    if buffer.is_floating_point():
        return buffer.dtype == dtype and bool(buffer.isfinite().all())
    return not buffer.is_complex() and bool((buffer.double().abs() < _first_inexact(dtype)).all())


def _first_inexact(dtype: torch.dtype) -> int:
    """The whole number, 2^24 for float32, that the next one is rounded to."""
    return round(2 / torch.finfo(dtype).eps)


def _keep_in_place(module: nn.Module) -> None:
    """Let no recurrent layer move its weights into memory of its own, as cuDNN would like it to.

    PyTorch moves them by `flatten_parameters`, also unasked; without it, cuDNN gets a copy and
    PyTorch warns of that.
    """
    layers = [layer for layer in module.modules() if isinstance(layer, nn.RNNBase)]
    for layer in layers:
        layer.flatten_parameters = _do_nothing  # type: ignore[method-assign]
    if layers:
        warnings.filterwarnings("ignore", message="RNN module weights are not part of single")


def _do_nothing() -> None: ...


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _named(tensors: Mapping[str, Tensor], vectors: Tensor) -> dict[str, Tensor]:
    """Parts of vectors in the shapes of these tensors; leading dimensions are kept."""
    if not tensors:
        return {}
    parts = torch.split(vectors, [tensor.numel() for tensor in tensors.values()], dim=-1)
    return {
        name: part.view(vectors.shape[:-1] + tensor.shape)
        for (name, tensor), part in zip(tensors.items(), parts, strict=True)
    }
