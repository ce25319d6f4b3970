"""Local Parquet files read by `pyarrow` alone, where Hugging Face `datasets` is not installed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from favano.data.origins import Folder
from favano.errors import BadInput

if TYPE_CHECKING:
    import pyarrow

_IMAGE_COLUMNS = ("image", "img")


@dataclass(frozen=True)
class Label:
    """What the files themselves say of their labels."""

    num_classes: int | None


@dataclass(frozen=True)
class ParquetTable:
    """As much of a table of `datasets` as decoding needs."""

    table: pyarrow.Table
    features: dict[str, Label]

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def select_columns(self, name: str) -> ParquetTable:
        """One column alone."""
        return ParquetTable(self.table.select([name]), self.features)

    def iter(self, batch_size: int) -> Iterator[dict[str, list[dict[str, bytes]]]]:
        """Batches of rows, each a list a column."""
        for batch in self.table.to_batches(max_chunksize=batch_size):
            yield batch.to_pydict()


def read_parquet(origin: Folder, name: str) -> dict[str, ParquetTable]:
    """Tables `train` and `test` with encoded images in `image` and numbers in `label`."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise BadInput("dataset", name, "needs pip install 'favano[data]'") from error

    def read(paths: Sequence[Path]) -> ParquetTable:
        try:
            table = pyarrow.concat_tables([parquet.read_table(path) for path in paths])
        except (OSError, pyarrow.ArrowException) as error:
            folder = paths[0].parent
            rule = f"files in {folder} cannot be read; need Parquet with image and label"
            raise BadInput("dataset", name, rule) from error
        present = table.column_names
        image = next((column for column in _IMAGE_COLUMNS if column in present), None)
        if image is None or "label" not in present:
            rule = f"columns {', '.join(present)}: need image (or img) and label"
            raise BadInput("dataset", name, rule)
        label = Label(_named_classes(table.schema.metadata or {}))
        columns = table.select([image, "label"]).rename_columns(["image", "label"])
        return ParquetTable(columns, {"label": label})

    return {"train": read(origin.train), "test": read(origin.test)}


def _named_classes(metadata: dict[bytes, bytes]) -> int | None:
    """How many class names the hub's own files carry."""
    try:
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
        return len(features["label"]["names"])
    except (KeyError, TypeError, ValueError):
        return None
