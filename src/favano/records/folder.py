"""Result folders: the names of their files, read one by one, written all or none."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from pydantic import ValidationError

from favano.errors import BadInput, WriteFailed, require
from favano.file_sizes import read_limited

SPEC: Final = "spec.toml"
HISTORY: Final = "history.csv"
SUMMARY: Final = "summary.json"
MODEL: Final = "model.safetensors"
ABOUT: Final = "favano"  # the only metadata of a model file, since several have a random order
ORDER: Final = "order"  # therein: the names of the tensors, in the order of a flat model
FILES: Final = (SPEC, HISTORY, SUMMARY, MODEL)  # in every result folder
BOUND: Final = "bound.csv"
PARTICIPATION: Final = "participation.json"
CURVES: Final = "curves.csv"
COMPLEXITIES: Final = "table.csv"
CHECKPOINTS: Final = "checkpoints"  # a folder
RUNS_FOLDER: Final = "runs"  # of `favano reproduce`: a result folder per run
PAGE: Final = "report.html"  # beside the result folders of a comparison

Parsed = TypeVar("Parsed")
_LONGEST = 200  # bytes of a folder's name; file systems take 255


def folder_name(name: str) -> str:
    """A folder name for a run.

    >>> folder_name("FedBuff, small steps"), folder_name("favano-delta"), folder_name("..")
    ('FedBuff-small-steps', 'favano-delta', 'run')
    """
    folder = re.sub(r"[^\w.=-]+", "-", name).strip("-.") or "run"
    require(len(folder.encode()) <= _LONGEST, "label", name, f"need {_LONGEST} bytes at most")
    return folder


def as_path(name: str, given: Path | str) -> Path:
    """A path given as text or `Path`; any other value is refused."""
    shown = type(given).__name__
    require(isinstance(given, Path | str), name, shown, "need a path, as text or pathlib.Path")
    return Path(given)


def read_file(path: Path, parser: Callable[[str], Parsed]) -> Parsed:
    """Read a file of a result folder; the error of an unreadable or damaged one names it."""
    require(path.is_file() or not path.exists(), "results", path, "is not a file")
    try:
        text = read_limited(path, "results")
    except OSError as error:
        raise BadInput("results", path, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadInput("results", path, f"is damaged: {error}") from error
    try:
        return parser(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BadInput("results", path, f"is damaged: {place or 'file'}: {first['msg']}") from error
    except (ValueError, RecursionError) as error:
        raise BadInput("results", path, f"is damaged: {error}") from error


def write_together(folder: Path, contents: Mapping[str, str | bytes]) -> None:
    """Write several files, all or none: a failure leaves the folder as it was."""
    try:
        replace_together(folder, contents)
    except OSError as error:
        raise WriteFailed(
            f"out={folder}: could not be written: {error.strerror}; earlier results are untouched"
        ) from error


def replace_together(folder: Path, contents: Mapping[str, str | bytes]) -> None:
    """The same, with the error of the system.

    What killed processes have left of the same files is removed.
    """
    waiting = {name: folder / f".{name}.{os.getpid()}" for name in contents}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in contents.items():
            waiting[name].unlink(missing_ok=True)
            with waiting[name].open("xb") as file:  # never by a link that lay there
                file.write(data.encode() if isinstance(data, str) else data)
                file.flush()
                os.fsync(file.fileno())
        for name in contents:
            waiting[name].replace(folder / name)
        _flush(folder)
    finally:
        for path in waiting.values():
            with suppress(OSError):
                path.unlink(missing_ok=True)
    with suppress(OSError):
        for path in _left_behind(folder, contents):
            path.unlink(missing_ok=True)


def _left_behind(folder: Path, names: Iterable[str]) -> list[Path]:
    """Unfinished files of these names whose process has ended."""
    begun = {f".{name}" for name in names}
    parts = ((path, path.name.rpartition(".")) for path in folder.iterdir())
    return [
        path
        for path, (start, _, number) in parts
        if start in begun and number.isdecimal() and not _is_running(int(number))
    ]


def _is_running(process: int) -> bool:
    if os.name != "posix":  # there, the signal 0 is Ctrl-C
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # that of another user, or no number of a process
        return True
    return True


def _flush(folder: Path) -> None:
    """Make sure that new names survive a loss of power, where a system can."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
