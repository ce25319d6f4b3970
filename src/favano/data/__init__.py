"""Data sets, their split over clients, and each client's stream of mini-batches.

Nothing here needs PyTorch, except `favano.data.transforms`, which turns pixels into tensors.
"""

from favano.data.batches import BatchStream as BatchStream
from favano.data.catalogue import KNOWN_SHAPES as KNOWN_SHAPES
from favano.data.catalogue import NAMES as NAMES
from favano.data.dataset import Dataset as Dataset
from favano.data.natural import is_natural as is_natural
from favano.data.origins import find as find
from favano.data.partition import Traits as Traits
from favano.data.partition import partition as partition
from favano.data.preprocessing import Preprocessing as Preprocessing
from favano.data.sources import load as load
