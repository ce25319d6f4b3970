"""Every algorithm by the name the command line knows it by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from favano.algorithms.aafl import Aafl
from favano.algorithms.asyncfeded import AsyncFedED
from favano.algorithms.asyncsgd import AsyncSGD
from favano.algorithms.favano import Favano
from favano.algorithms.favano_delta import FavanoDelta
from favano.algorithms.fedasync import FedAsync
from favano.algorithms.fedavg import FedAvg
from favano.algorithms.fedbuff import FedBuff
from favano.algorithms.fedfix import FedFix
from favano.algorithms.fednova import FedNova
from favano.algorithms.quafl import Quafl
from favano.algorithms.scaffold import Scaffold

AnyAlgorithm: TypeAlias = (
    Favano
    | FavanoDelta
    | FedAvg
    | Quafl
    | FedBuff
    | AsyncSGD
    | FedAsync
    | Aafl
    | FedFix
    | Scaffold
    | AsyncFedED
    | FedNova
)

CATALOGUE: Mapping[str, type[AnyAlgorithm]] = {
    "favano": Favano,
    "favano-delta": FavanoDelta,
    "fedavg": FedAvg,
    "quafl": Quafl,
    "fedbuff": FedBuff,
    "asyncsgd": AsyncSGD,
    "asyncsgd-adaptive": AsyncSGD,
    "fedasync": FedAsync,
    "aafl": Aafl,
    "fedfix": FedFix,
    "scaffold": Scaffold,
    "asyncfeded": AsyncFedED,
    "fedprox": FedAvg,  # with a proximal term in the local rule
    "fednova": FedNova,
}

# Methods whose updates are linear in the models, with weights that do not depend on them.
LINEAR = (Favano, FavanoDelta, FedAvg, Quafl, FedBuff, AsyncSGD, FedAsync, Aafl, FedFix, FedNova)
