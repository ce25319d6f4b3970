"""Messages in few bits: codecs and their packed wire format."""

from favano.quantisation.codec import Codec, Coded
from favano.quantisation.lattice import Lattice
from favano.quantisation.min_max import MinMax
from favano.quantisation.packing import pack, packed_size, unpack
from favano.quantisation.qsgd import Qsgd
from favano.quantisation.wire import from_bytes, message_bits, to_bytes

__all__ = [
    "Codec",
    "Coded",
    "Lattice",
    "MinMax",
    "Qsgd",
    "from_bytes",
    "message_bits",
    "pack",
    "packed_size",
    "to_bytes",
    "unpack",
]
