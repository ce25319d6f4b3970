"""How networks are called."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from favano.errors import BadInput
from favano.training.calling import Calling, Field, logits_of, packed, style_of, unpacked


def test_several_inputs_come_back_as_they_were() -> None:
    parts = {
        "tokens": torch.randint(0, 9, (5, 4)),
        "mask": torch.ones(5, 4, dtype=torch.bool),
        "pixels": torch.randn(5, 2, 3),
        "weight": torch.randn(5),
    }
    together, fields = packed("train", parts)
    assert (together.shape, together.dtype) == ((5, 15), torch.float32)
    for part, back in zip(parts.values(), unpacked(together[1:3], fields), strict=True):
        assert back.dtype == part.dtype
        assert torch.equal(back, part[1:3])
    numbers, _ = packed("train", {key: parts[key] for key in ("tokens", "mask")})
    assert numbers.dtype == torch.int64


def test_numbers_that_a_float_cannot_hold_are_refused() -> None:
    large = {"place": torch.tensor([2**24 + 1]), "x": torch.zeros(1)}
    rule = "^train=whole numbers of place: are too large beside inputs of torch.float32, which can"
    with pytest.raises(BadInput, match=rule):
        packed("train", large)
    packed("train", {"place": large["place"], "x": torch.zeros(1, dtype=torch.float64)})
    with pytest.raises(BadInput, match=r"^train=2 and 3: need as many rows in each of a, b$"):
        packed("train", {"a": torch.zeros(2), "b": torch.zeros(3)})


class ByName(nn.Module):
    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        return tokens if mask is None else tokens * mask


class AsMapping(nn.Module):
    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        return batch["tokens"] * batch["mask"]


class AnyNames(nn.Module):
    def forward(self, *given: Tensor, **named: Tensor) -> Tensor:
        return named["tokens"] * named["mask"] if named else given[0] * given[1]


@pytest.mark.parametrize("network", [ByName(), AsMapping(), AnyNames()])
def test_a_network_is_called_as_it_wants_to_be(network: nn.Module) -> None:
    parts = {"tokens": torch.arange(6).view(2, 3), "mask": torch.tensor([[1, 0, 1]] * 2)}
    for names in (["tokens", "mask"], ["0", "1"]):
        together, fields = packed("train", dict(zip(names, parts.values(), strict=True)))
        if names[0] == "0" and isinstance(network, AsMapping):
            continue
        calling = Calling(fields, style_of(network, fields))
        outputs = calling.outputs(network, together)
        assert torch.equal(outputs, parts["tokens"] * parts["mask"])


def test_an_input_that_a_network_does_not_take_is_refused() -> None:
    fields = [Field("tokens", (3,), torch.int64), Field("kinds", (3,), torch.int64)]
    rule = (
        r"^model=ByName: takes no kinds, only tokens, mask; choose the inputs by "
        r"columns=\(\[...\], targets\)$"
    )
    with pytest.raises(BadInput, match=rule):
        style_of(ByName(), fields)


def test_classes_of_logits_are_where_cross_entropy_has_them() -> None:
    logits = torch.randn(2, 5, 7).bfloat16()
    outputs = logits_of({"logits": logits})
    assert (outputs.shape, outputs.dtype) == ((2, 7, 5), torch.float32)
    assert torch.equal(outputs[1, :, 3], logits[1, 3].float())
    images = torch.randn(2, 7, 4, 4)
    assert torch.equal(logits_of({"logits": images}), images)
