"""Networks that are called as those of Hugging Face are, without its packages."""

from __future__ import annotations

from collections import OrderedDict
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

TOKENS, LENGTH = 11, 6


class ModelOutput(OrderedDict[str, Any]):
    """Parts by name, as items and as attributes; those that are None are left out."""

    def __init__(self, **parts: Any) -> None:
        super().__init__({key: part for key, part in parts.items() if part is not None})

    def __getattr__(self, name: str) -> Any:
        return self.get(name)


class CausalLM(nn.Module):
    """Reads tokens from left to right; its loss shifts the labels."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.config = SimpleNamespace(vocab_size=TOKENS)
        self.embedding = nn.Embedding(TOKENS, width)
        self.query, self.value = nn.Linear(width, width), nn.Linear(width, width)
        self.lm_head = nn.Linear(width, TOKENS, bias=False)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        **named: Any,
    ) -> ModelOutput:
        assert input_ids is not None
        hidden = self.embedding(input_ids)
        seen = torch.ones(input_ids.shape[1], input_ids.shape[1], device=hidden.device).tril()
        if attention_mask is not None:
            seen = seen * attention_mask[:, None, :]
        scores = (self.query(hidden) @ hidden.mT).masked_fill(seen == 0, -1e4)
        logits = self.lm_head(hidden + scores.softmax(-1) @ self.value(hidden))
        return ModelOutput(
            loss=None if labels is None else self.loss(logits, labels), logits=logits
        )

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        later = functional.pad(labels, (0, 1), value=-100)[:, 1:]
        return functional.cross_entropy(logits.flatten(0, 1), later.flatten())


class Smoothed(CausalLM):
    """With a loss that is no cross entropy of its logits."""

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return super().loss(logits, labels) + 0.1 * logits.square().mean()


class LossAlone(CausalLM):
    """Gives its loss and nothing else."""

    def forward(self, *given: Any, **named: Any) -> ModelOutput:
        return ModelOutput(loss=super().forward(*given, **named).loss)


class Classifier(CausalLM):
    """A class for each text."""

    def forward(self, *given: Any, labels: Tensor | None = None, **named: Any) -> ModelOutput:
        logits = super().forward(*given, **named).logits[:, -1, :3]
        loss = None if labels is None else functional.cross_entropy(logits, labels)
        return ModelOutput(loss=loss, logits=logits)


class Adapter(nn.Module):
    """A linear layer, frozen, with a correction of low rank."""

    def __init__(self, base: nn.Linear, rank: int = 2) -> None:
        super().__init__()
        self.base_layer = base
        self.lora_A = nn.ModuleDict({"default": nn.Linear(base.in_features, rank, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(rank, base.out_features, bias=False)})
        nn.init.zeros_(self.lora_B.get_parameter("default.weight"))

    def forward(self, inputs: Tensor) -> Tensor:
        low = self.lora_B["default"](self.lora_A["default"](inputs))
        output: Tensor = self.base_layer(inputs) + low
        return output


class PeftModel(nn.Module):
    """All that is not an adapter is frozen; arguments are handed on."""

    def __init__(self, network: CausalLM) -> None:
        super().__init__()
        network.requires_grad_(False)
        network.query, network.value = Adapter(network.query), Adapter(network.value)  # type: ignore[assignment]
        self.base_model = network

    def forward(self, *given: Any, **named: Any) -> Any:
        return self.base_model(*given, **named)


def texts(count: int = 200) -> dict[str, Tensor]:
    """Tokens that count up; a third are shorter, and padded."""
    first = torch.randint(0, TOKENS, (count, 1), generator=torch.Generator().manual_seed(0))
    tokens = (first + torch.arange(LENGTH)) % TOKENS
    mask = torch.ones_like(tokens)
    mask[::3, -2:] = 0
    return {
        "input_ids": tokens.masked_fill(mask == 0, 0),
        "attention_mask": mask,
        "labels": tokens.masked_fill(mask == 0, -100),
    }
