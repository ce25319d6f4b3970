"""What the server does beside the method: a chain of transforms, as a list or by flags."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, InstanceOf

from favano.errors import BadInput, require
from favano.options import Below1, Options, PositiveTime, Rate, option, options_of
from favano.transforms import (
    AnyTransform,
    as_transform,
    parse_transform,
    transform_class,
)

_KEYS: Final = {  # options of the optimisers by their flags
    "server_optimiser_rate": "rate",
    "server_momentum": "momentum",
    "server_epsilon": "epsilon",
    "server_beta2": "beta2",
}
_ROBUST: Final = {"median": "median", "trimmed": "trimmed_mean", "clip": "clip"}


def _chain_of(given: object) -> object:
    """The transforms of a list of texts, classes and objects."""
    rule = "need a list of transforms, as [favano.clip(1.0), favano.adam(0.01)]"
    if not isinstance(given, list | tuple):
        raise BadInput("server", given, rule)
    require(len(given) > 0, "server", "[]", f"{rule}; remove it for none")
    return tuple(map(as_transform, given))


def _robust_rule(text: str) -> AnyTransform | None:
    """The transform of the flag; None: the server trusts every client."""
    if text == "none":
        return None
    name, colon, number = text.partition(":")
    try:
        require(name in _ROBUST and bool(colon) == (name != "median"), "robust", text, "")
        return parse_transform(f"{_ROBUST[name]}{colon}{number}")
    except BadInput:
        rule = "need none, median, trimmed:SHARE (0 < SHARE < 0.5) or clip:NORM (NORM > 0)"
        raise BadInput("robust", text, rule) from None


def _checked(text: str) -> str:
    _robust_rule(text)
    return text


class ServerPart(Options):
    """What the server does to client deltas and to the method's step."""

    server: Annotated[tuple[InstanceOf[AnyTransform], ...], BeforeValidator(_chain_of)] | None = (
        option(None, "transforms in order, as clip:1.0,adam:0.01 or file.py:Name")
    )
    server_optimiser: Literal["none", "momentum", "adagrad", "adam", "yogi"] = option(
        "none", "server optimiser"
    )
    server_optimiser_rate: Rate | None = option(
        None, "step of this optimiser", otherwise="momentum 1, others 0.01", symbol="eta"
    )
    server_momentum: Below1 | None = option(
        None, "running mean of steps", otherwise="0.9, adagrad 0", symbol="beta_1"
    )
    server_epsilon: PositiveTime | None = option(
        None, "all but momentum: added to the root", otherwise="0.001", symbol="tau"
    )
    server_beta2: Below1 | None = option(
        None, "adam, yogi: running mean of squares", otherwise="0.99", symbol="beta_2"
    )
    robust: Annotated[str, AfterValidator(_checked)] = option(
        "none", "robust mean: median, trimmed:SHARE or clip:NORM"
    )

    def check(self) -> None:
        """Numbers go with an optimiser that has them, and flags not with a list."""
        for key, value in self.given.items():
            rule = "is given beside server; put it into that list"
            require(self.server is None or key == "server", key, value, rule)
            kinds = [
                name for name in ("momentum", "adagrad", "adam", "yogi") if key in _usual(name)
            ]
            rule = f"requires server_optimiser={' or '.join(kinds)}"
            require(not kinds or self.server_optimiser in kinds, key, value, rule)

    @property
    def numbers(self) -> dict[str, object]:
        """The numbers of the optimiser: those given, and the papers' for the others."""
        given = {key: value for key, value in self.given.items() if key in _KEYS}
        return {**_usual(self.server_optimiser), **given}

    @property
    def chain(self) -> tuple[AnyTransform, ...]:
        """All transforms in order: the list, or what the flags say."""
        if self.server is not None:
            return self.server
        robust, name = _robust_rule(self.robust), self.server_optimiser
        chain = [] if robust is None else [robust]
        if name != "none":
            numbers = {_KEYS[key]: value for key, value in self.numbers.items()}
            chain.append(transform_class(name)(**numbers))
        return tuple(chain)


def _usual(optimiser: str) -> dict[str, object]:
    """The papers' numbers for an optimiser, by their flags."""
    if optimiser == "none":
        return {}
    options = options_of(transform_class(optimiser))
    return {key: options[name].default for key, name in _KEYS.items() if name in options}
