"""Kernels compiled side by side: a ResNet has 77, which take half a minute one after another."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from threading import Lock, get_ident
from typing import Any
from unittest.mock import patch

import torch
import triton
from triton.runtime.jit import JITFunction

from favano.training.gpu_kernels.inputs import inputs_kernel

_ONE_AT_A_TIME = Lock()


def compile_kernels(step: Callable[[], object]) -> None:
    """Compile all kernels of a step at the same time; none but that of the inputs is launched.

    Whatever else the step does is done, with numbers that no kernel has written; inputs are real
    because a network may use them as indices. A kernel that cannot be compiled raises its error
    when it is launched. Older versions of Triton compile each kernel at its first launch.
    """
    if hasattr(triton, "AsyncCompileMode"):
        with _ONE_AT_A_TIME:
            copy_context().run(_compile, step)  # the mode must not outlive an interruption


def _compile(step: Callable[[], object]) -> None:
    here, launcher = get_ident(), JITFunction.__getitem__

    def compiler(kernel: Any, grid: Any) -> Any:
        if get_ident() != here or kernel is inputs_kernel:
            return launcher(kernel, grid)
        return partial(kernel.run, grid=grid, warmup=True)

    threads = ThreadPoolExecutor()
    try:
        with (
            triton.AsyncCompileMode(threads, ignore_errors=True),  # waits for all in the end
            torch.autograd.set_multithreading_enabled(False),  # the backward pass is made here, too
            patch.object(JITFunction, "__getitem__", compiler),
        ):
            step()
    finally:
        threads.shutdown(cancel_futures=True)
