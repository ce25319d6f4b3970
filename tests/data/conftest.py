"""Small data sets in the files of the hub."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

ParquetWriter: TypeAlias = Callable[[Path, Sequence[bytes], Sequence[object]], Path]
ImageEncoder: TypeAlias = Callable[[int, tuple[int, int], str], bytes]


@pytest.fixture(autouse=True)
def _no_ambient_folders(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Neither the developer's data nor the developer's cache leak into a test."""
    monkeypatch.delenv("FAVANO_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="session")
def encode() -> ImageEncoder:
    """An image of one grey value as PNG bytes: value, (width, height), Pillow mode."""

    def encoded(value: int, size: tuple[int, int], mode: str) -> bytes:
        from PIL import Image

        pixels = np.full((size[1], size[0]), value, dtype=np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(pixels).convert(mode).save(buffer, format="PNG")
        return buffer.getvalue()

    return encoded


@pytest.fixture(scope="session")
def write_parquet() -> ParquetWriter:
    """A Parquet file in the hub's layout."""

    def write(path: Path, images: Sequence[bytes], labels: Sequence[object]) -> Path:
        import pyarrow
        import pyarrow.parquet

        path.parent.mkdir(parents=True, exist_ok=True)
        column = [{"bytes": image, "path": None} for image in images]
        kind = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
        table = pyarrow.table({"image": pyarrow.array(column, kind), "label": list(labels)})
        pyarrow.parquet.write_table(table, path)
        return path

    return write
