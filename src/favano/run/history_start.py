"""The start of a history's chain of digests: what the run of a seed is made of."""

from __future__ import annotations

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
