"""The fleet of a seed: from the keys of a run to speeds, conditions and energy of each client."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from math import inf
from pathlib import Path

import numpy as np

from favano.errors import BadInput, require
from favano.specification.fleet_part import FleetGroup
from favano.specification.parts import Fleet
from favano.specification.spec import Spec, required
from favano.timing import (
    ClientSpeeds,
    Conditions,
    Energy,
    Fault,
    JobCost,
    Links,
    Presence,
    Trace,
    dealt,
    draw_devices,
    parse_availability,
    parse_law,
    parse_link,
    parse_server_link,
    phone_scores,
    read_faults,
    traced_fleet,
    two_speeds,
)
from favano.timing.appfl import read_profiles
from favano.timing.availability import always, joined
from favano.timing.fedscale import TRAINING, read_capacities
from favano.types import Floats, Ints

_Members = Sequence[tuple[Fleet | FleetGroup, Ints]]  # what is said of which clients


def needs_cost(spec: Spec) -> bool:
    """Whether its fleet makes a time of what a job costs."""
    return spec.fleet.needs_flops or spec.fleet.has_links


def make_fleet(spec: Spec, seed: int, cost: JobCost | None = None) -> ClientSpeeds:
    """The clients of one seed, their speeds and what they meet.

    Args:
        spec: complete.
        seed: of the run.
        cost: of a job; needed where links or FLOP/s are given.
    """
    part, members = spec.fleet, _members(spec.fleet, seed)
    fleet = _speeds(spec, members, seed, cost)
    conditions, energy = _conditions(spec, members, seed, cost), _energy(part, members, fleet.mean)
    return ClientSpeeds(fleet.mean, fleet.law, fleet.streams, conditions, energy)


def conditions_digest(conditions: Conditions) -> bytes:
    """A digest of all that clients meet; of nothing, nothing."""
    if conditions.always_there:
        return b""
    digest = sha256(repr((conditions.when_away, conditions.timeout, conditions.faults)).encode())
    if (presence := conditions.presence) is not None:
        for values in (presence.first, presence.begin, presence.end):
            digest.update(values.tobytes())
    if (links := conditions.links) is not None:
        server = np.array([links.server_down, links.server_up])
        for times in (links.down, links.up, server):
            digest.update(times.tobytes())
    return digest.digest()


def _members(part: Fleet, seed: int) -> _Members:
    """All clients, or those of each group: dealt at random."""
    clients = required(part.clients)
    if part.group is None:
        return [(part, np.arange(clients))]
    sizes = np.array([group.clients or group.share * clients for group in part.group])  # type: ignore[operator]
    counts = np.floor(sizes + 1e-9).astype(np.int64)
    rest = np.argsort(counts - sizes, kind="stable")[: clients - counts.sum()]
    counts[rest] += 1
    for group, count in zip(part.group, counts, strict=True):
        rule = f"{group.name or 'a group'} would have none of {clients} clients"
        require(count > 0, "group", group.share, rule)
    parts = np.split(dealt(seed, clients), np.cumsum(counts)[:-1])
    return [(group, np.sort(who)) for group, who in zip(part.group, parts, strict=True)]


def _speeds(spec: Spec, members: _Members, seed: int, cost: JobCost | None) -> ClientSpeeds:
    part, law = spec.fleet, parse_law(spec.fleet.step_law)
    clients = required(part.clients)
    if isinstance(law, Trace):
        rule = f"holds {len(law.rows)} clients, need clients ({clients})"
        require(len(law.rows) == clients, "step_law", part.step_law, rule)
        return traced_fleet(law)
    if part.group is None and part.mean is None and not part.drawn:
        return two_speeds(
            clients,
            fast_fraction=part.fast_fraction,
            fast_mean=part.fast_mean,
            slow_mean=part.slow_mean,
            law=law,
            seed=seed,
            rounding=part.speed_rounding,
            order=part.speed_order,
        )
    mean = np.empty(clients)
    for group, who in members:
        mean[who] = _mean(spec, group, who, seed, cost)
    return ClientSpeeds(mean, law, np.arange(clients))


def _mean(
    spec: Spec, part: Fleet | FleetGroup, who: Ints, seed: int, cost: JobCost | None
) -> Floats:
    """Mean time of a local step of these clients."""
    if part.mean is not None:
        return np.asarray(part.mean, dtype=np.float64)
    rates = part.flops_per_second
    if part.fleet is None:
        assert rates is not None
        return _step(cost, rates)
    clients, (name, _, path) = required(spec.fleet.clients), part.fleet.partition(":")
    if name == "appfl":
        factor = read_profiles(Path(path), "fleet").factor
        rule = f"holds {len(factor)} clients, need as many as there are ({clients})"
        require(len(factor) >= clients, "fleet", part.fleet, rule)
        base = 1.0 if rates is None else _step(cost, rates)
        return np.asarray(factor[who] * base)
    if name == "fedscale":
        inference = read_capacities(Path(path), "fleet").inference
        batch = required(spec.problem.batch_size)
        mine = inference[draw_devices(seed, clients, len(inference))[who]]
        return np.asarray(TRAINING * batch * mine)
    scores = phone_scores()
    mine = scores[draw_devices(seed, clients, len(scores))[who]]
    speed = required(spec.fleet.flops_per_score)
    return _cost(cost, "fleet", part.fleet).flops / (speed * mine)


def _step(cost: JobCost | None, rates: float | Sequence[float]) -> Floats:
    """Seconds of a step at so many floating-point operations per second."""
    flops = _cost(cost, "flops_per_second", rates).flops
    return np.asarray(flops / np.asarray(rates, dtype=np.float64))


def _cost(cost: JobCost | None, name: str, value: object) -> JobCost:
    if cost is None:
        rule = "makes a time of what a job costs, which is not known without network and data"
        raise BadInput(name, value, rule)
    return cost


def _conditions(spec: Spec, members: _Members, seed: int, cost: JobCost | None) -> Conditions:
    part = spec.fleet
    if part.conditions is None:
        return Conditions()
    clients = required(part.clients)
    return Conditions(
        presence=_presence(spec, members, seed),
        when_away=part.when_away,
        links=_links(part, members, seed, cost),
        timeout=part.timeout or inf,
        faults=() if part.faults is None else _faults(part, clients, seed),
    )


def _presence(spec: Spec, members: _Members, seed: int) -> Presence | None:
    clients, horizon = required(spec.fleet.clients), required(spec.run.horizon)
    parts, anybody = [], False
    for group, who in members:
        law = parse_availability(group.availability or spec.fleet.availability)
        anybody |= law is not None
        there = always(len(who), horizon) if law is None else law.presence(seed, who, horizon)
        parts.append((who, there))
    return joined(parts, clients) if anybody else None


def _links(part: Fleet, members: _Members, seed: int, cost: JobCost | None) -> Links | None:
    if not part.has_links:
        return None
    clients = required(part.clients)
    message = _cost(cost, "link" if part.server_link is None else "server_link", part.link)
    up, down = np.zeros(clients), np.zeros(clients)
    for group, who in members:
        rates = parse_link(group.link or part.link, clients, seed)
        if rates is not None:
            up[who] = rates.latency[who] + message.bits_up / rates.up[who]
            down[who] = rates.latency[who] + message.bits_down / rates.down[who]
    if part.server_link is None:
        return Links(down, up)
    server_up, server_down = parse_server_link(part.server_link)
    return Links(down, up, message.bits_down / server_down, message.bits_up / server_up)


def _faults(part: Fleet, clients: int, seed: int) -> tuple[Fault, ...]:
    faults = read_faults(required(part.faults), clients, seed)
    loses = any(fault.what == "lose" for fault in faults)
    rule = "loses client updates: need a timeout, without which the server waits for them forever"
    require(not loses or part.timeout is not None, "faults", part.faults, rule)
    return faults


def _energy(part: Fleet, members: _Members, mean: Floats) -> Energy | None:
    """Joules of each client; None: nothing is said of them."""
    step, byte = np.zeros(len(mean)), np.zeros(len(mean))
    counted = False
    for group, who in members:
        per_step = part.joules_per_step if group.joules_per_step is None else group.joules_per_step
        per_byte = part.joules_per_byte if group.joules_per_byte is None else group.joules_per_byte
        for values, given in ((step, per_step), (byte, per_byte)):
            if given is not None:
                values[who] = np.broadcast_to(given, len(mean))[who]
                counted = True
    if part.watts is not None:
        return Energy(np.broadcast_to(part.watts, len(mean)) * mean, byte)
    return Energy(step, byte) if counted else None
