"""How a network is called: what it takes for a batch of inputs, and what its outputs are.

Everywhere else the inputs of a sample are one tensor. Several, as tokens and their attention mask,
lie side by side in it, flattened, and are taken apart where the network is called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import torch
from torch import Tensor, nn

from favano.errors import require

IGNORED = -100  # a label that counts nowhere, as in PyTorch's cross entropy
LABELS = "labels"  # what networks with a loss of their own call them

Style: TypeAlias = Literal["one", "position", "name", "mapping"]
Kind: TypeAlias = Literal["tensor", "logits", "loss"]


class Field(NamedTuple):
    """One of several inputs of a network."""

    name: str  # or its position
    shape: tuple[int, ...]  # of one sample
    dtype: torch.dtype


@dataclass(frozen=True)
class Calling:
    """How a network is called.

    Args:
        fields: its inputs, if they are several.
        style: how it takes them: as one tensor, by position, by name, or as one mapping.
        kind: what its output is: a tensor, an object with `logits`, or one with a `loss`, of which
            every sample then has a copy as its output.
    """

    fields: tuple[Field, ...] = ()
    style: Style = "one"
    kind: Kind = "tensor"

    def made(self, network: Callable[..., Any], inputs: Tensor) -> Any:
        """What the network makes of a batch of inputs."""
        if self.style == "one":
            return network(inputs)
        parts = unpacked(inputs, self.fields)
        if self.style == "position":
            return network(*parts)
        named = {field.name: part for field, part in zip(self.fields, parts, strict=True)}
        return network(**named) if self.style == "name" else network(named)

    def outputs(self, network: nn.Module, inputs: Tensor) -> Tensor:
        """The outputs of a network, in the form in which losses and metrics take them."""
        made = self.made(network, inputs)
        if self.kind == "logits":
            return logits_of(made)
        if self.kind == "loss":
            made = part_of(made, "loss").expand(len(inputs))
        return cast(Tensor, made)


def part_of(made: object, name: str) -> Any:
    """A part of what a network gives, by its name; None if there is none."""
    return made.get(name) if isinstance(made, Mapping) else getattr(made, name, None)


def logits_of(made: object) -> Tensor:
    """The logits, with classes as dimension 1, where cross entropy has them, and in 32 bits.

    Those of sequences, (N, T, classes), have them last.
    """
    logits: Tensor = part_of(made, "logits")
    wide = logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits
    return wide.movedim(-1, 1) if wide.ndim == 3 else wide


def packed(name: str, parts: Mapping[str, Tensor]) -> tuple[Tensor, tuple[Field, ...]]:
    """Several inputs side by side in one tensor, (N, numbers); `name` is whose they are.

    Whole numbers among floats become floats, which must hold them exactly.
    """
    lengths = {len(part) for part in parts.values()}
    rule = f"need as many rows in each of {', '.join(parts)}"
    require(len(lengths) == 1, name, " and ".join(map(str, sorted(lengths))), rule)
    kinds = [part.dtype for part in parts.values()]
    floats = [kind for kind in kinds if kind.is_floating_point]
    common = max(floats, key=lambda kind: kind.itemsize) if floats else torch.int64
    for key, part in parts.items():
        rule = "need real numbers"
        require(not part.is_complex(), name, f"{key} of {part.dtype}", rule)
        exact = (
            part.is_floating_point()
            or not floats
            or bool((part.to(common).to(part.dtype) == part).all())
        )
        rule = f"are too large beside inputs of {common}, which cannot hold them exactly"
        require(exact, name, f"whole numbers of {key}", rule)
    flat = [part.reshape(len(part), -1).to(common) for part in parts.values()]
    fields = [Field(key, tuple(part.shape[1:]), part.dtype) for key, part in parts.items()]
    return torch.cat(flat, dim=1), tuple(fields)


def unpacked(inputs: Tensor, fields: Sequence[Field]) -> list[Tensor]:
    """The several inputs of a batch."""
    parts = torch.split(inputs, [prod(field.shape) for field in fields], dim=1)
    return [
        part.reshape(len(inputs), *field.shape).to(field.dtype)
        for part, field in zip(parts, fields, strict=True)
    ]


def takes(network: nn.Module, name: str) -> bool:
    """Whether a network takes an argument of this name."""
    known = inspect.signature(network.forward).parameters
    return name in known or any(each.kind is each.VAR_KEYWORD for each in known.values())


def style_of(network: nn.Module, fields: Sequence[Field]) -> Style:
    """How a network takes several inputs: those without names by position.

    Those with names by name, or as one mapping where the network has but one argument, of none of
    the names.
    """
    if not fields or fields[0].name.isdigit():
        return "position" if fields else "one"
    known = inspect.signature(network.forward).parameters
    if len(known) == 1 and not any(takes(network, field.name) for field in fields):
        return "mapping"
    unknown = [field.name for field in fields if not takes(network, field.name)]
    rule = (
        f"takes no {' and no '.join(unknown)}, only {', '.join(known) or 'nothing'}; "
        "choose the inputs by columns=([...], targets)"
    )
    require(not unknown, "model", type(network).__name__, rule)
    return "name"
