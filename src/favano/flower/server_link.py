"""The server's end of the link: how models go out to clients, and how theirs are read.

Behind a codec, a version is packed beside the model that its client began the job before from. A
client that is new, or may have lost that model, is sent all numbers. Both sides read what they
would read in a simulation (`aggregation.link`).
"""

from __future__ import annotations

from typing import NamedTuple

from favano.aggregation.link import SERVER
from favano.flower.payload import WHOLE, Shape, draws, fingerprint, pack, unpack
from favano.quantisation import Codec
from favano.types import Vector


class Handed(NamedTuple):
    """A model as a client is handed it."""

    model: Vector  # as the client reads it
    data: bytes  # on the wire; none if the client has it
    key: int = WHOLE  # fingerprint of the model beside which it is read


class ServerLink:
    """Packs and reads the models of one federation.

    Args:
        shape: of all models.
        codec: None: all numbers are sent as they are.
        seed: of its draws.
    """

    def __init__(self, shape: Shape, codec: Codec | None = None, *, seed: int = 0) -> None:
        self.shape, self.codec, self._seed = shape, codec, seed
        self._whole: Handed | None = None  # the last one
        self._version, self._packed = -1, dict[int, tuple[Vector, Handed]]()  # by identity

    def whole(self, model: Vector) -> Handed:
        """A model with all its numbers."""
        if self._whole is None or self._whole.model is not model:
            self._whole = Handed(model, pack(model, self.shape))
        return self._whole

    def packed(self, version: int, model: Vector, last: Vector) -> Handed:
        """A version for a client that began its last job from another model.

        Clients that began from the same model get the same message.
        """
        if self._version != version:
            self._version, self._packed = version, {}
        if id(last) not in self._packed:
            self._packed[id(last)] = last, self._pack(version, model, last)
        return self._packed[id(last)][1]

    def again(self, last: Vector) -> Handed:
        """The model that a client began its last job from, once more."""
        return Handed(last, b"", fingerprint(last))

    def read(self, data: bytes, start: Vector, server: Vector) -> Vector:
        """The end model of a job that began from `start`, beside the server's newest model."""
        return unpack(data, self.shape, self.codec, key=server, known=start)

    def _pack(self, version: int, model: Vector, last: Vector) -> Handed:
        assert self.codec is not None
        place = {"seed": self._seed, "stream": SERVER, "message": version + 1}
        noise = draws(self.codec, self.shape.parameters, **place)
        data = pack(model, self.shape, self.codec, known=last, noise=noise)
        read = unpack(data, self.shape, self.codec, key=last, known=last)
        return Handed(read, data, fingerprint(last))
