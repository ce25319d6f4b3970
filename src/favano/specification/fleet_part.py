"""Who learns: the clients, how fast they are, and what they meet; as one fleet or in groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, InstanceOf

from favano.errors import BadInput, require
from favano.options import (
    Count,
    Options,
    PositiveTime,
    PositiveUnitInterval,
    Rate,
    UnitInterval,
    did_you_mean,
    option,
    options_of,
)
from favano.specification.fleet_view import fleet_html
from favano.timing import Order, Rounding, WhenAway, availability_file

GEOMETRIC, IN_SECONDS = "geometric", "lognormal:0.3"  # laws where none is given
_TWO_SPEEDS = ("fast_fraction", "fast_mean", "slow_mean", "speed_rounding", "speed_order")
_PHONES, _OTHERS = "phones", ("appfl", "fedscale")
FLOPS_PER_SCORE = 1e7  # FLOP/s of a phone per point of its score: our assumption


def listed(given: object) -> object:
    """An array as a tuple."""
    return tuple(given.tolist()) if isinstance(given, np.ndarray) and given.ndim == 1 else given


def _one_or_each(given: object) -> object:
    """A number for all clients, or a list; a list of one word is a number on a command line."""
    if isinstance(given, list) and len(given) == 1 and isinstance(given[0], str):
        return given[0]
    return listed(given)


Means = Annotated[
    Sequence[PositiveTime], Field(min_length=1), BeforeValidator(listed), AfterValidator(tuple)
]
_Positives = Annotated[Sequence[PositiveTime], Field(min_length=1), AfterValidator(tuple)]
_Rates = Annotated[Sequence[Rate], Field(min_length=1), AfterValidator(tuple)]
PositiveOrEach = Annotated[PositiveTime | _Positives, BeforeValidator(_one_or_each)]
RateOrEach = Annotated[Rate | _Rates, BeforeValidator(_one_or_each)]


def _checked_fleet(text: str) -> str:
    name, colon, path = text.partition(":")
    good = text == _PHONES or (name in _OTHERS and bool(colon) and bool(path))
    require(good, "fleet", text, "need phones, appfl:FILE or fedscale:FILE")
    return text


def _checked_link(text: str) -> str:
    from favano.timing import parse_link

    if file_of_profiles(text) is None:
        parse_link(text, 1, 0)
    return text


def _checked_server_link(text: str) -> str:
    from favano.timing import parse_server_link

    parse_server_link(text)
    return text


def file_of_profiles(text: str) -> str | None:
    """The file of a fleet or of links that others have written."""
    name, _, path = text.partition(":")
    return path if name in _OTHERS else None


FleetName = Annotated[str, AfterValidator(_checked_fleet)]
LinkName = Annotated[str, AfterValidator(_checked_link)]


class FleetGroup(Options):
    """Clients that are alike: a share of the fleet, or so many."""

    name: str | None = option(None, "what they are called")
    share: PositiveUnitInterval | None = option(None, "fraction of the clients")
    clients: Count | None = option(None, "or how many they are")
    fleet: FleetName | None = option(None, "phones, appfl:FILE or fedscale:FILE")
    mean: PositiveTime | None = option(None, "mean time of a local step")
    flops_per_second: PositiveTime | None = option(None, "floating-point operations per second")
    availability: str | None = option(None, "when they are there")
    link: LinkName | None = option(None, "rates of their messages")
    joules_per_step: Rate | None = option(None, "energy of a local step")
    joules_per_byte: Rate | None = option(None, "energy of a byte sent or received")

    def check(self) -> None:
        """They have one size and one speed."""
        sizes, shown = (self.share, self.clients), self.name or "a group"
        rule = f"{shown}: need share or clients, and not both"
        require(sizes.count(None) == 1, "group", sizes, rule)
        profiled = self.fleet is not None and self.fleet.startswith("appfl:")
        speeds = [self.fleet, self.mean, None if profiled else self.flops_per_second]
        rule = f"{shown}: need one of mean, flops_per_second and fleet"
        require(speeds.count(None) == 2, "group", shown, rule)


def _groups_of(given: object) -> object:
    """Groups of tables, of objects, or of texts such as `share=0.5 mean=2 link=home`."""
    rule = "need a list of tables, each with share (or clients) and mean (or another speed)"
    if not isinstance(given, list | tuple):
        raise BadInput("group", type(given).__name__, rule)
    require(len(given) > 0, "group", "[]", rule)
    return tuple(map(_group_of, given))


def _group_of(given: object) -> object:
    if isinstance(given, FleetGroup):
        return given
    if isinstance(given, str):
        pairs = [word.partition("=") for word in given.split()]
        good = all(equals for _, equals, _ in pairs)
        require(good, "group", given, "need words as share=0.5 mean=2 link=home")
        given = {key: value for key, _, value in pairs}
    if not isinstance(given, Mapping):
        raise BadInput("group", given, "need a table, as {share = 0.5, mean = 2}")
    known = options_of(FleetGroup)
    for key, value in given.items():
        require(key in known, f"group.{key}", value, f"unknown key; {did_you_mean(key, known)}")
    try:
        return FleetGroup(**given)
    except BadInput as error:
        raise error if error.name == "group" else BadInput("group", given, str(error)) from None


Groups = Annotated[tuple[InstanceOf[FleetGroup], ...], BeforeValidator(_groups_of)]
_IN_GROUPS: Final = ("fleet", "mean", "flops_per_second", "availability", "link")
_IN_GROUPS_TOO: Final = ("joules_per_step", "joules_per_byte")


class Fleet(Options):
    """Who learns: the clients, how fast they are, and what they meet."""

    clients: Count | None = option(None, "number of clients", otherwise="by data set", symbol="n")
    mean: Means | None = option(None, "mean time of a local step, per client; else two speeds")
    fast_fraction: UnitInterval = option(2 / 3, "fraction of fast clients")
    fast_mean: PositiveTime = option(2.0, "mean time of a local step of fast clients")
    slow_mean: PositiveTime = option(16.0, "mean time of a local step of slow clients")
    step_law: str = option(
        "",
        "time of a local step: geometric, exponential, deterministic, lognormal[:SIGMA] or "
        "trace:FILE, a CSV with the columns client and duration",
        otherwise=f"{GEOMETRIC}; of devices {IN_SECONDS}",
    )
    speed_rounding: Rounding = option("nearest", "nearest, or slow clients rounded up (ceil-slow)")
    speed_order: Order = option("random", "slow clients: random ones, or the first")
    fleet: FleetName | None = option(None, "speeds of devices: phones, appfl:FILE or fedscale:FILE")
    flops_per_second: PositiveOrEach | None = option(
        None, "floating-point operations per second, of all clients or of each: time in seconds"
    )
    flops_per_score: PositiveTime | None = option(
        None, "fleet=phones: the same per point of the phones' score", otherwise="1e7"
    )
    availability: str = option(
        "always",
        "when clients are there: always, phones, daily:SHARE[:ZONES[:DAY]], two-state:THERE:AWAY, "
        "trace:FILE[:LENGTH], flame:FILE or fedscale:FILE",
    )
    when_away: WhenAway = option(
        "lost", "jobs of clients that go away: lost, paused, or sent later"
    )
    link: LinkName = option(
        "none",
        "of clients: none, home, mobile, UP:DOWN[:LATENCY] (Mbit/s, s), appfl:FILE or "
        "fedscale:FILE",
    )
    server_link: Annotated[str, AfterValidator(_checked_server_link)] | None = option(
        None, "UP:DOWN of the server in Mbit/s, which all messages share", otherwise="no limit"
    )
    timeout: PositiveTime | None = option(
        None, "longest wait for a client update", otherwise="no limit"
    )
    faults: str | None = option(None, "script of faults, a TOML file")
    joules_per_step: RateOrEach | None = option(
        None, "energy of a local step, of all clients or of each"
    )
    watts: RateOrEach | None = option(
        None, "power of clients that compute, instead of joules per step"
    )
    joules_per_byte: RateOrEach | None = option(
        None, "energy of a byte that a client sends or receives"
    )
    group: Groups | None = option(
        None, "groups of clients, each as 'share=0.5 mean=2 link=home', or tables in TOML"
    )

    def check(self) -> None:
        """Every client has one speed, and nothing is given twice or without effect."""
        self._check_speeds()
        self._check_groups()
        self._check_conditions()
        if not self.step_law:
            object.__setattr__(self, "step_law", self._usual_law)
        self._count_clients()

    @property
    def given(self) -> dict[str, object]:
        """The values that differ from their defaults, or from what is taken otherwise."""
        every = options_of(Fleet).items()
        usual = {name: declared.default for name, declared in every}
        usual["step_law"] = self._usual_law
        return {name: getattr(self, name) for name in usual if getattr(self, name) != usual[name]}

    @property
    def drawn(self) -> bool:
        """Whether speeds are those of devices, in seconds or times of another device."""
        return any(
            part.fleet is not None or part.flops_per_second is not None for part in self._parts
        )

    @property
    def says_speeds_otherwise(self) -> bool:
        """Whether clients are not of two speeds."""
        traced = self.step_law.startswith("trace:")
        return traced or self.mean is not None or self.group is not None or self.drawn

    @property
    def has_phones(self) -> bool:
        """Whether some clients are phones."""
        return any(part.fleet == _PHONES for part in self._parts)

    @property
    def needs_flops(self) -> bool:
        """Whether the time of a step depends on the network."""
        return self.has_phones or any(part.flops_per_second is not None for part in self._parts)

    @property
    def has_links(self) -> bool:
        """Whether messages take time."""
        links = [part.link for part in self._parts]
        return self.server_link is not None or any(link not in (None, "none") for link in links)

    @property
    def conditions(self) -> str | None:
        """The first key by which clients meet more than their own speed; None: there is none."""
        available = [part.availability for part in self._parts]
        meets = {
            "availability": any(text not in (None, "always") for text in available),
            "link": self.has_links,
            "timeout": self.timeout is not None,
            "faults": self.faults is not None,
        }
        return next((key for key, holds in meets.items() if holds), None)

    @property
    def files(self) -> list[str]:
        """The files that say how fast clients are and what they meet, in the order of keys."""
        kind, _, path = self.step_law.partition(":")
        paths = [path if kind == "trace" else None]
        for part in self._parts:
            paths.append(file_of_profiles(part.fleet or ""))
            paths.append(availability_file(part.availability or ""))
            paths.append(file_of_profiles(part.link or ""))
        return [path for path in [*paths, self.faults] if path is not None]

    def _repr_html_(self) -> str:
        """In a notebook: its keys, its groups and how fast clients are."""
        return fleet_html(self)

    @property
    def _parts(self) -> list[Fleet | FleetGroup]:
        """What is said of all clients, then of each group."""
        return [self, *(self.group or ())]

    @property
    def _usual_law(self) -> str:
        return IN_SECONDS if self.drawn else GEOMETRIC

    def _check_speeds(self) -> None:
        traced = self.step_law.startswith("trace:")
        profiled = (self.fleet or "").startswith("appfl:")
        ways = {
            "a trace": traced,
            "group": self.group is not None,
            "mean": self.mean is not None,
            "fleet": self.fleet is not None,
            "flops_per_second": self.flops_per_second is not None and not profiled,
        }
        chosen = [way for way, holds in ways.items() if holds]
        says = chosen[0] if chosen else None
        given = self.given
        for name in (*_TWO_SPEEDS, "mean", "fleet", "flops_per_second"):
            rule = f"has no effect with {says}, which says how fast each client is; remove it"
            free = (
                says is None or says == name or (name not in _TWO_SPEEDS and name not in chosen[1:])
            )
            require(free or name not in given, name, getattr(self, name), rule)
        if traced and self.group is not None:
            rule = "says how fast each client is, as its groups do; remove one of them"
            raise BadInput("step_law", self.step_law, rule)
        several = isinstance(self.flops_per_second, tuple)
        rule = "need one number with fleet=appfl:FILE: that of the device with factor 1"
        require(not (profiled and several), "flops_per_second", self.flops_per_second, rule)
        rule = "requires fleet=phones"
        require(
            self.has_phones or self.flops_per_score is None,
            "flops_per_score",
            self.flops_per_score,
            rule,
        )

    def _check_groups(self) -> None:
        groups = self.group
        if groups is None:
            return
        for name in (*_IN_GROUPS, *_IN_GROUPS_TOO):
            held = name in self.given and any(getattr(group, name) is not None for group in groups)
            rule = "is given for the fleet and in a group; remove one of them"
            require(not held, name, getattr(self, name), rule)
        twice = "watts" in self.given and any(g.joules_per_step is not None for g in groups)
        rule = "is the energy of steps, which a group has; remove one of them"
        require(not twice, "watts", self.watts, rule)
        counted = [group.clients for group in groups]
        if None in counted:
            rule = "need the share of each group, or its clients, alike in all groups"
            require(not any(counted), "group", counted, rule)
            total = sum(group.share or 0.0 for group in groups)
            rule = "need shares whose sum is 1"
            require(abs(total - 1) < 1e-6, "group", f"{total:g}", rule)

    def _check_conditions(self) -> None:
        absent = self.conditions in ("availability", "faults") or self.faults is not None
        rule = "requires availability or faults; without them nobody goes away"
        require(absent or self.when_away == "lost", "when_away", self.when_away, rule)
        rule = "is another way to give the energy of steps; remove it, or joules_per_step"
        require(self.watts is None or self.joules_per_step is None, "watts", self.watts, rule)

    def _count_clients(self) -> None:
        """Lists say how many clients there are."""
        for name in ("mean", "flops_per_second", "joules_per_step", "watts", "joules_per_byte"):
            value = getattr(self, name)
            if isinstance(value, tuple):
                self._set_clients(len(value), f"the length of {name}")
        if self.group is not None and (counted := [g.clients for g in self.group if g.clients]):
            self._set_clients(sum(counted), "the clients of all groups")

    def _set_clients(self, count: int, what: str) -> None:
        rule = f"need {what} ({count})"
        require(self.clients in (None, count), "clients", self.clients, rule)
        object.__setattr__(self, "clients", count)

    @classmethod
    def two_speeds(
        cls,
        clients: int,
        *,
        fast: float = 2 / 3,
        fast_mean: float = 2.0,
        slow_mean: float = 16.0,
        law: str = GEOMETRIC,
    ) -> Fleet:
        """A share of fast clients, the others slow."""
        return cls(
            clients=clients,
            fast_fraction=fast,
            fast_mean=fast_mean,
            slow_mean=slow_mean,
            step_law=law,
        )

    @classmethod
    def trace(cls, path: str | Path) -> Fleet:
        """Clients as fast as recorded in a CSV file with the columns client and duration."""
        from favano.timing import Trace, parse_law

        law = parse_law(f"trace:{path}")
        assert isinstance(law, Trace)
        return cls(step_law=f"trace:{path}", clients=len(law.rows))

    @classmethod
    def phones(
        cls,
        clients: int,
        *,
        law: str = IN_SECONDS,
        flops_per_score: float | None = None,
        availability: str = "always",
        when_away: Literal["lost", "paused", "later"] = "lost",
        link: str = "none",
        server_link: str | None = None,
        timeout: float | None = None,
        faults: str | Path | None = None,
        watts: float | Sequence[float] | None = None,
        joules_per_byte: float | Sequence[float] | None = None,
    ) -> Fleet:
        """Clients as fast as phones that are drawn from 333 recorded ones; time in seconds."""
        return cls(
            clients=clients,
            fleet=_PHONES,
            step_law=law,
            flops_per_score=flops_per_score,
            availability=availability,
            when_away=when_away,
            link=link,
            server_link=server_link,
            timeout=timeout,
            faults=None if faults is None else str(faults),
            watts=watts,
            joules_per_byte=joules_per_byte,
        )

    @classmethod
    def groups(
        cls,
        groups: Sequence[Mapping[str, object]],
        *,
        clients: int | None = None,
        law: str = "",
        availability: str = "always",
        when_away: Literal["lost", "paused", "later"] = "lost",
        link: str = "none",
        server_link: str | None = None,
        timeout: float | None = None,
        faults: str | Path | None = None,
    ) -> Fleet:
        """Clients in groups, each a table with its share (or clients), speed and conditions."""
        return cls(
            clients=clients,
            group=groups,  # type: ignore[arg-type]  # its validator makes groups of them
            step_law=law,
            availability=availability,
            when_away=when_away,
            link=link,
            server_link=server_link,
            timeout=timeout,
            faults=None if faults is None else str(faults),
        )
