"""Digests of models: in order, whatever their size."""

from __future__ import annotations

import pytest
import torch

from favano.engine import model_digest
from favano.engine.model_digests import ModelDigests

SIZES = [3, 1 << 20]  # the digest of a large model is made by a thread


def models(size: int) -> list[torch.Tensor]:
    return [torch.full((size,), float(number)) for number in range(5)]


@pytest.mark.parametrize("size", SIZES)
def test_in_order(size: int) -> None:
    digests, made = ModelDigests(), models(size)
    for model in made[:3]:
        digests.add(model)
    expected = [model_digest(model) for model in made]
    assert digests.all() == expected[:3]
    digests.drop_after(2)
    digests.add(made[2])
    saved, later = [*digests.all()], ModelDigests()
    later.restore(saved)
    for model in made[3:]:
        later.add(model)
    assert later.all() == expected
    assert len(set(expected)) == len(made)


def test_every_bit_counts_and_every_type_has_bytes() -> None:
    zeros = torch.zeros(3)
    assert model_digest(zeros) != model_digest(-zeros)
    assert model_digest(zeros) == model_digest(torch.zeros(3, 2)[:, 0])
    assert model_digest(zeros.bfloat16()) != model_digest(zeros.double())


@pytest.mark.gpu
@pytest.mark.parametrize("size", SIZES)
def test_models_on_a_gpu(size: int) -> None:
    digests, made = ModelDigests(), models(size)
    for model in made:
        digests.add(model.cuda())
    assert digests.all() == [model_digest(model) for model in made]
