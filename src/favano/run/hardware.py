"""What a run is computed by."""

from __future__ import annotations

import torch

from favano.training import processor


def hardware(device: str) -> str:
    """The name of the processor, or of the GPU; the last bits of a result depend on it."""
    on = torch.device(device)
    return torch.cuda.get_device_name(on) if on.type == "cuda" else processor()
