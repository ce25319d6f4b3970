"""Digests of the server models of a run, without waiting for a GPU or for SHA-256 in the middle."""

from __future__ import annotations

from collections import deque
from threading import Thread
from typing import NamedTuple

import torch
from torch import Tensor

from favano.records.chain import short_digest
from favano.types import Vector

_LARGE = 1 << 20  # bytes, from which on a thread pays


class _Hashing(NamedTuple):
    """A digest in the making.

    The model is kept until it is done: a thread must not free what was copied from a GPU, since
    CUDA may be recording a graph at that moment.
    """

    model: Vector
    thread: Thread
    found: list[str]


class ModelDigests:
    """Takes models of one size, and gives their digests in the same order."""

    def __init__(self) -> None:
        self._digests: list[str] = []
        self._hashing: deque[_Hashing] = deque()  # the models after these
        # The models after those, on their way from a GPU to the host; the events say when they are.
        self._copies: deque[tuple[Vector, torch.cuda.Event]] = deque()

    def add(self, model: Vector) -> None:
        """Note a model, which must not be changed afterwards."""
        if model.is_cuda:
            self._copies.append(_copied(model))
        else:
            self._begin(model)
        while self._copies and self._copies[0][1].query():  # type: ignore[no-untyped-call]
            self._begin(self._copies.popleft()[0])
        while self._hashing and not self._hashing[0].thread.is_alive():
            self._digests += self._hashing.popleft().found

    def restore(self, digests: list[str]) -> None:
        """Take over digests from a checkpoint."""
        self._digests = digests

    def all(self) -> list[str]:
        """The digests of all models so far; waits for them."""
        while self._copies:
            self._copies[0][1].synchronize()
            self._begin(self._copies.popleft()[0])
        while self._hashing:
            self._hashing[0].thread.join()
            self._digests += self._hashing.popleft().found
        return self._digests

    def drop_after(self, count: int) -> None:
        """Keep the digests of so many models."""
        del self.all()[count:]

    def _begin(self, model: Vector) -> None:
        """Digest a model on the host; a large one in a thread, since SHA-256 needs no Python."""
        if model.nbytes < _LARGE:
            self._digests.append(model_digest(model))
            return
        digests: list[str] = []
        thread = Thread(target=lambda: digests.append(model_digest(model)), daemon=True)
        thread.start()
        self._hashing.append(_Hashing(model, thread, digests))


def model_digest(model: Tensor) -> str:
    """A digest of the numbers of a model on the host, as they are in memory."""
    return short_digest(model.detach().contiguous().view(torch.uint8).numpy().data)


def _copied(model: Vector) -> tuple[Vector, torch.cuda.Event]:
    """Begin to copy a model to the host."""
    host = torch.empty(model.shape, dtype=model.dtype, pin_memory=True)
    host.copy_(model, non_blocking=True)
    arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
    arrived.record(torch.cuda.current_stream(model.device))
    return host, arrived
