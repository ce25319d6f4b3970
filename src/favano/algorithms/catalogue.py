"""Every algorithm by the name the command line knows it by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from favano.algorithms.asyncsgd import AsyncSGD
from favano.algorithms.favano import Favano
from favano.algorithms.favano_delta import FavanoDelta
from favano.algorithms.fedavg import FedAvg
from favano.algorithms.fedbuff import FedBuff
from favano.algorithms.quafl import Quafl

AnyAlgorithm: TypeAlias = Favano | FavanoDelta | FedAvg | Quafl | FedBuff | AsyncSGD

CATALOGUE: Mapping[str, type[AnyAlgorithm]] = {
    "favano": Favano,
    "favano-delta": FavanoDelta,
    "fedavg": FedAvg,
    "quafl": Quafl,
    "fedbuff": FedBuff,
    "asyncsgd": AsyncSGD,
    "asyncsgd-adaptive": AsyncSGD,
}

# Methods whose updates are linear in the models, with weights that do not depend on them.
LINEAR = (Favano, FavanoDelta, FedAvg, Quafl, FedBuff, AsyncSGD)
