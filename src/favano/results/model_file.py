"""`model.safetensors`: the final models of all seeds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from favano.errors import BadInput
from favano.records.folder import ABOUT, MODEL, ORDER

if TYPE_CHECKING:
    from torch import Tensor

_AS_WRITTEN = "need all files of a result as they were written"
States: TypeAlias = "Mapping[int, Mapping[str, Tensor]]"  # by seed, then by name


def models_to_bytes(states: States, version: str | None) -> bytes:
    """The content of the model file; names start with the seed if there are several."""
    from safetensors.torch import save

    prefix = len(states) > 1
    tensors = {
        f"seed-{seed}.{name}" if prefix else name: tensor.contiguous()
        for seed, state in states.items()
        for name, tensor in state.items()
    }
    about = {"version": version, ORDER: [*tensors]}
    return save(tensors, metadata={ABOUT: json.dumps(about)})


def read_models(
    path: Path, seeds: Sequence[int], name: str = "results", remedy: str = _AS_WRITTEN
) -> dict[int, dict[str, Tensor]]:
    """The final models of these seeds, with their tensors in the order of a flat model.

    `name` is what the caller calls the folder, and `remedy` what helps if the file is damaged.
    """
    from safetensors import SafetensorError, safe_open

    models: dict[int, dict[str, Tensor]] = {}
    alone = f"seed-{seeds[0]}." if len(seeds) == 1 else ""
    try:
        if not path.is_file():
            raise FileNotFoundError(path)  # a pipe would be waited for
        with safe_open(path, "pt") as file:
            about = (file.metadata() or {}).get(ABOUT, "")
            names = json.loads(about)[ORDER] if about.startswith("{") else file.keys()
            if len(names) != len(file.keys()) or set(names) != set(file.keys()):
                raise ValueError("the order of its tensors does not name each of them once")
            for key in names:
                seed, _, own = f"{alone}{key}".removeprefix("seed-").partition(".")
                models.setdefault(int(seed), {})[own] = file.get_tensor(key)
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        state = "a damaged" if path.is_file() else "no"
        raise BadInput(name, path.parent, f"holds {state} {MODEL}; {remedy}") from error
    return models
