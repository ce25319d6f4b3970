"""One file a method, pure functions on flat models."""

from favano.algorithms.aafl import Aafl, ArrivalWeights, first_arrivals
from favano.algorithms.asyncfeded import AsyncFedED, AsyncFedEDState
from favano.algorithms.asyncsgd import AsyncSGD, DelayRule
from favano.algorithms.base import Algorithm, ModelState, State, Visit
from favano.algorithms.catalogue import CATALOGUE, LINEAR, AnyAlgorithm
from favano.algorithms.favano import Favano, FavanoState
from favano.algorithms.favano_delta import FavanoDelta
from favano.algorithms.fedasync import FedAsync
from favano.algorithms.fedavg import FedAvg
from favano.algorithms.fedbuff import BufferMode, FedBuff, buffer_policy
from favano.algorithms.fedfix import FedFix
from favano.algorithms.fednova import FedNova
from favano.algorithms.quafl import Quafl
from favano.algorithms.scaffold import Scaffold, ScaffoldState
from favano.algorithms.staleness import Hinge, Polynomial, Staleness, parse_staleness
from favano.algorithms.weights import Empirical, Known, Reweight, Weights

__all__ = [
    "CATALOGUE",
    "LINEAR",
    "Aafl",
    "Algorithm",
    "AnyAlgorithm",
    "ArrivalWeights",
    "AsyncFedED",
    "AsyncFedEDState",
    "AsyncSGD",
    "BufferMode",
    "DelayRule",
    "Empirical",
    "Favano",
    "FavanoDelta",
    "FavanoState",
    "FedAsync",
    "FedAvg",
    "FedBuff",
    "FedFix",
    "FedNova",
    "Hinge",
    "Known",
    "ModelState",
    "Polynomial",
    "Quafl",
    "Reweight",
    "Scaffold",
    "ScaffoldState",
    "Staleness",
    "State",
    "Visit",
    "Weights",
    "buffer_policy",
    "first_arrivals",
    "parse_staleness",
]
