"""What the owner of a node lets a server ask for: never one step on one sample."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("flwr")

from torch import Tensor, nn

from favano.data import BatchStream
from favano.errors import BadInput
from favano.flower import Client, Limits
from favano.flower.payload import pack, shape_of, unpack
from favano.flower.wire import Call
from favano.training import FlatModel
from tests.flower.calls import call, data_of, network
from tests.flower.test_client import Hand
from tests.flower.test_node import start_model

PIXELS, CLASSES, RATE = 12, 3, 0.5


def linear() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(PIXELS, CLASSES)


def images(count: int = 9) -> tuple[Tensor, Tensor]:
    numbers = torch.Generator().manual_seed(1)
    return torch.rand(count, PIXELS, generator=numbers), torch.arange(count) % CLASSES


def asked(flat: FlatModel, **changes: Any) -> Call:
    usual = {"steps": 1, "rate": RATE, "training": '{"batch_size": 1}'}
    return call(pack(flat.snapshot(), shape_of(flat)), **{**usual, **changes})


def recovered(client: Client, request: Call, flat: FlatModel) -> Tensor:
    """The attack: of one step on one sample, a row of weights moves by the sample, times a number
    by which its bias moves, too."""
    start = flat.snapshot()
    moved = start - unpack(client.reply(request).model, shape_of(flat))
    weights, bias = moved[: PIXELS * CLASSES].view(CLASSES, PIXELS), moved[PIXELS * CLASSES :]
    row = int(bias.abs().argmax())
    return weights[row] / bias[row]


def test_one_step_on_one_sample_gives_the_sample_away_and_is_not_answered() -> None:
    flat, (x, y) = FlatModel(linear(), device="cpu"), images()
    stolen = recovered(Client(linear, (x, y), limits=Limits(least_batch=1)), asked(flat), flat)
    assert (x - stolen).abs().max(dim=1).values.min() < 2e-6
    with pytest.raises(
        BadInput, match=r"^batch_size=1: this node needs 4 or more \(least_batch\)$"
    ):
        Client(linear, (x, y)).reply(asked(flat))


def test_nor_is_the_short_batch_at_the_end_of_an_epoch() -> None:
    """Of 9 samples in batches of 4, the third batch has one: the attack, within the first limit."""
    flat, (x, y) = FlatModel(linear(), device="cpu"), images()
    last = asked(flat, training='{"batch_size": 4}', first_step=2)
    stolen = recovered(Client(linear, (x, y), limits=Limits(least_batch=1)), last, flat)
    assert (x - stolen).abs().max(dim=1).values.min() < 2e-6
    client = Client(linear, (x, y))
    with pytest.raises(BadInput, match="first_step=2: its 1 steps see 1 samples, and this node"):
        client.reply(last)
    assert client.reply(replace(last, steps=2)).steps == 2
    full = replace(last, training='{"batch_size": 4, "batch_order": "continuous"}')
    assert client.reply(full).steps == 1


def test_nor_is_a_batch_that_draws_one_sample_again_and_again() -> None:
    """The server chooses the seed: here, of 9 samples, all four draws are the same one."""
    flat, data = FlatModel(linear(), device="cpu"), images()
    request = asked(flat, training='{"batch_size": 4, "batch_order": "replacement"}')
    part, stream = [np.arange(9)], np.array([request.client])
    drawn = {
        seed: len(set(BatchStream(part, 4, seed, stream, "replacement").indices(0, 0).tolist()))
        for seed in range(2000)
    }
    seed = next(seed for seed, count in drawn.items() if count == 1)
    client = Client(linear, data)
    with pytest.raises(BadInput, match="its 1 steps see 1 samples, and this node needs 4 or more"):
        client.reply(replace(request, seed=seed))
    other = next(seed for seed, count in drawn.items() if count == 4)
    assert client.reply(replace(request, seed=other)).steps == 1


def test_time_does_not_end_a_job_before_there_is_enough_behind_its_answer() -> None:
    """The first step reads one sample; there is time for one step, but two are made, or none."""
    flat, clock = FlatModel(linear(), device="cpu"), Hand()
    client = Client(linear, images(), pace=1.0, clock=clock, sleep=clock.sleep)
    request = asked(flat, training='{"batch_size": 4}', first_step=2, steps=9)
    assert [client.reply(replace(request, seconds=time)).steps for time in (1.0, 0.5, 3.0)] == [
        2,
        0,
        3,
    ]


@pytest.mark.parametrize(("seconds", "steps"), [(0.0, 0), (1.0, 3), (2.9, 3), (4.0, 4), (None, 9)])
def test_an_answer_is_so_many_steps_apart_or_none(seconds: float | None, steps: int) -> None:
    clock = Hand()
    limits = Limits(least_steps_apart=3)
    client = Client(network, data_of(1), pace=1.0, clock=clock, sleep=clock.sleep, limits=limits)
    assert client.reply(call(start_model(), steps=9, seconds=seconds)).steps == steps
    with pytest.raises(BadInput, match=r"^steps=2: this node needs 3 or more"):
        client.reply(call(start_model(), steps=2))


def test_a_node_takes_part_in_the_methods_that_it_names() -> None:
    client = Client(network, data_of(1), limits=Limits(methods=("favano", "fedavg")))
    assert client.reply(call(start_model(), method="fedavg")).steps == 5
    rule = "^method=quafl: this node takes part in favano, fedavg only$"
    with pytest.raises(BadInput, match=rule):
        client.reply(call(start_model(), method="quafl"))


def test_a_client_with_too_few_samples_does_not_answer() -> None:
    inputs, targets = data_of(1)
    few = Client(network, (inputs[:3], targets[:3]))
    with pytest.raises(BadInput, match=r"^samples=3: this node answers with 4 or more"):
        few.reply(call(start_model()))


def test_limits_are_configured_as_they_are_read() -> None:
    limits = Limits(8, 2, ("favano", "fedavg"))
    assert Limits.from_words(limits.words()) == limits
    assert Limits.from_words({}) == Limits()
    with pytest.raises(BadInput, match="need two whole numbers and a text"):
        Limits.from_words({"least-batch": "many"})
    with pytest.raises(BadInput, match="least_steps_apart=0: need 1 or more"):
        Limits(least_steps_apart=0)
