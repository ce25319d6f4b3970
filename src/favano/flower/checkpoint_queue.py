"""Checkpoints on their way to disk, and how long a server waits for what keeps it from going on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, wait

from favano.errors import ClusterLost, WriteFailed

PATIENCE = 600.0  # seconds for which a server waits; nodes wait for it as long, unless told


class CheckpointQueue:
    """Checkpoints that are being written, in order; each has all that the ones before it have."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._writing: deque[tuple[int, Future[None]]] = deque()
        self.version = -1  # of the last one on disk
        self.error: WriteFailed | None = None  # why the last one is not

    def add(self, version: int, write: Callable[[], None]) -> None:
        """Write the checkpoint of a version."""
        self._writing.append((version, self._executor.submit(write)))

    def look(self) -> None:
        """See which ones are on disk by now."""
        while self._writing and self._writing[0][1].done():
            version, writing = self._writing.popleft()
            try:
                writing.result()
            except WriteFailed as error:
                self.error = error
            else:
                self.version, self.error = version, None

    def finish(self) -> None:
        """Wait until all are written, or could not be."""
        wait([writing for _, writing in self._writing])
        self.look()

    @property
    def waits(self) -> bool:
        """Whether some are still being written."""
        return bool(self._writing)


class Trouble:
    """What keeps a server from going on: told when it begins and ends, and raised if it lasts."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._since: float | None = None

    def note(self, error: Exception | None, now: float) -> None:
        """How it is now."""
        if error is None:
            if self._since is not None:
                self._say(f"the federation goes on after {now - self._since:.0f} s")
            self._since = None
        elif self._since is None:
            self._since = now
            self._say(f"{error}; the federation waits, for {PATIENCE:g} s at most")
        elif now - self._since > PATIENCE:
            kind = WriteFailed if isinstance(error, WriteFailed) else ClusterLost
            raise kind(f"{error}; gave up after {PATIENCE:g} s, go on with --resume") from error
