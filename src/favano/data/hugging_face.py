"""The one place that talks to Hugging Face `datasets`: two tables with columns image and label."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse
from urllib.request import getproxies

from favano.data.origins import Folder, Origin
from favano.errors import BadInput, need

if TYPE_CHECKING:
    from datasets import Dataset as Table
    from datasets import DatasetDict

_IMAGE_COLUMNS = ("image", "img")


def read_splits(origin: Origin, arrow: Path, name: str) -> dict[str, Table]:
    """Tables `train` and `test` with encoded images in `image` and numbers in `label`.

    Args:
        origin: local files or a repository of the hub.
        arrow: folder for the library's intermediate files; the tables are mapped from it.
        name: the data set, for messages.
    """
    try:
        import datasets
    except ImportError as error:
        raise BadInput("dataset", name, "needs pip install 'favano[data]'") from error
    with _quiet():
        if isinstance(origin, Folder):
            files = {"train": origin.train, "test": origin.test}
            data_files = {part: [str(path) for path in paths] for part, paths in files.items()}
            try:
                found: DatasetDict = datasets.load_dataset(
                    "parquet", data_files=data_files, cache_dir=str(arrow)
                )
            except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
                folder = origin.train[0].parent
                rule = f"files in {folder} cannot be read; need Parquet with image and label"
                raise BadInput("dataset", name, rule) from error
            return {part: _columns(name, found[part]) for part in files}
        advice = "give --data-dir or set FAVANO_DATA, or allow network access"
        unreachable = f"no local folder given and {origin.repository} cannot be reached on the hub"
        need(_resolves(), "dataset", name, f"{unreachable}; {advice}")
        try:
            found = datasets.load_dataset(origin.repository, cache_dir=str(arrow))
        except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
            raise BadInput("dataset", name, f"{unreachable}; {advice}") from error
        parts = {"train": "train", "test": origin.test_split}
        return {part: _columns(name, found[split]) for part, split in parts.items()}


def _columns(name: str, table: Table) -> Table:
    """The table with its two columns under our names and images left encoded."""
    import datasets

    present = table.column_names
    image = next((column for column in _IMAGE_COLUMNS if column in present), None)
    if image is None or "label" not in present:
        rule = f"columns {', '.join(present)}: need image (or img) and label"
        raise BadInput("dataset", name, rule)
    table = table.select_columns([image, "label"])
    if image != "image":
        table = table.rename_column(image, "image")
    return table.cast_column("image", datasets.Image(decode=False))


def _resolves() -> bool:
    """Whether the hub has an address here; spares an offline user half a minute of retries."""
    from huggingface_hub import constants

    if getproxies():
        return True
    try:
        socket.getaddrinfo(urlparse(constants.ENDPOINT).hostname, None)
    except OSError:
        return False
    return True


@contextmanager
def _quiet() -> Iterator[None]:
    """No progress bars and no retry messages, and the caller's settings back afterwards."""
    import datasets
    from huggingface_hub.utils import logging as hub_logging

    bars, level = not datasets.are_progress_bars_disabled(), hub_logging.get_verbosity()
    datasets.disable_progress_bars()
    hub_logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        hub_logging.set_verbosity(level)
        if bars:
            datasets.enable_progress_bars()
