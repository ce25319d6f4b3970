"""Data sets of the Hugging Face hub, downloaded by `datasets`."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse
from urllib.request import getproxies

from favano.data.origins import Hub
from favano.errors import BadInput, require

if TYPE_CHECKING:
    import pyarrow


def download(origin: Hub, arrow: Path, name: str) -> dict[str, pyarrow.Table]:
    """Tables `train` and, if it has one, `test`, with all columns of the repository.

    Args:
        origin: the repository.
        arrow: folder for the library's intermediate files; the tables are mapped from it.
        name: the data set, for messages.
    """
    try:
        import datasets
    except ImportError as error:
        raise BadInput("dataset", name, "needs pip install 'favano[data]'") from error
    unreachable = (
        f"no local folder given and {origin.repository} cannot be reached on the hub; "
        "give --data-dir or set FAVANO_DATA, or allow network access"
    )
    require(_resolves(), "dataset", name, unreachable)
    try:
        with _quiet():
            splits = datasets.load_dataset(origin.repository, cache_dir=str(arrow))
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise BadInput("dataset", name, unreachable) from error
    parts = {"train": "train", "test": origin.test_split}
    return {part: splits[split].data.table for part, split in parts.items() if split}


def _resolves() -> bool:
    """Whether the hub's address is known here; without it, `datasets` retries for half a minute."""
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
    """Show no progress bars and no retry messages; restore the caller's settings afterwards."""
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
