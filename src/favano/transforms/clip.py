"""Clipping of client deltas."""

from favano.methods.method import ClientUpdates
from favano.options import PositiveTime, option
from favano.transforms.transform import ServerTransform
from favano.types import Stack


class Clip(ServerTransform[tuple[()]]):
    """Shortens what is too long: c_i <- c_i min(1, norm / |c_i|)."""

    norm: PositiveTime = option(1.0, "longest delta of a client")

    def deltas(
        self, state: tuple[()], deltas: Stack, updates: ClientUpdates
    ) -> tuple[Stack, tuple[()]]:
        length = deltas.norm(dim=1, keepdim=True)
        return deltas * (self.norm / length.clamp(min=self.norm)), state


def clip(norm: float) -> Clip:
    """Clip the delta of each client to this length; see `Clip`."""
    return Clip(norm=norm)
