"""The median of client deltas."""

from favano.methods.method import ClientUpdates
from favano.transforms.transform import ServerTransform
from favano.transforms.trimmed_mean import FEWEST, middle_mean
from favano.types import Stack


class Median(ServerTransform[tuple[()]]):
    """c_i <- median_j c_j, for each parameter by itself.

    Of fewer than three clients nobody can tell who is right, and none of them moves the model
    (Yin, Chen, Ramchandran, Bartlett 2018).
    """

    fewest = FEWEST

    def deltas(
        self, state: tuple[()], deltas: Stack, updates: ClientUpdates
    ) -> tuple[Stack, tuple[()]]:
        return middle_mean(deltas, len(deltas)), state


def median() -> Median:
    """Replace the mean of client deltas by their median; see `Median`."""
    return Median()
