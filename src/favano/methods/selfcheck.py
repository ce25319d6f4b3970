"""A method tried out on a tiny model: what it declares is checked, not believed."""

from __future__ import annotations

from copy import deepcopy

import numpy as np

from favano.errors import BadInput, need
from favano.methods.arrays import units
from favano.methods.clock import Clock
from favano.methods.method import Answers
from favano.methods.registry import AnyMethod
from favano.methods.world import World
from favano.timing import two_speeds
from favano.types import Stack, Vector

_CLIENTS, _SIZE, _ANSWERS = 4, 5, 2


def check_method(method: AnyMethod) -> None:
    """Refuse a method that is not what it says: pure, and what it declares of itself.

    Two updates in a row of a model of five numbers, with four clients, and what the clients make
    of them.
    """
    world = World(
        two_speeds(_CLIENTS), 3, Clock(selected=_ANSWERS), lambda: np.arange(1.0, _CLIENTS + 1)
    )
    bound = method.bind(world)
    try:
        ends = [_twice(bound, model) for model in range(3)]
    except BadInput:
        raise
    except Exception as error:
        where = f"{type(error).__name__}: {error}"
        raise BadInput("method", method.name, f"cannot make an update: {where}") from error
    if method.linear:
        first, second, both = ends
        rule = "declares itself linear, but what it makes of a sum is not the sum"
        need(np.allclose(first + second, both, rtol=1e-9, atol=1e-9), "method", method.name, rule)
    if method.distances:
        rule = "declares that it reads nothing but distances of models, which is not so"
        need(_knows_only_distances(bound), "method", method.name, rule)


def _knows_only_distances(method: AnyMethod) -> bool:
    """Whether an update of sums of models that know only their lengths is that of the models."""
    import torch

    random = np.random.default_rng(7)
    models = random.standard_normal((1 + 2 * _ANSWERS, _SIZE))
    basis = np.concatenate([models[:1], models[1:] - models[0]])
    known, client = units(basis @ basis.T), np.arange(_ANSWERS)

    def updated(given: Stack) -> Vector:
        server, start, end = given[0], given[1 : 1 + _ANSWERS], given[1 + _ANSWERS :]
        answers = Answers(client, client + 1, client, np.full(_ANSWERS, 0.1), 0, start, end)
        return method.update(method.init(server), answers).model

    try:
        found = np.asarray(updated(known)) @ models
    except AttributeError:
        return False
    return np.allclose(found, np.asarray(updated(torch.from_numpy(models))))


def _twice(method: AnyMethod, model: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The server model after two updates, and what clients make of it.

    All models of number 2 are the sums of those of number 0 and 1.
    """
    import torch

    def drawn(place: int, *shape: int) -> torch.Tensor:
        def one(which: int) -> torch.Tensor:
            random = np.random.default_rng([place, which])
            return torch.from_numpy(random.standard_normal(shape))

        return one(0) + one(1) if model == 2 else one(model)

    state = method.init(drawn(0, _SIZE))
    rule = "need a state with the field model, as favano.ModelState"
    need(hasattr(state, "model"), "method", method.name, rule)
    for version in range(2):
        start, end = (
            drawn(2 * version + 1, _ANSWERS, _SIZE),
            drawn(2 * version + 2, _ANSWERS, _SIZE),
        )
        client = np.array([version, version + 1])
        answers = Answers(client, client + 1, client, np.full(2, 0.1), version, start, end)
        before = deepcopy((state, start, end))
        after = method.update(state, answers)
        rule = "changes its arguments in update; return a new state instead"
        need(_same(before, (state, start, end)), "method", method.name, rule)
        state = after
    shape = tuple(state.model.shape)
    need(shape == (_SIZE,), "method", method.name, f"gives a model of shape {shape}")
    whole = deepcopy((state, end))
    found = [method.restart(state.model, end), method.drift(state, client)]
    found += _stepped(method, drawn(5, _ANSWERS, _SIZE), drawn(6, method.memory, _ANSWERS, _SIZE))
    rule = "changes its arguments in restart or drift; return new models instead"
    need(_same(whole, (state, end)), "method", method.name, rule)
    rows = [one.reshape(-1) for one in found if one is not None]
    return np.asarray(torch.cat([state.model, *rows]), dtype=np.float64)


def _stepped(method: AnyMethod, gradient: Stack, memory: Stack) -> list[Stack | None]:
    """What a local step makes of a gradient and of a client's memory."""
    given = tuple(memory)
    before = deepcopy((gradient, given))
    direction, renewed = method.step(gradient, given)
    rule = "changes its arguments in step; return new vectors instead"
    need(_same(before, (gradient, given)), "method", method.name, rule)
    rule = f"keeps {len(renewed)} vectors after a step, but declares memory={method.memory}"
    need(len(renewed) == method.memory, "method", method.name, rule)
    return [direction, *renewed]


def _same(one: object, other: object) -> bool:
    """Whether two values are equal, tensors and arrays in them number by number."""
    import torch

    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return bool(one == other)
