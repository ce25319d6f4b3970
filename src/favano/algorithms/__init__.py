"""One file a method, pure functions on flat models."""

from favano.algorithms.asyncsgd import AsyncSGD, DelayRule
from favano.algorithms.base import Algorithm, ModelState, State, Visit
from favano.algorithms.catalogue import CATALOGUE, LINEAR, AnyAlgorithm
from favano.algorithms.favano import Favano, FavanoState
from favano.algorithms.favano_delta import FavanoDelta
from favano.algorithms.fedavg import FedAvg
from favano.algorithms.fedbuff import BufferMode, FedBuff, buffer_policy
from favano.algorithms.quafl import Quafl
from favano.algorithms.staleness import Hinge, Polynomial, Staleness, parse_staleness
from favano.algorithms.weights import Empirical, Known, Reweight, Weights

__all__ = [
    "CATALOGUE",
    "LINEAR",
    "Algorithm",
    "AnyAlgorithm",
    "AsyncSGD",
    "BufferMode",
    "DelayRule",
    "Empirical",
    "Favano",
    "FavanoDelta",
    "FavanoState",
    "FedAvg",
    "FedBuff",
    "Hinge",
    "Known",
    "ModelState",
    "Polynomial",
    "Quafl",
    "Reweight",
    "Staleness",
    "State",
    "Visit",
    "Weights",
    "buffer_policy",
    "parse_staleness",
]
