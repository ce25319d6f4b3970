"""Few bits: codecs for messages with their packed wire format, and training with LUQ."""

from favano.quantisation.codec import Codec, Coded
from favano.quantisation.lattice import Lattice
from favano.quantisation.layers import Draws, Quantised, draws_of, quantised
from favano.quantisation.min_max import MinMax
from favano.quantisation.noise import kept
from favano.quantisation.packing import pack, packed_size, unpack
from favano.quantisation.qsgd import Qsgd
from favano.quantisation.recipe import (
    ClippedGradients,
    EvaluateWith,
    Gradients,
    QuantisedLayers,
    Recipe,
)
from favano.quantisation.sawb import GridName
from favano.quantisation.wire import from_bytes, message_bits, to_bytes

__all__ = [
    "ClippedGradients",
    "Codec",
    "Coded",
    "Draws",
    "EvaluateWith",
    "Gradients",
    "GridName",
    "Lattice",
    "MinMax",
    "Qsgd",
    "Quantised",
    "QuantisedLayers",
    "Recipe",
    "draws_of",
    "from_bytes",
    "kept",
    "message_bits",
    "pack",
    "packed_size",
    "quantised",
    "to_bytes",
    "unpack",
]
