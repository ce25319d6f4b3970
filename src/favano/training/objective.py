"""A network and its loss as one module, copied together.

A run trains a copy of the user's network. A loss or a hook may refer to the network that was given:
a penalty over `net.parameters()`, a method of the network, a lambda that holds `self`. Whatever
reaches the network is rebuilt so that it reaches the copy; all else is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any, TypeAlias, cast

from torch import Tensor, nn
from torch.func import functional_call

from favano.code_digest import globals_of, is_users
from favano.errors import BadInput, format_error, require
from favano.training.calling import Calling

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]

OF_LOSS = "loss:"  # before the names of its parameters; no name in a network has a colon

_LONGEST = 1000  # lists and dictionaries with more entries are not looked into
_FUNCTIONS = (FunctionType, MethodType, partial)
_MODULE_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)


class Objective(nn.Module):
    """A network and a loss. Trained parameters of a loss that is a module are part of the model."""

    network: nn.Module
    loss: nn.Module | None  # the module that the loss is, or is a method of
    compute: Loss  # as it was given
    calling: Calling

    def __init__(self, network: nn.Module, loss: Loss, calling: Calling | None = None) -> None:
        super().__init__()
        self.network = network
        vars(self)["calling"] = calling or Calling()
        owner = _owner(loss)
        self.loss = owner if isinstance(owner, nn.Module) else None
        vars(self)["compute"] = loss  # not once more among the modules, if it is one
        self.linked = is_linked(network, loss)  # whether loss or hooks look at the network
        theirs = {id(parameter) for parameter in network.parameters()}
        self.loss_parameters = {
            f"{OF_LOSS}{name}": parameter
            for name, parameter in ([] if self.loss is None else self.loss.named_parameters())
            if parameter.requires_grad and id(parameter) not in theirs
        }
        trained = {**dict(network.named_parameters()), **self.loss_parameters}
        self.hooked = {
            name: parameter for name, parameter in trained.items() if _hooks_on(parameter)
        }

    def forward(self, inputs: Tensor, then: Callable[[Tensor], Any]) -> Any:
        """What `then`, which may call the loss, makes of the network's outputs."""
        return then(self.calling.outputs(self.network, inputs))

    def at(
        self,
        weights: Mapping[str, Tensor],
        buffers: Mapping[str, Tensor],
        inputs: Tensor,
        then: Callable[[Tensor], Any],
    ) -> Any:
        """The same with other parameters and buffers, which the loss sees, too."""
        names = self._names()
        given = {
            each: tensor
            for name, tensor in (*weights.items(), *buffers.items())
            for each in names[_place(name)]
        }
        return functional_call(self, given, (inputs, then), tie_weights=False)

    def _names(self) -> dict[str, list[str]]:
        """Where each tensor is, by the first place; once for a layer that is in several places.

        PyTorch, which can find them itself, would not put back the tensors of such a layer.
        """
        names: dict[int, list[str]] = {}
        for path, layer in self.named_modules():
            for key, tensor in (*layer._parameters.items(), *layer._buffers.items()):
                names.setdefault(id(tensor), []).append(f"{path}.{key}")
        return {names[0]: names for names in names.values()}

    def copied(self) -> Objective:
        """A copy."""
        return copied_together(self.network, self.compute, self.calling)


def _place(name: str) -> str:
    """Where an objective has a parameter or buffer of this name."""
    mine = name.removeprefix(OF_LOSS)
    return f"network.{name}" if mine == name else f"loss.{mine}"


def copied_together(network: nn.Module, loss: Loss, calling: Calling | None = None) -> Objective:
    """Copies of a network and a loss that refer to each other as the given ones do.

    Frozen parameters share their memory with those that were given, as nothing may change them.
    """
    late = next((parameter for parameter in network.parameters() if _post_hooks(parameter)), None)
    rule = "has hooks on parameters after gradients are summed up; use register_hook"
    name = type(network).__name__
    require(late is None, "model", name, rule)
    memo: dict[int, Any] = {id(tensor): tensor.detach().clone() for tensor in _computed(network)}
    memo |= {
        id(parameter): nn.Parameter(parameter.detach(), requires_grad=False)
        for parameter in network.parameters()
        if type(parameter) is nn.Parameter and not parameter.requires_grad
    }
    try:
        copy = deepcopy(network, memo)
    except Exception as error:
        raise BadInput("model", name, f"cannot be copied: {format_error(error)}") from error
    owner = _owner(loss)
    rebuilt = _Rebuilt(memo, _reaching([loss, *_functions(network)], memo))
    if isinstance(owner, nn.Module):
        rebuilt.marked.add(id(owner))  # its parameters are trained: a copy in any case
        rebuilt.marked |= _reaching([loss], {id(owner)})
    for given, own in zip(network.parameters(), copy.parameters(), strict=True):
        for hook in _hooks_on(given):
            own.register_hook(rebuilt(hook))  # type: ignore[no-untyped-call]
    for layer in copy.modules():
        for functions in _functions_of(layer):
            functions.update(
                {
                    key: rebuilt(value)
                    for key, value in functions.items()
                    if isinstance(value, _FUNCTIONS)
                }
            )
    return Objective(copy, rebuilt(loss), calling)


def is_linked(network: nn.Module, loss: Loss) -> bool:
    """Whether the loss, or a hook, can reach the network or a part of it."""
    parts = {id(part) for part in (*network.modules(), *network.parameters(), *network.buffers())}
    roots = [loss, *_functions(network)]
    return bool(_reaching(roots, parts)) or id(loss) in parts


def _hooks_on(parameter: Tensor) -> list[Callable[[Tensor], Tensor | None]]:
    return list((parameter._backward_hooks or {}).values())


def hooked(parameter: Tensor, gradient: Tensor) -> Tensor:
    """What the hooks on a parameter make of its gradient."""
    for hook in _hooks_on(parameter):
        made = hook(gradient)
        gradient = gradient if made is None else made
    return gradient


def _post_hooks(parameter: Tensor) -> object:
    return getattr(parameter, "_post_accumulate_grad_hooks", None)


def _functions_of(layer: nn.Module) -> Iterable[dict[Any, Any]]:
    """Where a layer keeps functions: its hooks, and a `forward` that was put in its place."""
    yield from (getattr(layer, kind) for kind in _MODULE_HOOKS)
    yield vars(layer)


def _functions(network: nn.Module) -> list[object]:
    """All functions that a network keeps, also hooks on parameters."""
    kept = (some for layer in network.modules() for some in _functions_of(layer))
    functions = [
        function for some in kept for function in some.values() if isinstance(function, _FUNCTIONS)
    ]
    return [
        *functions,
        *(hook for parameter in network.parameters() for hook in _hooks_on(parameter)),
    ]


def _computed(network: nn.Module) -> Iterable[Tensor]:
    """Tensors that layers keep from a forward pass, which PyTorch does not copy."""
    for layer in network.modules():
        for value in vars(layer).values():
            if isinstance(value, Tensor) and not value.is_leaf:
                yield value


def _owner(loss: object) -> object:
    """What a loss is, or is a method of."""
    if isinstance(loss, partial):
        return _owner(loss.func)
    return loss.__self__ if isinstance(loss, MethodType) else loss


def _children(value: object) -> Sequence[object]:
    """What the user's code can reach from a value in one step."""
    if isinstance(value, CellType):
        return [value.cell_contents] if _is_filled(value) else []
    if isinstance(value, FunctionType):
        if not is_users(value):
            return []
        known = value.__globals__
        read = [known[name] for name in globals_of(value.__code__) if name in known]
        return [*(value.__closure__ or ()), *(value.__defaults__ or ()), *read]
    if isinstance(value, MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, partial):
        return [value.func, *value.args, *value.keywords.values()]
    if type(value) in (list, tuple, dict):
        entries = list(value.values() if isinstance(value, dict) else cast(Sequence[object], value))
        return entries if len(entries) <= _LONGEST else []
    if isinstance(value, nn.Module):
        return [*value.children(), *value.parameters(), *value.buffers(), *vars(value).values()]
    return list(vars(value).values()) if _is_users_object(value) else []


def _is_filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _is_users_object(value: object) -> bool:
    return hasattr(value, "__dict__") and not isinstance(value, type) and is_users(type(value))


def _reaching(roots: Sequence[object], targets: Container[int]) -> set[int]:
    """The ids of all values on a way from these roots to one of the targets."""
    parents: dict[int, list[int]] = {}
    reached, waiting = [], list(roots)
    kept = list(roots)  # so that no id is used twice
    seen = {id(root) for root in roots}
    while waiting:
        value = waiting.pop()
        if id(value) in targets:
            reached.append(id(value))
            continue
        for child in _children(value):
            parents.setdefault(id(child), []).append(id(value))
            if id(child) not in seen:
                seen.add(id(child))
                kept.append(child)
                waiting.append(child)
    held: set[int] = set()
    while reached:
        for parent in parents.get(reached.pop(), ()):
            if parent not in held:
                held.add(parent)
                reached.append(parent)
    return held


class _Rebuilt:
    """Rebuilds what is marked, with what `memo` has in the place of what was copied."""

    def __init__(self, memo: dict[int, Any], marked: set[int]) -> None:
        self.memo, self.marked = memo, marked

    def __call__(self, value: Any) -> Any:
        if id(value) not in self.memo and id(value) in self.marked:
            self.memo[id(value)] = self._made(value)
        return self.memo.get(id(value), value)

    def _made(self, value: Any) -> Any:
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, MethodType):
            return MethodType(self(value.__func__), self(value.__self__))
        if isinstance(value, partial):
            keywords = {name: self(item) for name, item in value.keywords.items()}
            return partial(self(value.func), *map(self, value.args), **keywords)
        if isinstance(value, nn.Module):
            return self._module(value)
        if isinstance(value, dict):
            return {key: self(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(map(self, value))
        made = self.memo[id(value)] = object.__new__(type(value))
        vars(made).update({name: self(item) for name, item in vars(value).items()})
        return made

    def _function(self, given: FunctionType) -> FunctionType:
        known, old = given.__globals__, given.__closure__ or ()
        read = [name for name in globals_of(given.__code__) if name in known]
        changed = any(self._changes(known[name]) for name in read)
        scope = dict(known) if changed else known
        cells = tuple(
            self.memo.setdefault(id(cell), CellType()) if self._changes(cell) else cell
            for cell in old
        )
        made = FunctionType(given.__code__, scope, given.__name__, given.__defaults__, cells)
        made.__kwdefaults__, made.__qualname__ = given.__kwdefaults__, given.__qualname__
        made.__module__, made.__doc__ = given.__module__, given.__doc__
        self.memo[id(given)] = made  # which its own cells may hold
        for cell, own in zip(old, cells, strict=True):
            if not _is_filled(own):
                own.cell_contents = self(cell.cell_contents)
        if given.__defaults__:
            made.__defaults__ = tuple(map(self, given.__defaults__))
        if changed:
            scope.update({name: self(known[name]) for name in read})
        return made

    def _changes(self, value: object) -> bool:
        return id(value) in self.marked or id(value) in self.memo

    def _module(self, given: nn.Module) -> nn.Module:
        name = type(given).__name__
        try:
            return deepcopy(given, self.memo)
        except Exception as error:
            raise BadInput("loss", name, f"cannot be copied: {format_error(error)}") from error
