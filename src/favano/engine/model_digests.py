"""Digests of the server models of a run, without waiting for a GPU in the middle of it."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import torch
from torch import Tensor

from favano.records.chain import short_digest
from favano.types import Vector


class _Copy(NamedTuple):
    """A model on its way from a GPU to the host."""

    model: Vector
    arrived: torch.cuda.Event


class ModelDigests:
    """Takes models, and gives their digests in the same order."""

    def __init__(self) -> None:
        self._known: list[str] = []
        self._copies: deque[_Copy] = deque()

    def add(self, model: Vector) -> None:
        """Note a model; it may be changed afterwards."""
        if not model.is_cuda:
            self._known.append(model_digest(model))
            return
        host = torch.empty(model.shape, dtype=model.dtype, pin_memory=True)
        arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
        host.copy_(model, non_blocking=True)
        arrived.record()
        self._copies.append(_Copy(host, arrived))
        while self._copies and self._copies[0].arrived.query():  # type: ignore[no-untyped-call]
            self._known.append(model_digest(self._copies.popleft().model))

    def go_on_from(self, known: list[str]) -> None:
        """Take over digests from a checkpoint."""
        self._known = known

    def all(self) -> list[str]:
        """The digests of all models so far; waits for a GPU."""
        while self._copies:
            copy = self._copies.popleft()
            copy.arrived.synchronize()
            self._known.append(model_digest(copy.model))
        return self._known

    def drop_after(self, count: int) -> None:
        """Keep the digests of so many models."""
        del self.all()[count:]


def model_digest(model: Tensor) -> str:
    """A digest of the numbers of a model on the host, as they are in memory."""
    return short_digest(model.detach().contiguous().view(torch.uint8).numpy().data)
