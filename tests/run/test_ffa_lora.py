"""The example: A is frozen, the base is in bfloat16, and averages of adapters are exact."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import torch
from torch import nn

EXAMPLE = Path(__file__).parents[2] / "examples" / "ffa_lora.py"


def example() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE))


def test_b_alone_is_trained_and_sent() -> None:
    assert len(EXAMPLE.read_text().splitlines()) < 60
    names = example()
    net = names["network"]()
    base = net[0].base.weight.clone()
    result = names["simulated"](net, horizon=300)
    assert {*result.models[0]} == {"0.b.weight", "2.b.weight"}
    assert result.rows[0].bits_down == 32 * 4 * (256 * 4 + 3 * 4)
    assert result.rows[-1].loss < result.rows[0].loss
    assert (net[0].base.weight.dtype, net[0].a.weight.dtype) == (torch.bfloat16, torch.float32)
    assert torch.equal(net[0].base.weight, base)


def test_averages_are_exact_with_one_a_and_not_with_two() -> None:
    Lora = example()["Lora"]
    torch.manual_seed(0)
    base, inputs = nn.Linear(6, 5), torch.randn(7, 6)
    for frozen in (True, False):
        layers = [Lora(base, 2, frozen) for _ in range(2)]
        mean = Lora(base, 2, frozen)
        if frozen:  # the A that all have
            for layer in (*layers, mean):
                layer.a.load_state_dict(layers[0].a.state_dict())
        for layer in layers:
            nn.init.normal_(layer.b.weight)
        trained = [dict(layer.named_parameters()) for layer in layers]
        with torch.no_grad():
            for name, parameter in mean.named_parameters():
                if parameter.requires_grad:
                    parameter.copy_((trained[0][name] + trained[1][name]) / 2)
            outputs = torch.stack([layer(inputs) for layer in layers]).mean(0)
            assert torch.allclose(mean(inputs), outputs, atol=1e-5) == frozen
