"""Data sets, their split over clients, and each client's stream of mini-batches.

Nothing here needs PyTorch; what turns pixels into tensors is in `favano.data.transforms`.
"""

from favano.data.batches import BatchStream, Order
from favano.data.catalogue import NAMES
from favano.data.dataset import Dataset, Pixels, hold_out, take_fraction
from favano.data.origins import find
from favano.data.partition import SPLITS, check_parts, check_split, split
from favano.data.preprocessing import Preprocessing
from favano.data.sources import load

__all__ = [
    "NAMES",
    "SPLITS",
    "BatchStream",
    "Dataset",
    "Order",
    "Pixels",
    "Preprocessing",
    "check_parts",
    "check_split",
    "find",
    "hold_out",
    "load",
    "split",
    "take_fraction",
]
