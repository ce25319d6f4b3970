"""Digests of the server models of a run, without waiting for a GPU or for SHA-256 in the middle."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
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
    digest: Future[str]


class ModelDigests:
    """Takes models of one size, and gives their digests in the same order."""

    def __init__(self) -> None:
        self._digests: list[str] = []
        self._hashing: deque[_Hashing] = deque()  # the models after these
        # The models after those, on their way from a GPU to the host; the events say when they are.
        self._copies: deque[tuple[Vector, torch.cuda.Event]] = deque()

    def add(self, model: Vector, digest: Future[str] | None = None) -> None:
        """Note a model, which must not be changed afterwards; somebody may make its digest."""
        if digest is not None:
            self._finish_copies()
            self._hashing.append(_Hashing(model, digest))
        elif model.is_cuda:
            self._copies.append(_copied(model))
        else:
            self._begin(model)
        while self._copies and self._copies[0][1].query():  # type: ignore[no-untyped-call]
            self._begin(self._copies.popleft()[0])
        while self._hashing and self._hashing[0].digest.done():
            self._digests.append(self._hashing.popleft().digest.result())

    def restore(self, digests: list[str]) -> None:
        """Take over digests from a checkpoint."""
        self._digests = digests

    def all(self) -> list[str]:
        """The digests of all models so far; waits for them."""
        self._finish_copies()
        while self._hashing:
            self._digests.append(self._hashing.popleft().digest.result())
        return self._digests

    def _finish_copies(self) -> None:
        while self._copies:
            self._copies[0][1].synchronize()
            self._begin(self._copies.popleft()[0])

    def drop_after(self, count: int) -> None:
        """Keep the digests of so many models."""
        del self.all()[count:]

    def _begin(self, model: Vector) -> None:
        """Digest a model on the host; a large one in a thread, since SHA-256 needs no Python."""
        digest: Future[str] = Future()
        self._hashing.append(_Hashing(model, digest))
        if model.nbytes < _LARGE:
            digest.set_result(model_digest(model))
        else:
            Thread(target=lambda: digest.set_result(model_digest(model)), daemon=True).start()


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
