"""Dirichlet split: one Dirichlet draw per class divides it over the clients.

Yurochkin et al. 2019 (arXiv 1905.12022) and Hsu, Qi, Brown 2019, computed by `flwr-datasets`.
"""

from __future__ import annotations

import warnings

import numpy as np

from favano.errors import BadInput, require
from favano.rng import Stream, bits
from favano.types import Ints


def dirichlet(labels: Ints, clients: int, concentration: float, seed: int) -> list[Ints]:
    """Parts with class proportions drawn from Dirichlet(concentration); no part is empty."""
    how = f"dirichlet:{concentration:g}"
    try:
        import datasets
        from flwr_datasets.partitioner import DirichletPartitioner
    except ImportError as error:
        raise BadInput("split", how, "needs pip install 'favano[data]'") from error
    rule = f"{clients} clients for {len(labels)} samples: need at most one client per sample"
    require(clients <= len(labels), "split", how, rule)
    partitioner = DirichletPartitioner(
        num_partitions=clients,
        partition_by="label",
        alpha=concentration,
        min_partition_size=1,
        shuffle=False,
        seed=int(bits(seed, Stream.SPLIT)),
    )
    columns = {"label": labels, "place": np.arange(len(labels))}
    partitioner.dataset = datasets.Dataset.from_dict(columns)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one for every draw with an empty part
            parts = [partitioner.load_partition(client) for client in range(clients)]
    except ValueError as error:
        rule = f"every draw left one of {clients} clients empty: need a larger A or fewer clients"
        raise BadInput("split", how, rule) from error
    return [np.sort(np.asarray(part["place"], dtype=np.int64)) for part in parts]
