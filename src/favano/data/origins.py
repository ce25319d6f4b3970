"""Where images lie: a folder of Parquet files or of decoded arrays, or a repository of the hub."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from favano.data import cache
from favano.data.catalogue import KNOWN, NAMES
from favano.errors import BadInput

_DECODING = "1"  # changes when decoding does, so that old caches are not read
_TEST_PREFIXES = ("test", "validation", "valid")


@dataclass(frozen=True)
class Folder:
    """Parquet files of one local folder, in the hub's layout."""

    label: str
    train: tuple[Path, ...]
    test: tuple[Path, ...]

    @property
    def cache_name(self) -> str:
        """Name of the cache: changes with the files' names, sizes or times of change."""
        lines = [_DECODING]
        for path in (*self.train, *self.test):
            status = path.stat()
            lines.append(f"{path.name} {status.st_size} {status.st_mtime_ns}")
        return f"{self.label}-{_short_hash(lines)}"


@dataclass(frozen=True)
class Hub:
    """A repository of the Hugging Face hub and the split to test on."""

    label: str
    repository: str
    test_split: str

    @property
    def cache_name(self) -> str:
        """Name of the cache: the hub's version found first is kept."""
        return f"{self.label}-{_short_hash([_DECODING, self.repository, self.test_split])}"


@dataclass(frozen=True)
class Decoded:
    """A folder of the decoded arrays themselves, copied from a cache; needs no library to read."""

    folder: Path


Origin: TypeAlias = Folder | Hub  # what has to be decoded


def find(name: str, data_dir: Path | None) -> Origin | Decoded:
    """Where the data set `name` (of the catalogue, or a path) is to be read from.

    A named set is looked for in `data_dir`, by default `$FAVANO_DATA`, under its own name; with
    neither given it comes from the hub. A folder that holds decoded arrays is read as it is.
    """
    if name not in KNOWN:
        listed = ", ".join(NAMES)
        path = Path(name)
        if not path.is_dir():
            rule = f"need one of {listed}, or a folder of Parquet files"
            raise BadInput("dataset", name, rule)
        if cache.complete(path):
            return Decoded(path)
        advice = "need train-*.parquet and test-*.parquet (or validation-*.parquet)"
        return _folder(name, path, label=path.resolve().name, advice=advice)
    given = os.environ.get("FAVANO_DATA")
    root = data_dir if data_dir is not None else Path(given) if given else None
    if root is None:
        known = KNOWN[name]
        return Hub(name, known.hub, known.test_split)
    if cache.complete(root / name):
        return Decoded(root / name)
    advice = "give another --data-dir or FAVANO_DATA, or neither to download from the hub"
    return _folder(name, root / name, label=name, advice=advice)


def _folder(name: str, path: Path, *, label: str, advice: str) -> Folder:
    train = tuple(sorted(path.glob("train-*.parquet")))
    candidates = (tuple(sorted(path.glob(f"{prefix}-*.parquet"))) for prefix in _TEST_PREFIXES)
    test = next((files for files in candidates if files), ())
    for part, files in (("train", train), ("test", test)):
        if not files:
            missing = "Parquet files" if not (train or test) else f"{part}-*.parquet"
            raise BadInput("dataset", name, f"no {missing} in {path}; {advice}")
    return Folder(label, train, test)


def _short_hash(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]
