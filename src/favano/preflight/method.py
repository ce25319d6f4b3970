"""A method tried out on a tiny model: what it declares is checked, not believed."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np

from favano.errors import BadInput, require
from favano.methods.arrays import coefficients, units
from favano.methods.method import ClientUpdates
from favano.methods.registry import AnyMethod
from favano.types import Floats, Ints, Stack, Vector

_SIZE, _ANSWERS = 5, 2


def check_method(method: AnyMethod) -> None:
    """Refuse a method that is not what it says: pure, and what it declares of itself.

    Two updates in a row of a model of five numbers, and what the clients make of them, in the
    context that the method is bound to. Without data, client i has i + 1 samples.
    """
    context = method.context

    def count() -> Floats:
        return np.arange(1.0, context.clients + 1)

    # A copy, so that nothing that it caches outlives the check.
    bound = method.bind(replace(context, count_samples=context.count_samples or count))
    ends = [_twice(bound, model) for model in range(3)]
    rule = (
        "gives another result for the same client updates: it must not draw at random, nor remember"
    )
    require(np.array_equal(_twice(bound, 0), ends[0]), "method", method.name, rule)
    if method.linear:
        first, second, both = ends
        rule = "declares itself linear, but what it makes of a sum is not the sum"
        require(
            np.allclose(first + second, both, rtol=1e-9, atol=1e-9), "method", method.name, rule
        )
    if method.distances:
        rule = "declares that it reads nothing but distances of models, which is not so"
        require(_knows_only_distances(bound), "method", method.name, rule)


def _knows_only_distances(method: AnyMethod) -> bool:
    """Whether an update of sums of models that know only their lengths is that of the models."""
    import torch

    random = np.random.default_rng(7)
    client = _answering(method, 0)
    last = 1 + len(client)
    models = random.standard_normal((2 * last - 1, _SIZE))
    basis = np.concatenate([models[:1], models[1:] - models[0]])
    known = units(basis @ basis.T)

    def updated(given: Stack) -> Vector:
        state = method.init(given[0])
        return method.aggregate(state, _answers(client, 0, given[1:last], given[last:])).model

    try:
        (combined,) = coefficients([updated(known)]) @ models
    except (AttributeError, TypeError):
        return False
    return np.allclose(combined, np.asarray(updated(torch.from_numpy(models))))


def _answering(method: AnyMethod, version: int) -> Ints:
    """Clients that answer at an update: two, or the only one."""
    clients = method.context.clients
    return (version + np.arange(min(_ANSWERS, clients))) % clients


def _answers(client: Ints, version: int, start: Stack, end: Stack) -> ClientUpdates:
    return ClientUpdates(client, client + 1, client, np.full(len(client), 0.1), version, start, end)


def _twice(method: AnyMethod, model: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The server model after two updates, and what clients make of it.

    All models of number 2 are the sums of those of number 0 and 1.
    """
    import torch

    def drawn(place: int, *shape: int) -> torch.Tensor:
        def draw(which: int) -> torch.Tensor:
            random = np.random.default_rng([place, which])
            return torch.from_numpy(random.standard_normal(shape))

        return draw(0) + draw(1) if model == 2 else draw(model)

    with method.hook("init"):
        state = method.init(drawn(0, _SIZE))
    _check_model(method, "init", state)
    for version in range(2):
        client = _answering(method, version)
        shape = len(client), _SIZE
        start, end = drawn(2 * version + 1, *shape), drawn(2 * version + 2, *shape)
        before = deepcopy((state, start, end))
        with method.hook("aggregate"):
            after = method.aggregate(state, _answers(client, version, start, end))
        rule = "changes its arguments in aggregate; return a new state instead"
        require(same(before, (state, start, end)), "method", method.name, rule)
        _check_model(method, "aggregate", after)
        state = after
    whole = deepcopy((state, end))
    with method.hook("next_client_model"):
        own = method.next_client_model(state.model, end)
    with method.hook("gradient_correction"):
        correction = method.gradient_correction(state, client)
    vectors = [own, correction]
    for hook, returned in (("next_client_model", own), ("gradient_correction", correction)):
        rule = f"{hook} must return a tensor with one model per client, (k, P), or None"
        right = returned is None or (isinstance(returned, torch.Tensor) and returned.shape == shape)
        require(right, "method", method.name, rule)
    vectors += _stepped(method, drawn(5, _ANSWERS, _SIZE), drawn(6, method.memory, _ANSWERS, _SIZE))
    rule = "changes its arguments in next_client_model or gradient_correction; return new models"
    require(same(whole, (state, end)), "method", method.name, rule)
    rows = [vector.reshape(-1) for vector in vectors if vector is not None]
    return np.asarray(torch.cat([state.model, *rows]), dtype=np.float64)


def check_shape(method: str, hook: str, shape: tuple[int, ...], server: tuple[int, ...]) -> None:
    """Refuse a model of another shape than the server's."""
    rule = f"{hook} returns a model of shape {tuple(shape)}; need that of the server's model"
    require(shape == server, "method", method, rule)


def _check_model(method: AnyMethod, hook: str, state: object) -> None:
    """Refuse a state without a model of finite numbers."""
    import torch

    model = getattr(state, "model", None)
    rule = f"{hook} must return a state whose field model is a tensor, such as favano.ModelState"
    if not isinstance(model, torch.Tensor):
        raise BadInput("method", method.name, rule)
    check_shape(method.name, hook, model.shape, (_SIZE,))
    rule = f"{hook} makes NaN or infinity of finite models"
    require(bool(model.isfinite().all()), "method", method.name, rule)


def _stepped(method: AnyMethod, gradient: Stack, memory: Stack) -> tuple[Stack, ...]:
    """What a local step makes of a gradient and of a client's memory."""
    given = tuple(memory)
    before = deepcopy((gradient, given))
    with method.hook("local_step"):
        direction, renewed = method.local_step(gradient, given)
    rule = "changes its arguments in local_step; return new vectors instead"
    require(same(before, (gradient, given)), "method", method.name, rule)
    rule = f"keeps {len(renewed)} vectors after a step, but declares memory={method.memory}"
    require(len(renewed) == method.memory, "method", method.name, rule)
    stepped = direction, *renewed
    middle = np.s_[..., -1, 1:4]  # numbers of one client, which must not depend on the others
    with method.hook("local_step"):
        part, kept = method.local_step(gradient[middle].clone(), tuple(memory[middle].clone()))
        pairs = zip((part, *kept), stepped, strict=True)
        alone = all(np.allclose(piece, whole[middle]) for piece, whole in pairs)
    require(
        alone, "method", method.name, "local_step must treat each number of a gradient on its own"
    )
    return stepped


def same(value: object, other: object) -> bool:
    """Whether two values are equal, tensors and arrays in them number by number, NaN to NaN."""
    import torch

    if isinstance(value, torch.Tensor) and isinstance(other, torch.Tensor):
        alike = value.shape == other.shape
        return alike and bool(torch.isclose(value, other, rtol=0, atol=0, equal_nan=True).all())
    if isinstance(value, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(value, other, equal_nan=value.dtype.kind in "fc")
    if isinstance(value, tuple | list) and isinstance(other, tuple | list):
        return len(value) == len(other) and all(map(same, value, other))
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(same(value[key], other[key]) for key in value)
    return bool(value == other or (value != value and other != other))
