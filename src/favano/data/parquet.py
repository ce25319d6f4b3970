"""Parquet files of a local folder, read by `pyarrow`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from favano.data.origins import WRITERS, Folder
from favano.errors import BadInput, require

if TYPE_CHECKING:
    import pyarrow


def read_parquet(origin: Folder, name: str) -> dict[str, pyarrow.Table]:
    """Tables `train` and, if there are files of it, `test`, with all columns of the files.

    `name` is for messages. A file of writers has more columns for the samples: its rows name them
    by `split` and `index`.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise BadInput("dataset", name, "needs pip install 'favano[data]'") from error
    tables = {}
    try:
        for part, paths in (("train", origin.train), ("test", origin.test)):
            if paths:
                files = [parquet.read_table(path) for path in paths]
                tables[part] = pyarrow.concat_tables(files, promote_options="permissive")
        if origin.writers is not None:
            more = parquet.read_table(origin.writers)
            for part, table in tables.items():
                tables[part] = _with_columns(part, table, more, name)
    except (OSError, pyarrow.ArrowException) as error:
        rule = f"files in {origin.source} cannot be read; need Parquet with image and label"
        raise BadInput("dataset", name, rule) from error
    return tables


def _with_columns(part: str, table: pyarrow.Table, more: pyarrow.Table, name: str) -> pyarrow.Table:
    """A table with the columns that a file of writers has for its rows."""
    from pyarrow import compute

    named = {"split", "index"} <= set(more.column_names)
    require(named, "dataset", name, f"{WRITERS} has {more.column_names}: need split and index")
    own = more.filter(compute.equal(more["split"], part)).sort_by("index")
    alike = own["index"].to_pylist() == list(range(len(table)))
    rule = f"{WRITERS} has {len(own)} rows for {part}: need one for each of {len(table)} images"
    require(alike, "dataset", name, rule)
    for column in more.column_names:
        if column not in ("split", "index"):
            table = table.append_column(column, own[column])
    return table
