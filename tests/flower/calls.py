"""A small problem, calls to its clients, and the messages that carry them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from flwr.app import Message
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity
from torch import Tensor, nn

from favano.flower.wire import Call
from favano.types import Ints

RUN = "0123456789abcdef"
CLIENTS = 3


def network() -> nn.Module:
    """BatchNorm and dropout included, so that buffers, counters and draws are, too."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return nn.Sequential(
            nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.25), nn.Linear(8, 3)
        )


def samples(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Inputs and classes of all clients."""
    numbers = torch.Generator().manual_seed(4)
    inputs = torch.randn(60, 6, generator=numbers, dtype=torch.float64)
    return inputs.to(dtype), torch.randint(3, (60,), generator=numbers)


def parts() -> list[Ints]:
    """The samples of each client."""
    order = np.random.default_rng(5).permutation(60)
    return [order[:14], order[14:32], order[32:]]


def data_of(client: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Inputs and classes of one client."""
    inputs, targets = samples(dtype)
    own = torch.from_numpy(parts()[client])
    return inputs[own], targets[own]


def call(model: bytes, **changes: object) -> Call:
    """A call to client 1, with some fields changed."""
    usual: dict[str, object] = {
        "run": RUN, "client": 1, "job": 0, "version": -1, "first_step": 0, "steps": 5,
        "rate": 0.1, "seed": 7, "training": '{"batch_size": 4}',
    }  # fmt: skip
    return Call(model=model, **{**usual, **changes})  # type: ignore[arg-type]


def sent(message: Message) -> Message:
    """The message as its receiver has it: written to bytes and read again."""
    contents = {key: part.deflate() for key, part in get_all_nested_objects(message).items()}
    received = inflate_object_from_contents(message.object_id, contents)
    assert isinstance(received, Message)
    return received


@contextmanager
def in_a_task() -> Iterator[None]:
    """Flower makes messages inside a task only."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_task_id", "_run_id", "_node_id"):
            patch.setattr(TaskIdentity, name, 1)
        yield
