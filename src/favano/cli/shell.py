"""What all commands share: output, default folders, and the command line as typed."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import NoReturn

import typer

from favano.code_digest import file_digest
from favano.errors import require
from favano.notices import console
from favano.records import to_json
from favano.records.folder import folder_name
from favano.report import target_of, target_table
from favano.report.reported_result import ReportedResult
from favano.report.sheet import Sheet, screen_table
from favano.specification.config import spec_keys
from favano.specification.spec import Spec

screen, notes = console(stderr=False), console()

INTERRUPTED = 130
TRACEBACK = "--traceback"
TARGET_TEXT = "metric to reach: time, steps and bits to it [90 % of the best]"


def interruptible(command: Callable[..., None]) -> Callable[..., None]:
    """End with a message on Ctrl-C before there are any results."""

    @wraps(command)
    def wrapper(*arguments: object, **options: object) -> None:
        try:
            command(*arguments, **options)
        except (KeyboardInterrupt, RuntimeError) as error:
            # Python wraps errors raised while a class is created, as in an import.
            if not isinstance(error.__cause__ or error, KeyboardInterrupt):
                raise
            leave("interrupted before there were any results")

    return wrapper


def keep_to(device: str) -> None:
    """Hide GPUs from a command that trains on the CPU.

    If PyTorch sees a GPU, it cannot be forked after computing gradients. If PyTorch is already
    loaded, the process belongs to another program and is left as it is.
    """
    if device == "cpu" and "torch" not in sys.modules:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def begin_cuda(device: str) -> None:
    """Let the CUDA driver make the context of a GPU while Python imports PyTorch.

    PyTorch finds it there, and would wait for it otherwise. Whatever fails here, PyTorch says.
    """
    kind, _, number = device.partition(":")
    if kind == "cuda" and "torch" not in sys.modules:
        os.environ.setdefault("CUDA_MODULE_LOADING", "LAZY")  # as PyTorch does
        index = int(number) if number.isdecimal() else 0
        Thread(target=_make_context, args=(index,), name="CUDA", daemon=True).start()


def _make_context(index: int) -> None:
    """Calls of a library through `ctypes` do not hold Python's lock."""
    device, context = ctypes.c_int(), ctypes.c_void_p()
    with suppress(OSError):  # no driver
        driver = ctypes.CDLL("libcuda.so.1")
        if driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(device), index) == 0:
            driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)


def need_flower() -> None:
    """Refuse a command that needs Flower where it is not installed."""
    if find_spec("flwr") is None:
        leave("this command needs Flower: pip install 'favano[flower]'", code=2)


def called_as() -> str:
    """The command line as typed."""
    return shlex.join(["favano", *sys.argv[1:]])


def default_folder(kind: str, specs: list[Spec]) -> Path:
    """A folder that depends on the specifications, so that no run overwrites another."""
    keys = [{**spec_keys(spec), "source": spec.source} for spec in specs]
    digest = hashlib.sha256(json.dumps(keys, sort_keys=True).encode()).hexdigest()[:8]
    dataset = specs[0].problem.dataset.replace("/", "-")
    return Path("favano-results") / f"{folder_name(kind)}-{dataset}-{digest}"


def leave(sentence: str, code: int = INTERRUPTED) -> NoReturn:
    """End the command with a message."""
    say(sentence)
    raise typer.Exit(code)


def show_traceback(error: Exception) -> None:
    """Print where an error comes from, if the command line asks for it."""
    if TRACEBACK in sys.argv:
        traceback.print_exception(error)


def say(sentence: str) -> None:
    """Print a message for the user on standard error."""
    notes.print(f"favano: {sentence}", soft_wrap=True)


def trusted(files: Sequence[Path] | None) -> list[Path]:
    """The files that may be executed, by full path; their digests are shown."""
    for file in files or ():
        require(file.is_file(), "trust", file, "no such file")
        say(f"trusted: {file} (SHA-256 {file_digest(file.resolve())})")
    return [file.resolve() for file in files or ()]


def print_sheet(sheet: Sheet) -> None:
    """Print a table with its title and note."""
    screen.print(sheet.title, style="bold")
    screen.print(screen_table(sheet))
    screen.print(f"{sheet.note}\n")


def print_costs(results: Sequence[ReportedResult], given: float | None) -> None:
    """Print what it took to reach a target; of one result only if it is given."""
    target = target_of(results, given)
    if target is not None and (given is not None or len(results) > 1):
        screen.print("", target_table(results, target), "", sep="\n")


def print_json(document: object) -> None:
    """Print one JSON document."""
    sys.stdout.write(to_json(document) + "\n")
