"""Our own functions of sequences against PyTorch's, gradients included, lane by lane.

With `TRITON_INTERPRET=1` they also run without a GPU.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from favano.training import product_precision
from favano.training.dropout import KeyedDropout
from favano.types import Precision

pytestmark = [] if os.environ.get("TRITON_INTERPRET") == "1" else [pytest.mark.gpu]

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
Function: TypeAlias = Callable[..., Tensor]


def draw(*shape: int, seed: int = 0) -> Tensor:
    """Numbers of few bits, whose products are exact in TF32, too."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randint(-16, 17, shape, generator=generator) / 16).to(DEVICE)


def gradients(
    function: Function,
    given: list[Tensor],
    shared: list[Tensor | None],
    ours: bool,
    p: float,
    precision: Precision = "tf32",
) -> list[Tensor]:
    """The function and its gradients, with kernels, or in float64 without."""
    from favano.training.gpu_kernels import LaneFunctions

    if not ours:
        given = [tensor.double() for tensor in given]
        shared = [
            tensor.double() if tensor is not None and tensor.is_floating_point() else tensor
            for tensor in shared
        ]
    free = [tensor.detach().requires_grad_() for tensor in given]
    keys = torch.arange(len(given[0]), device=DEVICE) + 12345

    def call(key: Tensor, *tensors: Tensor) -> Tensor:
        with KeyedDropout(key) as dropout:
            if not ours:
                return function(*tensors, *shared)
            with LaneFunctions(dropout if p else None):
                return function(*tensors, *shared)

    with product_precision(precision), sdpa_kernel(SDPBackend.MATH):
        out = vmap(call, randomness="different")(keys, *free)
        rising = (torch.arange(out.numel(), device=DEVICE) % 7 - 3).view_as(out).to(out.dtype)
        return [out.detach(), *torch.autograd.grad(out, free, rising)]


def check(
    function: Function,
    given: list[Tensor],
    *shared: Tensor | None,
    tolerance: float = 2e-6,
    p: float = 0.0,
    precision: Precision = "tf32",
) -> None:
    ours, wanted = (
        gradients(function, given, [*shared], kind, p, precision) for kind in (True, False)
    )
    for number, (actual, value) in enumerate(zip(ours, wanted, strict=True)):
        scale = float(value.abs().max()) + 1e-6
        error = float((actual.double() - value).abs().max())
        assert error <= tolerance * scale, (number, error, scale)


def calls_of(monkeypatch: pytest.MonkeyPatch, *names: str) -> list[str]:
    """Records which of the kernels' functions are applied."""
    from favano.training.gpu_kernels import lane_functions

    calls: list[str] = []
    for name in names:
        original = getattr(lane_functions, name)

        def apply(*given: object, name: str = name, original: Function = original) -> Tensor:
            calls.append(name)
            return original.apply(*given)  # type: ignore[attr-defined, no-any-return]

        monkeypatch.setattr(lane_functions, name, type(name, (), {"apply": staticmethod(apply)}))
    return calls


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize(
    ("lanes", "batch", "length", "inputs", "outputs"),
    [
        (1, 5, 65, 16, 16),
        (3, 37, 7, 28, 64),
        (2, 13, 28, 65, 192),
        (2, 11, 28, 96, 10),
        (1, 9, 33, 40, 256),
    ],
)
def test_linear(
    lanes: int,
    batch: int,
    length: int,
    inputs: int,
    outputs: int,
    turned: bool,
    bias: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also of a sequence whose batch is second in memory."""
    calls = calls_of(monkeypatch, "Linear")
    images = draw(lanes, length, batch, inputs)
    given = [images.transpose(1, 2) if turned else images, draw(lanes, outputs, inputs, seed=1)]
    if bias:
        given.append(draw(lanes, outputs, seed=2))
    check(functional.linear, given)
    assert calls == ["Linear"]


@pytest.mark.parametrize("affine", ["", "weight", "weight and bias"])
@pytest.mark.parametrize(
    ("lanes", "batch", "length", "width"), [(1, 1, 1, 4), (3, 5, 7, 64), (2, 5, 70, 30)]
)
def test_layer_norm(
    lanes: int, batch: int, length: int, width: int, affine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = calls_of(monkeypatch, "LayerNormalisation")
    given = [10 + draw(lanes, batch, length, width)]
    given += [
        draw(lanes, width, seed=seed) for seed in range(len(affine.split(" and ")) if affine else 0)
    ]

    def norm(images: Tensor, weight: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
        return functional.layer_norm(images, (width,), weight, bias)

    check(norm, given, tolerance=2e-5)
    assert calls == ["LayerNormalisation"]


def attention(
    causal: bool,
    p: float,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
) -> Tensor:
    return functional.scaled_dot_product_attention(query, key, value, mask, p, causal)


MASKS = ["", "causal", "padding", "added", "hidden"]


def mask_of(kind: str, batch: int, length: int) -> Tensor | None:
    if kind == "added":
        return draw(length, length, seed=5)
    if kind not in ("padding", "hidden"):
        return None
    there = torch.arange(length, device=DEVICE) < torch.arange(1, batch + 1, device=DEVICE)[:, None]
    if kind == "hidden":  # the first query sees nothing
        there = torch.ones_like(there)
        return there[:, None, None] & (torch.arange(length, device=DEVICE) > 0)[:, None]
    return there[:, None, None, :]


SHAPES = [(1, 1, 1, 1, 4), (2, 5, 3, 28, 16), (2, 1, 2, 65, 64), (1, 2, 1, 128, 64)]


@pytest.mark.parametrize(
    ("lanes", "batch", "heads", "length", "size", "kind", "p"),
    [
        *((3, 5, 2, 7, 8, kind, p) for kind in MASKS for p in (0.0, 0.3)),
        *((*shape, *how) for shape in SHAPES for how in (("", 0.0), ("causal", 0.3))),
    ],
)
def test_attention(
    lanes: int, batch: int, heads: int, length: int, size: int, kind: str, p: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    calls = calls_of(monkeypatch, "Attention")
    given = [
        draw(lanes, batch, length, heads, size, seed=seed).transpose(2, 3) for seed in (1, 2, 3)
    ]
    mask, exact = mask_of(kind, batch, length), length < 28  # longer ones on tensor cores
    check(
        partial(attention, kind == "causal", p), given, mask,
        tolerance=1e-5 if exact else 5e-3, p=p, precision="float32" if exact else "tf32",
    )  # fmt: skip
    assert calls == ["Attention"]


def test_attention_to_another_sequence() -> None:
    """Of other queries, and with a mask that is learned in each lane."""
    query, key, value = (
        draw(2, 3, 2, 9, 8),
        draw(2, 3, 2, 21, 8, seed=1),
        draw(2, 3, 2, 21, 8, seed=2),
    )
    check(
        partial(attention, False, 0.0),
        [query, key, value, draw(2, 1, 9, 21, seed=3)],
        tolerance=3e-3,
    )
    check(partial(attention, False, 0.0), [query[:, 0], key[:, 0], value[:, 0]], tolerance=3e-3)


@pytest.mark.parametrize("p", [0.1, 1.0])
def test_dropout(p: float) -> None:
    check(partial(functional.dropout, p=p), [draw(3, 5, 7, 11)], p=p)


def network_gradients(
    network: nn.Module, images: Tensor, ours: bool, **others: Tensor | bool
) -> dict[str, Tensor]:
    names = [name for name, _ in network.named_parameters()]
    weights = [
        (parameter.detach() + 0.1 * draw(len(images), *parameter.shape, seed=number)).to(images)
        for number, parameter in enumerate(network.parameters())
    ]

    def function(images: Tensor, *weights: Tensor) -> Tensor:
        named = dict(zip(names, weights, strict=True))
        out: Tensor = functional_call(network, named, (images,), others)
        return out

    results = gradients(function, [images, *weights], [], ours, 1.0)
    return dict(zip(["out", "images", *names], results, strict=True))


@pytest.mark.parametrize(
    ("batch_first", "mask"),
    [(True, ""), (True, "causal"), (True, "padding"), (True, "both"), (False, "both")],
)
@pytest.mark.parametrize(
    ("norm_first", "activation", "p", "bias"),
    [(False, "relu", 0.0, True), (True, "gelu", 0.2, False)],
)
def test_encoder_layers(
    norm_first: bool, activation: str, p: float, bias: bool, batch_first: bool, mask: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    torch.manual_seed(0)
    calls = calls_of(monkeypatch, "SelfAttention", "Linear", "LayerNormalisation")
    layer = nn.TransformerEncoderLayer(
        32, 4, 48, p, activation, batch_first=batch_first, norm_first=norm_first, bias=bias
    ).to(DEVICE)  # fmt: skip
    images = draw(2, 41, 7, 32)
    others: dict[str, Tensor | bool] = {}
    batch, length = (41, 7) if batch_first else (7, 41)
    if mask in ("causal", "both"):
        others["src_mask"] = torch.ones(length, length, device=DEVICE, dtype=torch.bool).triu(1)
    if mask in ("padding", "both"):
        others["src_key_padding_mask"] = (
            torch.arange(length, device=DEVICE)
            > torch.arange(batch, device=DEVICE)[:, None] % length
        )
    ours = network_gradients(layer, images, True, **others)
    assert sorted(calls) == ["LayerNormalisation"] * 2 + ["Linear"] * 4 + ["SelfAttention"]
    wanted = network_gradients(layer.double(), images, False, **others)
    for name, value in wanted.items():
        error = float((ours[name].double() - value).norm())
        limit = 5e-2 if torch.cuda.is_available() else 1e-5  # TF32
        assert error <= limit * float(value.norm()) + 1e-6, (name, error)


def test_half_precision() -> None:
    """Gradients are as close to the exact ones as rounding allows."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 48, 0.0, "gelu", batch_first=True).to(DEVICE)
    images = draw(2, 41, 7, 32)
    wanted = network_gradients(layer, images, False)
    half = images.bfloat16()
    ours = network_gradients(layer, half, True)
    for name, value in wanted.items():
        assert ours[name].dtype == torch.bfloat16
        assert float((ours[name].double() - value).norm()) <= 0.15 * float(value.norm()), name


def changed_in_place(images: Tensor, weights: Tensor) -> Tensor:
    hidden = functional.linear(images, weights).relu_()
    hidden = functional.layer_norm(hidden, hidden.shape[-1:]).mul_(2)
    heads = hidden.view(*hidden.shape[:-1], 2, 8).transpose(1, 2)
    return functional.scaled_dot_product_attention(heads, heads, heads).add_(1)


def test_results_may_be_changed_in_place() -> None:
    given = [draw(2, 5, 60, 16), draw(2, 16, 16, seed=1)]
    check(changed_in_place, given, tolerance=5e-3 if torch.cuda.is_available() else 1e-5)


def test_second_derivatives_are_refused() -> None:
    """They would be wrong in silence."""
    from favano.training.gpu_kernels import LaneFunctions

    images = draw(2, 5, 7, 16).requires_grad_()
    with LaneFunctions():
        out = vmap(lambda images: functional.layer_norm(images, (16,)))(images)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(out.square().sum(), images, create_graph=True)


def test_functions_without_kernels_are_pytorchs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shapes, types and arguments that no kernel has."""
    names = ("Attention", "SelfAttention", "Linear", "LayerNormalisation")
    calls = calls_of(monkeypatch, *names)
    plain = partial(attention, False, 0.0)
    wide = [draw(2, 3, 2, 9, 72, seed=seed) for seed in range(3)]
    check(plain, wide, tolerance=3e-3)
    long = [draw(2, 1, 1, 40, 8, seed=seed) for seed in range(3)]
    check(plain, long, tolerance=1e-5, precision="float32")
    check(plain, [draw(2, 1, 1, 130, 8, seed=seed) for seed in range(3)], tolerance=3e-3)
    rows = [draw(2, 5, 70, 16), draw(2, 8, 16)]
    check(functional.linear, rows, precision="float32")
    check(functional.linear, [rows[0][:, :, :7], rows[1]])  # few rows
    check(functional.linear, [draw(2, 300, 16), draw(2, 8, 16)])  # not a sequence
    check(functional.linear, [draw(2, 5, 70, 16)], draw(8, 16))  # shared weights
    check(lambda images: functional.layer_norm(images, (5, 6)), [draw(2, 9, 5, 6)], tolerance=2e-5)
    heads = nn.MultiheadAttention(16, 2, batch_first=True, add_zero_attn=True).to(DEVICE)
    images = draw(2, 3, 5, 16)

    def attended(images: Tensor) -> Tensor:
        out: Tensor = heads.to(images.dtype)(images, images, images)[0]
        return out

    check(attended, [images], tolerance=3e-3)
    assert not calls
