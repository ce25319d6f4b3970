"""The link: the effect of a codec on the models that server and clients send in one run.

Parameters are encoded; buffers and counters are not. There are three kinds of message:

    up        a client's end model; the server reads it with its own w_{t-1} as the key
    reply     w_{t-1} to a client that keeps a model of its own, which is the key (QuAFL)
    hand-out  w_t to a client that adopts it; the key is the last model that it was sent

Codecs of differences encode the change since the last model that the client was sent, which both
sides have. A client's first model is sent in full, since the client has no key yet. In a federation
models are also sent in full to clients that may have lost their key; its trace says which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from favano.quantisation import Codec, message_bits
from favano.rng import Bits, Stream, origin
from favano.schedule import Schedule
from favano.training.device_draws import device_uniform, on_device
from favano.types import Ints, Mask, Stack, Vector

_NUMBERS_AT_ONCE = 1 << 24
_MESSAGE = 2**32  # draws reserved for one message, so that none depends on the size of others
SERVER = 2**62  # stream of the server's draws, which no client has


class Messages(NamedTuple):
    """What was sent to the clients of a federation, (J,) each."""

    number: Ints  # of each job among the jobs of its client
    whole: Mask  # whether its model was sent in full


class Link:
    """Encodes and decodes. Draws are functions of (seed, client or server, message)."""

    def __init__(
        self,
        codec: Codec,
        sizes: Sequence[int],  # of the parameter tensors
        schedule: Schedule,
        *,
        seed: int,
        streams: Ints,  # (n,)
        plain: int = 0,  # numbers that are sent as they are, 32 bits each
        timeline: Messages | None = None,  # of a federation
    ) -> None:
        self.codec, self._sizes, self._parameters = codec, tuple(sizes), sum(sizes)
        self.bits = coded_bits(codec, sizes, plain)
        self._client, self._timeline = schedule.client, timeline
        self._message = message_numbers(schedule) if timeline is None else timeline.number
        self._first = first_versions(schedule)  # (n,)
        self._clients = origin(seed, Stream.QUANTISER, streams)  # (n,)
        self._server = origin(seed, Stream.QUANTISER, [SERVER])  # (1,)
        self.last_reply: dict[int, Vector] = {}  # to clients with models of their own
        self._wrapped: Tensor | None = None

    @property
    def wrapped(self) -> int:
        """Number of messages so far that were too far from their key and read wrongly."""
        return 0 if self._wrapped is None else int(self._wrapped)

    def restore(self, last_reply: Mapping[int, Vector], wrapped: int) -> None:
        """Take over what another link of the same run knew."""
        self.last_reply, self._wrapped = dict(last_reply), torch.tensor(wrapped)

    def in_order(self, jobs: Ints) -> Ints:
        """The same jobs; those of each client in the order in which it was sent their models."""
        return jobs[np.argsort(self._message[jobs], kind="stable")]

    def whole(self, jobs: Ints, version: Ints | int) -> Mask:
        """Which of these jobs, which start from these versions, are sent them in full."""
        timeline = self._timeline
        in_full = (
            self._first[self._client[jobs]] == version if timeline is None else timeline.whole[jobs]
        )
        return np.asarray(in_full)

    def up(self, jobs: Ints, start: Stack, end: Stack, server: Vector) -> Stack:
        """The end models of these jobs as the server reads them."""
        client = self._client[jobs]
        known = self._known(client, start)
        return self._carry(
            end, server.expand_as(end), known, self._clients[client], self._message[jobs]
        )

    def reply(self, jobs: Ints, version: int, server: Vector, start: Stack, end: Stack) -> Stack:
        """This server version as each of these clients reads it with its own end model as key."""
        client = self._client[jobs]
        known = self._known(client, start)
        number = np.array([version + 1])
        received = self._carry(server.expand_as(end), end, known, self._server, number)
        if self.codec.differences:
            self.last_reply.update(zip(client.tolist(), received.clone(), strict=True))
        return received

    def hand_out(
        self, version: int, server: Vector, client: Sequence[int], last: Sequence[Vector]
    ) -> dict[int, Vector]:
        """This server version as each of these clients reads it, given its last model.

        Clients with the same last model get the same message, and read the same.
        """
        for who in client:
            self.last_reply.pop(who, None)
        rows: dict[int, int] = {}
        place = [rows.setdefault(id(model), len(rows)) for model in last]
        distinct = [last[place.index(row)] for row in range(len(rows))]
        if not distinct:
            return {}
        # Clients often share a version, so a message is encoded once per distinct key.
        keys = torch.stack(distinct)
        sent, number, holders = server.expand_as(keys), np.array([version + 1]), np.bincount(place)
        received = self._carry(sent, keys, keys, self._server, number, holders)
        models = _shared(received)
        return {who: models[row] for who, row in zip(client, place, strict=True)}

    def _known(self, client: Ints, start: Stack) -> Stack:
        """The model that both sides have: the last reply, else the start model of the job."""
        if not self.last_reply:
            return start
        pairs = zip(client.tolist(), start, strict=True)
        return torch.stack([self.last_reply.get(who, model) for who, model in pairs])

    def _carry(
        self,
        sent: Stack,
        key: Stack,
        known: Stack,
        origins: Bits,  # (k,), or (1,) for the same draws in every row
        number: Ints,
        holders: Ints | None = None,  # (k,) number of clients per row
    ) -> Stack:
        """Encode and decode, a few rows at a time."""
        codec, parameters, device = self.codec, self._parameters, sent.device
        received = sent.clone()
        count = torch.from_numpy(np.ones(len(sent), int) if holders is None else holders).to(device)
        common = self._noise(origins, number, device) if len(origins) == 1 else None
        at_once = max(1, _NUMBERS_AT_ONCE // parameters)
        for first in range(0, len(sent), at_once):
            part = slice(first, first + at_once)
            values, near = sent[part, :parameters], key[part, :parameters]
            base = base_of(codec, known[part, :parameters])
            noise = self._noise(origins[part], number[part], device) if common is None else common
            noise = noise.expand(len(values), -1)
            coded = codec.encode(values.double() - base, noise, self._sizes)
            received[part, :parameters] = base + codec.decode(coded, near, self._sizes)
            wrong = (codec.wrapped(values, near) * count[part]).sum()
            self._wrapped = wrong if self._wrapped is None else self._wrapped + wrong
        return received

    def _noise(self, origins: Bits, number: Ints, device: torch.device) -> Stack:
        return noise_of(self.codec, self._parameters, origins, number, device)


def coded_bits(codec: Codec, sizes: Sequence[int], plain: int) -> int:
    """Bits of one encoded message: of the tensors, and of numbers that are sent as they are."""
    return message_bits(codec, sizes) + 32 * plain


def base_of(codec: Codec, known: Stack) -> Stack | float:
    """What the numbers of a codec are added to: a model that both sides have, or nothing."""
    return known.double() if codec.differences else 0.0


def noise_of(
    codec: Codec, parameters: int, origins: Bits, number: Ints, device: torch.device
) -> Stack:
    """The uniform draws of each message, (k, draws), by the origin of its sender's stream."""
    place = torch.arange(codec.draws(parameters), device=device)
    index = torch.from_numpy(number).to(device)[:, None] * _MESSAGE + place
    return device_uniform(on_device(origins, device)[:, None], index)


def message_numbers(schedule: Schedule) -> Ints:
    """(J,) the number of each job among the jobs of its client, in the order of training."""
    order = np.lexsort(
        (schedule.first_step, schedule.begin, schedule.start_version, schedule.client)
    )
    client = schedule.client[order]
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(len(order)) - np.searchsorted(client, client)
    return number


def first_versions(schedule: Schedule) -> Ints:
    """(n,) the first version that each client is sent, V if none; it is sent in full."""
    first = np.full(schedule.clients, schedule.updates)
    np.minimum.at(first, schedule.client, schedule.start_version)
    return first


def _shared(models: Stack) -> list[Vector]:
    """The rows as vectors; rows equal to the first one share its memory."""
    # Clients with equal models then share a row of the engine again.
    first = models[0].clone()
    equal = (models == first).all(dim=1).tolist()
    return [first if same else row.clone() for row, same in zip(models, equal, strict=True)]
