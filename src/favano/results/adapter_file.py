"""An adapter: what was trained of a network, as a safetensors file under its own names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from favano.errors import BadInput, WriteFailed, require
from favano.records import as_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor, nn


def write_adapter(path: Path | str, state: Mapping[str, Tensor]) -> Path:
    """Write the tensors of one model."""
    from safetensors.torch import save

    file = as_path("path", path)
    require(not file.exists(), "path", file, "is there already; choose another, or remove it")
    content = save({name: tensor.contiguous() for name, tensor in state.items()})
    try:
        file.write_bytes(content)
    except OSError as error:
        raise WriteFailed(f"path={file}: could not be written: {error.strerror}") from error
    return file


def load_adapter(network: nn.Module, path: Path | str) -> None:
    """Put what a run has trained (`Result.save_adapter`) into a network; all else stays as it is.

    A file of another network is refused, and one that lacks what is trained here: then nothing is
    changed.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    file, name = as_path("path", path), type(network).__name__
    try:
        state = load_file(file)
    except (SafetensorError, OSError) as error:
        raise BadInput("path", file, "is no safetensors file that can be read") from error
    own = network.state_dict()
    for key, tensor in state.items():
        require(key in own, "path", file, f"holds {key}, which {name} does not have")
        mine, theirs = tuple(own[key].shape), tuple(tensor.shape)
        require(mine == theirs, "path", file, f"holds {key} of shape {theirs}, {name} has {mine}")
    for key, parameter in network.named_parameters():
        there = key in state or not parameter.requires_grad
        require(there, "path", file, f"does not hold {key}, which {name} trains")
    network.load_state_dict(state, strict=False)
