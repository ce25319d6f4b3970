from __future__ import annotations

import torch
from torch import nn

from favano.models.transformer import Block, Transformer


def test_attention_is_pytorchs() -> None:
    torch.manual_seed(0)
    block, inputs = Block(12, 3), torch.randn(2, 5, 12)
    reference = nn.TransformerEncoderLayer(
        12, 3, 48, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    names = {
        "self_attn.in_proj_weight": block.attention.weight,
        "self_attn.in_proj_bias": block.attention.bias,
        "self_attn.out_proj.weight": block.mix.weight,
        "self_attn.out_proj.bias": block.mix.bias,
        "linear1.weight": block.wide.weight,
        "linear1.bias": block.wide.bias,
        "linear2.weight": block.narrow.weight,
        "linear2.bias": block.narrow.bias,
    }
    reference.load_state_dict(names, strict=False)
    assert torch.allclose(block(inputs), reference(inputs), atol=1e-5)


def test_positions_matter() -> None:
    torch.manual_seed(0)
    there, back = Transformer(4, 9)(torch.tensor([[1, 2, 3, 4], [2, 1, 3, 4]]))
    assert not torch.allclose(there, back, atol=1e-6)
