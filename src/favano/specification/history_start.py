"""The start of a history's chain of digests: what the run of a seed is made of."""

from __future__ import annotations

import hashlib
from pathlib import Path

from favano.records.chain import chain_start
from favano.specification.digest import asked_digest
from favano.specification.spec import Spec


def history_start(
    spec: Spec, seed: int, *, data: str | None, files: str | None, source: str | None
) -> str:
    """The digest before the first row.

    Horizon and number of seeds are left out, since a longer run has the same beginning; so are
    machine, device and kernels, since digests are equal wherever bits are.

    Args:
        spec: complete.
        seed: of the run.
        data: digest of training and test data.
        files: digest of other files that the specification names.
        source: digest of the file of a user's method.
    """
    parts = {"specification": asked_digest(spec), "data": data, "files": files, "method": source}
    return chain_start(parts, seed)


def files_digest(spec: Spec) -> str | None:
    """A digest of the files that a run names: of its fleet, and of a split; None without any."""
    paths = [path for path in map(Path, named_files(spec)) if path.is_file()]
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while part := file.read(1 << 20):
                digest.update(part)
    return digest.hexdigest() if paths else None


def named_files(spec: Spec) -> list[str]:
    """The files of the fleet and of a split that a specification names."""
    kind, _, split = (spec.problem.split or "").partition(":")
    return [*spec.fleet.files, *([split] if kind == "file" else [])]
