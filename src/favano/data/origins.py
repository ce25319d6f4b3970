"""Where data are: a folder of Parquet files or of decoded arrays, or a repository of the hub."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from favano.data import cache
from favano.data.catalogue import KNOWN, NAMES
from favano.errors import require
from favano.notices import notice

WRITERS = "writers.parquet"  # more columns for the samples, beside their files
_DECODING = "3"  # version of the decoding; older caches are not read
_TEST_PREFIXES = ("test", "validation", "valid")


@dataclass(frozen=True)
class Folder:
    """Parquet files of a local folder, in the layout of the hub."""

    label: str
    train: tuple[Path, ...]
    test: tuple[Path, ...]
    writers: Path | None = None

    @property
    def source(self) -> Path:
        """The folder."""
        return self.train[0].parent

    @property
    def cache_name(self) -> str:
        """Name of the cache: depends on the files' names, sizes and modification times."""
        writers = () if self.writers is None else (self.writers,)
        files = [(path.name, path.stat()) for path in (*self.train, *self.test, *writers)]
        lines = [f"{name} {status.st_size} {status.st_mtime_ns}" for name, status in files]
        return f"{self.label}-{_short_hash([_DECODING, *lines])}"


@dataclass(frozen=True)
class Hub:
    """A repository of the Hugging Face hub and the split to test on, if it has one."""

    label: str
    repository: str
    test_split: str | None

    @property
    def cache_name(self) -> str:
        """Name of the cache; newer versions on the hub are ignored."""
        return f"{self.label}-{_short_hash([_DECODING, self.repository, str(self.test_split)])}"


@dataclass(frozen=True)
class Decoded:
    """A folder of decoded arrays, copied from a cache; no library is needed to read it."""

    folder: Path


Origin: TypeAlias = Folder | Hub  # data that have to be decoded


def find(name: str, data_dir: Path | None, decoded: Path | None = None) -> Origin | Decoded:
    """Where to read the data set `name` from: a name of the catalogue, or a path.

    A named data set is read from the folder of its name in `data_dir`, by default `$FAVANO_DATA`;
    without either it comes from the hub. A folder of decoded arrays is read as it is. Of a folder
    that is gone, what was decoded from it is found among the folders in `decoded`.
    """
    if name not in KNOWN:
        path = Path(name)
        if kept := _kept(path, decoded):
            return kept
        rule = f"need one of {', '.join(NAMES)}, or a folder of Parquet files"
        require(path.is_dir(), "dataset", name, rule)
        advice = "need train-*.parquet and test-*.parquet (or validation-*.parquet)"
        return _local(name, path, path.resolve().name, advice, tested=True)
    given = os.environ.get("FAVANO_DATA")
    root = data_dir if data_dir is not None else Path(given) if given else None
    if root is None:
        return Hub(name, KNOWN[name].hub, KNOWN[name].test_split)
    if kept := _kept(root / name, decoded):
        return kept
    advice = "give another --data-dir or FAVANO_DATA, or neither to download from the hub"
    return _local(name, root / name, name, advice, tested=KNOWN[name].test_split is not None)


def _kept(path: Path, decoded: Path | None) -> Decoded | None:
    """What was decoded from a folder that is gone, if anything was."""
    folder = None if decoded is None or path.exists() else cache.decoded_from(decoded, path)
    if folder is None:
        return None
    notice(f"{path} is gone; the data are those decoded from it, in {folder}")
    return Decoded(folder)


def _local(name: str, path: Path, label: str, advice: str, *, tested: bool) -> Folder | Decoded:
    """The files of a folder; `tested`: it needs files to test on."""
    if cache.complete(path) or cache.complete(path, cache.TEXT):
        return Decoded(path)
    train = _files(path, "train")
    candidates = (_files(path, prefix) for prefix in _TEST_PREFIXES)
    test = next((files for files in candidates if files), ())
    for part, files in (("train", train), ("test", test)):
        missing = f"{part}-*.parquet" if train or test else "Parquet files"
        needed = part == "train" or tested
        require(bool(files) or not needed, "dataset", name, f"no {missing} in {path}; {advice}")
    writers = path / WRITERS
    return Folder(label, train, test, writers if writers.is_file() else None)


def _files(folder: Path, prefix: str) -> tuple[Path, ...]:
    return tuple(sorted(path for path in folder.glob(f"{prefix}-*.parquet") if path.is_file()))


def _short_hash(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]
