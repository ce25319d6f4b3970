"""Checkpoints: a line with format and digest, then a tree of plain data as safetensors.

The tree holds None, numbers, texts, arrays, and lists of these. Nothing here can run code.
"""

from __future__ import annotations

import hashlib
import json
from typing import Final, TypeAlias, cast

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from favano.types import Array

Tree: TypeAlias = "bool | int | float | str | Array | list[Tree] | None"

FORMAT: Final = 1
_NAME: Final = "favano-checkpoint"
_TREE: Final = "__metadata__"
_ARRAY: Final = "array"  # an object with this key stands for an array


def checkpoint_to_bytes(tree: Tree) -> bytes:
    """The content of a checkpoint file."""
    arrays: dict[str, Array] = {}

    def without_arrays(value: Tree) -> object:
        if isinstance(value, list):
            return [without_arrays(item) for item in value]
        if isinstance(value, np.ndarray):
            arrays[str(len(arrays))] = np.ascontiguousarray(value)
            return {_ARRAY: str(len(arrays) - 1), "shape": list(value.shape)}
        return value

    text = json.dumps(without_arrays(tree))
    body = save(arrays, metadata={"tree": text})
    return f"{_NAME} {FORMAT} {hashlib.sha256(body).hexdigest()}\n".encode() + body


def checkpoint_from_bytes(content: bytes) -> Tree:
    """The inverse; a `ValueError` says why a file cannot be used."""
    first, _, body = content.partition(b"\n")
    name, _, rest = first.decode("ascii", "replace").partition(" ")
    number, _, digest = rest.partition(" ")
    if name != _NAME:
        raise ValueError("is not a checkpoint")
    if number != str(FORMAT):
        raise ValueError(f"has format {number[:20]}, which this version does not read")
    if hashlib.sha256(body).hexdigest() != digest:
        raise ValueError("is damaged: its digest is wrong")
    try:
        arrays, tree = load(body), json.loads(_metadata(body)["tree"])
        return _with_arrays(tree, arrays)
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"is damaged: {error}") from error


def _with_arrays(value: object, arrays: dict[str, Array]) -> Tree:
    if isinstance(value, list):
        return [_with_arrays(item, arrays) for item in value]
    if isinstance(value, dict):  # each array once: a stranger's tree could name one a million times
        return np.array(arrays.pop(value[_ARRAY])).reshape(value["shape"])
    return cast(Tree, value)


def _metadata(body: bytes) -> dict[str, str]:
    length = int.from_bytes(body[:8], "little")
    metadata: dict[str, str] = json.loads(body[8 : 8 + length])[_TREE]
    return metadata
