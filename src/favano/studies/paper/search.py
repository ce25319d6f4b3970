"""The search that `--tune` gives the methods of the paper: 35 pairs of rates, two seeds."""

from __future__ import annotations

from typing import Final

from favano.studies.search import RateSearch, Search, SearchGrid, to_the_end

_ONE_RATE = SearchGrid(client=tuple(2 ** (third / 3) for third in range(-17, 18)), server=(1.0,))
_CLIENT = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2)

PAPER_SEARCH: Final = RateSearch(
    grids={
        "favano": _ONE_RATE,
        "quafl": _ONE_RATE,
        "fedbuff": SearchGrid(_CLIENT, server=(0.03, 0.1, 0.2, 0.4, 1.0)),
        "fedavg": SearchGrid(_CLIENT, server=(0.5, 1.0, 1.5, 2.0, 3.0)),
    },
    search=Search(to_the_end(35), holdout=10000, seeds=2),
)
