"""Models on the wire: every bit without a codec, with one what the simulator's link reads."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import pytest
import torch

pytest.importorskip("flwr")

from favano.aggregation import Link
from favano.errors import BadInput
from favano.flower.payload import (
    Shape,
    codec_text,
    draws,
    fingerprint,
    pack,
    read_codec,
    shape_of,
    unpack,
)
from favano.quantisation import Codec, Lattice, MinMax, Qsgd
from favano.schedule import Schedule
from favano.training import FlatModel

CODECS = [Lattice(bits=12, scale=1e-3, dither=True), MinMax(bits=5), Qsgd(bits=4)]
SIZES = (40, 7)


def model(seed: int) -> torch.Tensor:
    """A model of 47 parameters and 3 other numbers."""
    return torch.randn(50, generator=torch.Generator().manual_seed(seed))


def two_jobs_of_client_3() -> Schedule:
    """Jobs from versions -1 and 0."""
    return Schedule(
        clients=4,
        local_steps=1,
        time=np.array([1.0, 2.0]),
        wasted_steps=np.zeros(2, np.int64),
        client=np.array([3, 3]),
        steps=np.array([1, 1]),
        start_version=np.array([-1, 0]),
        used_by=np.array([0, 1]),
        first_step=np.array([0, 1]),
        begin=np.array([0.0, 1.0]),
        finish=np.array([1.0, 2.0]),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_without_a_codec_every_bit_arrives(dtype: torch.dtype) -> None:
    shape, sent = Shape(SIZES, 3, dtype), model(0).to(dtype)
    sent[0], sent[1] = float("nan"), -0.0
    data = pack(sent, shape)
    assert len(data) == 50 * dtype.itemsize == shape.bytes_of(None)
    assert unpack(data, shape).numpy().tobytes() == sent.numpy().tobytes()


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_a_client_s_model_is_read_as_by_the_link(codec: Codec) -> None:
    link = Link(codec, SIZES, two_jobs_of_client_3(), seed=9, streams=np.arange(4), plain=3)
    start, end, server = model(1), model(2) * 0.01, model(3) * 0.01
    shape = Shape(SIZES, 3, torch.float32)
    noise = draws(codec, 47, seed=9, stream=3, message=1)
    data = pack(end, shape, codec, known=start, noise=noise)
    assert 8 * len(data) == link.bits == 8 * shape.bytes_of(codec)
    read = unpack(data, shape, codec, key=server, known=start)
    expected = link.up(np.array([1]), start[None], end[None], server)
    assert torch.equal(read, expected[0])


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_a_server_s_model_is_read_as_by_the_link(codec: Codec) -> None:
    """Its draws are those of the server's own stream, by the number of the version."""
    link = Link(codec, SIZES, two_jobs_of_client_3(), seed=9, streams=np.arange(4))
    last, server = model(1) * 0.01, model(2) * 0.01
    shape = Shape(SIZES, 3, torch.float32)
    noise = draws(codec, 47, seed=9, stream=2**62, message=6)
    data = pack(server, shape, codec, known=last, noise=noise)
    read = unpack(data, shape, codec, key=last, known=last)
    assert torch.equal(read, link.hand_out(5, server, [3], [last])[3])


def test_a_model_of_another_length_is_refused() -> None:
    shape = Shape(SIZES, 3, torch.float32)
    for codec in (None, MinMax(bits=5)):
        noise = draws(MinMax(bits=5), 47, seed=0, stream=0, message=0)
        data = pack(model(0), shape, codec, known=model(1), noise=noise)
        for wrong in (data[:-1], data + b"\0", b""):
            with pytest.raises(BadInput, match="bytes"):
                unpack(wrong, shape, codec, key=model(1), known=model(1))


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_no_codec_makes_a_number_of_what_is_none(codec: Codec) -> None:
    noise = draws(codec, 47, seed=0, stream=0, message=0)
    for wrong in (float("nan"), float("inf")):
        sent = model(0)
        sent[5] = wrong
        with pytest.raises(BadInput, match="has NaN or infinity"):
            pack(sent, Shape(SIZES, 3, torch.float32), codec, known=model(1), noise=noise)


def test_the_shape_is_that_of_the_network() -> None:
    network = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    flat = FlatModel(network, device="cpu")
    assert shape_of(flat) == Shape((6, 3, 3, 3), 3 + 3 + 1, torch.float32)


@pytest.mark.parametrize("codec", [None, *CODECS, Lattice(bits=3, scale=0.1 + 0.2)])
def test_a_codec_is_read_as_it_was_named(codec: Codec | None) -> None:
    assert read_codec(codec_text(codec)) == codec


@pytest.mark.parametrize(
    "text", ["zip", "qsgd", "qsgd:x", "qsgd:1", "qsgd:8:1", "min-max:64", "lattice:8", "qsgd:-8",
             "lattice:8:nan", "lattice:8:1:2", "lattice:8:x", "qsgd:999999999999"],
)  # fmt: skip
def test_another_codec_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        read_codec(text)


def test_a_fingerprint_is_63_bits_of_a_hash_of_the_numbers() -> None:
    """It travels between machines, so its value must not change."""
    numbers = np.array([1.0, -2.0], dtype="<f4")
    digest = blake2b(numbers.tobytes(), digest_size=8).digest()
    number = fingerprint(torch.from_numpy(numbers.astype(np.float32)))
    assert number == int.from_bytes(digest, "big") // 2
    assert 0 <= number < 2**63
