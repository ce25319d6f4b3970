"""Calls in forked processes, one per core, while this process goes on with other work."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Generic, Self, TypeVar

from favano.errors import require

T = TypeVar("T")
_LOOK = 1.0  # seconds
_ENDING = {signal.SIGINT, signal.SIGTERM}


def usable_cores() -> int:
    """Number of cores that this process may use; 1 if processes cannot be forked safely."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1


class ForkedCalls(Generic[T]):
    """Calls for a `with` block, at whose end those that nobody has waited for are ended.

    Forked processes have the memory of this one, so that nothing is sent to them; they must not use
    a GPU. A call that fails in its process is made again in this one, where its error belongs.

    Args:
        calls: independent of each other; their results can be pickled.
        processes: at most; with one or none all calls are made here.
    """

    def __init__(self, calls: Sequence[Callable[[], T]], processes: int) -> None:
        rule = "need Linux or macOS; on Windows, install it in WSL, which is Linux"
        require(sys.platform != "win32", "platform", sys.platform, rule)
        self._calls = calls
        self._count = min(processes, len(calls)) if processes > 1 else 0
        self._started: list[tuple[BaseProcess, Connection]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *about: object) -> None:
        """End what is still under way, also if Ctrl-C is pressed again."""
        with _uninterrupted():
            for process, ours in self._started:
                ours.close()
                if process.pid is not None:
                    process.terminate()
                    process.join()

    def begin(self) -> None:
        """Begin now; else several calls begin when their results are asked for."""
        if not self._count:
            return
        with warnings.catch_warnings(), _uninterrupted():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads, as PyTorch has
            for first in range(self._count):
                self._start(first)

    def _start(self, first: int) -> None:
        """Start one process; what is freed here may swallow a Ctrl-C if it is not put off."""
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe(duplex=False)
        given = first, theirs, [ours, *(others for _, others in self._started)]
        process = context.Process(target=self._serve, args=given, daemon=True)
        self._started.append((process, ours))
        process.start()
        theirs.close()

    def results(self) -> list[T]:
        """The result of each call, in order; waits for them."""
        if not self._started and len(self._calls) > 1:
            self.begin()
        made: dict[int, T] = {}
        for _, ours in self._started:
            while not ours.poll(_LOOK):  # a Ctrl-C just before a wait does not end it
                pass
            with suppress(EOFError, OSError):  # it has failed
                made |= ours.recv()
        return [
            made[number] if number in made else call() for number, call in enumerate(self._calls)
        ]

    def _serve(self, first: int, theirs: Connection, inherited: Sequence[Connection]) -> None:
        """Make every so many-th call, and send the results."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process ends this one
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        for connection in inherited:  # else nobody would notice that the other process is gone
            connection.close()
        gc.disable()  # what is freed may belong to a GPU
        numbers = range(first, len(self._calls), self._count)
        with suppress(Exception):
            theirs.send({number: self._calls[number]() for number in numbers})
        os._exit(0)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Put Ctrl-C off: a process that is just forked, or not yet ended, would be left behind."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
