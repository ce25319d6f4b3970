"""The tables of an origin, and the columns that say whose the samples are, as numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from favano.data.hugging_face import download
from favano.data.natural import is_client
from favano.data.origins import Folder, Origin
from favano.data.parquet import read_parquet
from favano.types import Ints

if TYPE_CHECKING:
    import pyarrow


@contextmanager
def tables_of(origin: Origin, folder: Path, name: str) -> Iterator[dict[str, pyarrow.Table]]:
    """Tables `train` and, if there is one, `test`, while they are decoded into `folder`.

    `name` is for messages. The tables may be mapped from files that are deleted at the end: keep
    no reference to them.
    """
    with TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as arrow:
        if isinstance(origin, Folder):
            yield read_parquet(origin, name)
        else:
            yield download(origin, Path(arrow), name)


def owner_codes(
    tables: Mapping[str, pyarrow.Table], leave_out: Sequence[str] = ()
) -> dict[str, dict[str, Ints]]:
    """Numbers for the values of each column of words or whole numbers, by part and column.

    A part may lack a column, or have words where another has numbers. A value has the same number
    in all parts.
    """
    import pyarrow

    owners: dict[str, dict[str, Ints]] = {part: {} for part in tables}
    present = {column for table in tables.values() for column in table.column_names}
    for column in sorted(present - set(leave_out)):
        having = {part: table for part, table in tables.items() if column in table.column_names}
        chunks = [chunk for table in having.values() for chunk in table[column].chunks]
        if chunks and all(_can_name(_value_type(chunk)) for chunk in chunks):
            codes = codes_of(pyarrow.chunked_array(map(_words, chunks)))
            ends = np.cumsum([len(table) for table in having.values()])
            for part, own in zip(having, np.split(codes, ends[:-1]), strict=True):
                owners[part][column] = own
    return owners


def codes_of(column: pyarrow.ChunkedArray) -> Ints:
    """A number for each value, in the order in which values appear; -1 where nobody is named."""
    chunks = column.cast("large_string").dictionary_encode().unify_dictionaries().chunks
    codes = np.concatenate([np.empty(0, int), *(chunk.indices.fill_null(-1) for chunk in chunks)])
    names = chunks[0].dictionary.to_pylist() if chunks else []
    held = np.array([*map(is_client, names), False])  # the last for -1
    return np.where(held[codes], codes, -1).astype(np.int64)


def _words(chunk: pyarrow.Array) -> pyarrow.Array:
    """Words and whole numbers as words; values that a dictionary holds, as pandas' categories."""
    return chunk.cast(_value_type(chunk)).cast("large_string")


def _value_type(chunk: pyarrow.Array) -> pyarrow.DataType:
    from pyarrow import types

    return chunk.type.value_type if types.is_dictionary(chunk.type) else chunk.type


def _can_name(kind: pyarrow.DataType) -> bool:
    """Whether values of this type can name clients."""
    from pyarrow import types

    tests = (types.is_string, types.is_large_string, types.is_integer)
    return any(test(kind) for test in tests)
