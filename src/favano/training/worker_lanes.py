"""Lanes on a CPU: one process per core, each training one job at a time on one thread.

Threads inside a small step cost more than they save, and are very slow on a busy machine. Processes
are forked, so they share the data; start and end models are in shared memory. All take their jobs
from one pipe, so no job waits behind a long one while another process is idle.
"""

from __future__ import annotations

import gc
import math
import mmap
import multiprocessing
import os
import signal
import traceback
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.synchronize import Lock
from time import perf_counter
from typing import Self

import numpy as np
import torch
from torch import Tensor

from favano.errors import BadInput, own_failure
from favano.screening import finite_rows
from favano.training.flat import FlatModel
from favano.training.kernel_sets import default_kernels, using
from favano.training.lanes import Finished, Job, StepsDone, Work
from favano.training.loop import LoopTrainer, mean_loss
from favano.types import Ints, Stack, Vector

_QUEUE = 2  # jobs per worker: one in training, and one waiting for any free worker


@contextmanager
def one_thread() -> Iterator[None]:
    """Use the default kernels on one thread; trainers may choose other kernels for their steps.

    A worker and a plain loop have the same settings, so that results do not depend on the number of
    workers.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with using(default_kernels()):
            yield
    finally:
        torch.set_num_threads(threads)


class CannotFork(RuntimeError):
    """Forked processes cannot compute gradients here."""

    def __init__(self, workers: int) -> None:
        super().__init__(
            f"training in one process instead of {workers}: this process has computed gradients "
            "with a GPU visible, after which PyTorch cannot be forked; set CUDA_VISIBLE_DEVICES to "
            "nothing to train on all cores"
        )


class WorkerLanes:
    """Worker processes for a `with` block; there is one trainer per task."""

    def __init__(self, model: FlatModel, trainers: Sequence[LoopTrainer], workers: int) -> None:
        self.capacity = workers * _QUEUE
        longest = max((trainer.rule.kept for trainer in trainers), default=0) * len(model.weights)
        self._slots = _shared(self.capacity, model.vector, longest)
        self._corrections = _shared(self.capacity, model.weights)  # takes no memory until used
        self._free = deque(range(self.capacity))
        self._in_slot = np.full(self.capacity, -1)  # jobs
        self._steps = np.zeros(self.capacity, dtype=np.int64)  # of these jobs
        self._trainers, self._count = trainers, workers
        self._results: list[Connection] = []
        self._processes: list[multiprocessing.process.BaseProcess] = []

    def __enter__(self) -> Self:
        """Fork the workers; raises `CannotFork` if they cannot train."""
        context = multiprocessing.get_context("fork")
        jobs, self._jobs = context.Pipe(duplex=False)
        turn = context.Lock()
        for _ in range(self._count):
            results, theirs = context.Pipe(duplex=False)
            self._results.append(results)
            # A worker must not hold our ends of the pipes: it ends when we close them.
            inherited = [self._jobs, *self._results]
            worker = _Worker(jobs, turn, theirs, self._slots, self._corrections, self._trainers)
            process = context.Process(target=worker.serve, args=(inherited,), daemon=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
            theirs.close()
            self._processes.append(process)
        jobs.close()
        if not all(results.recv() for results in self._results):
            self.__exit__(None, None, None)
            raise CannotFork(self._count)
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """End the workers."""
        for connection in (self._jobs, *self._results):
            connection.close()
        for process in self._processes:
            if kind is not None:
                process.terminate()
            process.join()

    @property
    def free(self) -> int:
        """Number of free slots."""
        return len(self._free)

    def load(self, jobs: Ints, models: Stack, task: Ints, work: Work) -> None:
        """Give jobs to the next free workers."""
        for row, (number, job) in enumerate(zip(jobs.tolist(), work.jobs(task), strict=True)):
            slot = self._free.popleft()
            self._in_slot[slot], self._steps[slot] = number, job.steps
            self._slots[slot, : models.shape[1]] = models[row]
            if work.correction is not None:
                self._corrections[slot] = work.correction[row]
            try:
                self._jobs.send((slot, job, work.correction is not None))
            except BrokenPipeError:
                raise RuntimeError("the worker processes were ended from outside") from None

    def launch(self) -> None:
        """Workers begin by themselves."""

    def collect(self) -> Finished | None:
        """Finished jobs; waits for one."""
        if len(self._free) == self.capacity:
            return None
        slots, finite, losses = [], [], []
        for connection in wait(self._results):
            assert isinstance(connection, Connection)
            try:
                slot, good, loss, problem = connection.recv()
            except EOFError:
                raise RuntimeError("a worker process was ended from outside") from None
            if isinstance(problem, BadInput):
                raise problem
            if problem:
                raise RuntimeError(f"local training failed in a worker:\n{problem}")
            slots.append(slot)
            finite.append(good)
            losses.append(loss)
        self._free.extend(slots)
        done = StepsDone(int(self._steps[slots].sum()), perf_counter())
        ends = self._slots[slots]
        return Finished(self._in_slot[slots], ends, np.array(finite), done, np.array(losses))

    def halve(self) -> Ints:
        """A CPU has no lanes to give up."""
        raise MemoryError


def computes_gradients() -> bool:
    """Whether autograd works in this process. With a GPU visible it does not survive a fork."""
    try:
        torch.autograd.backward(torch.ones((), requires_grad=True))
    except RuntimeError:
        return False
    return True


def _shared(rows: int, like: Vector, more: int = 0) -> Stack:
    """A stack of models with `more` numbers each, in memory that forked processes share."""
    width = len(like) + more
    memory = mmap.mmap(-1, max(1, rows * width * like.element_size()))
    return torch.frombuffer(memory, dtype=like.dtype).view(rows, width)


@dataclass(frozen=True)
class _Worker:
    """A worker process: its ends of the pipes, and the memory that it shares."""

    jobs: Connection
    turn: Lock  # held while taking a job
    results: Connection
    slots: Stack
    corrections: Stack
    trainers: Sequence[LoopTrainer]

    def serve(self, inherited: Sequence[Connection]) -> None:
        """Train jobs until the other side closes the pipe."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for other in inherited:
            other.close()
        gc.freeze()  # objects from before the fork need no garbage collection
        self.results.send(computes_gradients())
        with one_thread():
            while True:
                try:
                    with self.turn:
                        slot, job, corrected = self.jobs.recv()
                    self.results.send(self._trained(slot, job, corrected))
                except (EOFError, OSError):  # the other side has closed a pipe
                    os._exit(0)

    def _trained(
        self, slot: int, job: Job, corrected: bool
    ) -> tuple[int, bool, float, str | BadInput]:
        """Train a job, and write its end model over the start model.

        Returns the slot, whether the end model is finite, the loss if it is measured, and what was
        refused, or the traceback of an error that is not the user's.
        """
        try:
            trainer = self.trainers[job.task]
            place = self.slots[slot, : trainer.width]
            losses = list[Tensor]() if trainer.measures_loss else None
            correction = self.corrections[slot] if corrected else None
            end = trainer.run(place, job, correction, losses=losses)
            place.copy_(end)
            return slot, finite_rows(end[None])[0], mean_loss(losses or ()), ""
        except Exception as error:
            return slot, True, math.nan, own_failure(error) or traceback.format_exc()
