"""Pickles of strangers: numbers, words, lists and dictionaries; nothing in them is executed.

Python's own reader of pickles, without the operations that name, make or call anything: a file with
one of those is refused. Memory is limited by the size of the file and by how many lists and
dictionaries it may open.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

from favano.errors import BadInput, require
from favano.file_sizes import check_size

_OPERATIONS: Final = [
    "PROTO", "FRAME", "STOP", "NONE", "NEWTRUE", "NEWFALSE", "INT", "BININT", "BININT1", "BININT2",
    "LONG", "LONG1", "FLOAT", "BINFLOAT", "STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE",
    "BINUNICODE", "SHORT_BINUNICODE", "MARK", "POP", "POP_MARK", "EMPTY_LIST", "LIST", "APPEND",
    "APPENDS", "EMPTY_DICT", "DICT", "SETITEM", "SETITEMS", "EMPTY_TUPLE", "TUPLE", "TUPLE1",
    "TUPLE2", "TUPLE3", "GET", "BINGET", "LONG_BINGET", "PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE",
]  # fmt: skip
_OPENING: Final = ["MARK", "EMPTY_LIST", "EMPTY_DICT", "TUPLE1", "TUPLE2", "TUPLE3"]
_Operation: TypeAlias = Callable[[Any], None]
_MOST = 4_000_000  # lists, dictionaries and tuples
_NOTHING_BUT = "need a pickle of numbers, words, lists and dictionaries, and nothing else"


def read_numbers(path: Path, name: str, value: object) -> object:
    """What a pickle holds; one that holds anything else, or too much, is refused.

    Args:
        path: of the file.
        name: of the key that names it.
        value: of that key.
    """
    require(path.is_file(), name, value, "no such file")
    try:
        check_size(path, name)
        return _Reader(BytesIO(path.read_bytes())).load()
    except _Refused as error:
        raise BadInput(name, value, str(error)) from None
    except OSError:
        raise BadInput(name, value, "cannot be read") from None
    except BadInput:
        raise
    except Exception:  # of a damaged file, whatever its bytes make of the operations
        raise BadInput(name, value, f"is no pickle, or a damaged one; {_NOTHING_BUT}") from None


class _Refused(Exception):
    """An operation that is not read."""


class _Operations(dict[int, _Operation]):
    def __missing__(self, code: int) -> _Operation:
        word = f"operation {chr(code)!r}"
        names = (name for name in _CODES if _CODES[name] == code)
        raise _Refused(f"holds {next(names, word)}, which is not read; {_NOTHING_BUT}")


_CODES: Final = {
    name: value[0]
    for name, value in vars(pickle).items()
    if name.isupper() and isinstance(value, bytes) and len(value) == 1
}


class _Reader(pickle._Unpickler):
    """The reader in Python, whose table of operations can be cut."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self._opened = 0

    def find_class(self, module: str, name: str) -> object:
        raise _Refused(f"names {module}.{name}, which is not loaded; {_NOTHING_BUT}")

    def persistent_load(self, pid: object) -> object:
        raise _Refused(f"refers to objects elsewhere; {_NOTHING_BUT}")

    def opened(self) -> None:
        """Count a list, a dictionary or a tuple."""
        self._opened += 1
        if self._opened > _MOST:
            raise _Refused(f"has more than {_MOST:,} lists and dictionaries")


def _counted(operation: _Operation) -> _Operation:
    def run(reader: Any) -> None:
        reader.opened()
        operation(reader)

    return run


_ALL: Final = pickle._Unpickler.dispatch
_Reader.dispatch = _Operations(
    {
        _CODES[name]: _counted(_ALL[_CODES[name]]) if name in _OPENING else _ALL[_CODES[name]]
        for name in _OPERATIONS
    }
)
