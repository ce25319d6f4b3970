"""How large a file is, or becomes in memory, before it is read: it may be a stranger's."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import IO, Final
from zipfile import ZipFile

from favano.errors import BadInput, require

MEBIBYTE: Final = 1 << 20
_TEXT: Final = 64 * MEBIBYTE  # 300,000 evaluations; as objects of Python up to some 20 times that
_ARRAYS: Final = 128 * MEBIBYTE  # a trace of a million jobs


def read_limited(path: Path, name: str, encoding: str = "utf-8") -> str:
    """The text of a file; one that is too large is refused under this name."""
    check_size(path, name)
    return path.read_text(encoding=encoding)


def read_given(path: Path, name: str, value: object, encoding: str = "utf-8") -> str:
    """The text of a file that a key of this name has; one that is missing, or no text, is refused.

    Args:
        path: of the file.
        name: of the key.
        value: of the key, as it was given.
        encoding: of the text.
    """
    require(path.is_file(), name, value, "no such file")
    try:
        return read_limited(path, name, encoding)
    except (OSError, UnicodeDecodeError):
        raise BadInput(name, value, "is not a text file that can be read") from None


def check_size(path: Path, name: str) -> None:
    """Refuse a file that is too large under this name."""
    size = path.stat().st_size
    rule = f"has {size // MEBIBYTE:,} MiB, need {_TEXT // MEBIBYTE} at most"
    require(size <= _TEXT, name, path, rule)


def check_archive(path: Path) -> None:
    """Raise a `ValueError` if the arrays of a NumPy archive are too large, or claim to be.

    Zeros are compressed a thousandfold, and NumPy allocates what the header of an array claims.
    """
    with ZipFile(path) as archive:
        members = archive.infolist()
        total = sum(member.file_size for member in members)
        if total > _ARRAYS:
            most = _ARRAYS // MEBIBYTE
            raise ValueError(f"its arrays take {total // MEBIBYTE:,} MiB, need {most} at most")
        for member in members:
            with archive.open(member) as array:
                check_array(array, member.file_size)


def check_array(file: IO[bytes], size: int) -> None:
    """Raise a `ValueError` if the header of an array claims more than a file of this size holds."""
    from numpy.lib import format as npy

    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    version = npy.read_magic(file)
    if version not in read:
        raise ValueError(f"an array has format {version}, need 1 or 2")
    shape, _, kind = read[version](file)
    if not 0 <= prod(shape) * max(kind.itemsize, 1) <= size:
        raise ValueError(f"an array claims {kind} {shape}, more than its {size:,} bytes")
