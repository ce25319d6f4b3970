"""What a launch gives, and when."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from favano.types import Ints, Stack

Mask = npt.NDArray[np.bool_]


class Launched:
    """Lanes that are done, as soon as the device has come so far."""

    def __init__(self, lanes: Ints, ends: Stack) -> None:
        self.lanes, self.ends = lanes, ends
        finite = ends.isfinite().all(dim=1)
        self._finite = finite.to("cpu", non_blocking=True)
        self._arrived = torch.cuda.Event() if ends.is_cuda else None  # type: ignore[no-untyped-call]
        if self._arrived is not None:
            self._arrived.record()

    def finite(self) -> Mask:
        """Which of the end models hold neither NaN nor infinity; waits for the device."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return np.asarray(self._finite.numpy(), dtype=np.bool_)
