"""Parquet files of a local folder, read by `pyarrow`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from favano.data.origins import Folder
from favano.errors import BadInput

if TYPE_CHECKING:
    import pyarrow


def read_parquet(origin: Folder, name: str) -> dict[str, pyarrow.Table]:
    """Tables `train` and `test` with all columns of the files; `name` is for messages."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise BadInput("dataset", name, "needs pip install 'favano[data]'") from error
    tables = {}
    for part, paths in (("train", origin.train), ("test", origin.test)):
        try:
            files = [parquet.read_table(path) for path in paths]
            tables[part] = pyarrow.concat_tables(files, promote_options="permissive")
        except (OSError, pyarrow.ArrowException) as error:
            rule = f"files in {paths[0].parent} cannot be read; need Parquet with image and label"
            raise BadInput("dataset", name, rule) from error
    return tables
