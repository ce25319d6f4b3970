"""Which points of a method are tried: values of its keys from a grid, or spread between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from math import exp, log
from typing import Final, TypeAlias

from favano.errors import require
from favano.notices import notice
from favano.options import Option, options_of
from favano.planning.comparison import takes
from favano.specification.spec import PARTS, Spec, part_options, unknown_key
from favano.studies.search import Point

Axes: TypeAlias = dict[str, tuple[object, ...]]  # the values of each key
_SETTING: Final = ("problem", "fleet", "run")  # parts that say what methods are tuned for
_OF_METHODS: Final = ("batch_size", "batch_order", "codec", "codec_bits", "codec_scale")
_DRAWS = 100  # per point, at most: whole numbers and words come again


def parse_grid(texts: Sequence[str], names: Sequence[str]) -> dict[str, list[str]]:
    """The grid of `KEY=VALUE,...` and `LABEL.KEY=VALUE,...`; labels may hold dots and equal signs.

    >>> parse_grid(["learning_rate=0.1,1", "fedbuff.buffer=5"], ["favano", "fedbuff"])
    {'learning_rate': ['0.1', '1'], 'fedbuff.buffer': ['5']}
    """
    grid: dict[str, list[str]] = {}
    for text in texts:
        fitting = (f"{name}." for name in names if text.startswith(f"{name}."))
        label = max(fitting, key=len, default="")
        key, equals, values = text[len(label) :].partition("=")
        whole = bool(key and equals) and all(values.split(","))
        require(whole, "grid", text, "need KEY=VALUE,VALUE or METHOD.KEY=VALUE,VALUE")
        name = label + key.replace("-", "_")
        require(name not in grid, "grid", text, f"{name} is given twice")
        grid[name] = values.split(",")
    return grid


def axes_of(specs: Sequence[Spec], grid: Mapping[str, Sequence[object]]) -> list[Axes]:
    """The values of each method's keys.

    Args:
        specs: of the methods that are tuned.
        grid: values of a key, for all methods that have it, or of `LABEL.KEY`, for one of them.
    """
    rule = "need at least one, as learning_rate=0.05,0.2,0.8"
    require(bool(grid), "grid", "nothing", rule)
    shared: list[Axes] = [{} for _ in specs]
    own: list[Axes] = [{} for _ in specs]
    for name, values in grid.items():
        label, dot, key = name.rpartition(".")
        known = [spec for spec in specs if not dot or label in (spec.name, spec.method.name)]
        names = ", ".join(spec.name for spec in specs)
        require(bool(known), "grid", label, f"is not tuned; need one of {names}")
        having = [spec for spec in known if _has(spec, key)]
        if not having:
            given = ",".join(map(str, values))
            raise unknown_key(key, given, type(known[0].method), known[0].policy)
        _check_tunable(key)
        for number, spec in enumerate(specs):
            if any(spec is other for other in having):
                (own if dot else shared)[number][key] = _values(_option(spec, key), values)
    every = [{**axes, **mine} for axes, mine in zip(shared, own, strict=True)]
    for spec, axes in zip(specs, every, strict=True):
        rule = "has none of the keys of the grid, so that nothing of it is tuned; give it one"
        require(bool(axes), "grid", spec.name, rule)
    return every


def _has(spec: Spec, key: str) -> bool:
    policy = spec.policy
    if policy is not None and key in options_of(type(policy)):
        return True
    known = key in part_options() or key in options_of(type(spec.method))
    return known and takes(key, spec.method, policy)


def _option(spec: Spec, key: str) -> Option[object]:
    groups = [type(spec.method), *PARTS.values()]
    groups += [] if spec.policy is None else [type(spec.policy)]
    return next(options_of(kind)[key] for kind in groups if key in options_of(kind))


def _check_tunable(key: str) -> None:
    """Refuse keys that say on what methods are judged."""
    part = part_options()[key][0] if key in part_options() else ""
    own = part not in _SETTING or key in _OF_METHODS
    rule = "says what methods are tuned for; need keys of methods, server or local training"
    require(own, "grid", key, rule)


def _values(option: Option[object], given: Sequence[object]) -> tuple[object, ...]:
    """The values of a key in their type, each once."""
    several = isinstance(given, Sequence) and not isinstance(given, str)
    require(several and len(given) > 0, "grid", f"{option.name}={given}", "need a list of values")
    values = tuple(option.checked(value) for value in given)
    for value in values:
        require(values.count(value) == 1, "grid", f"{option.name}={value}", "is given twice")
    return values


def grid_points(axes: Axes) -> list[Point]:
    """Every combination of the values."""
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def spread_points(axes: Axes, count: int, besides: Sequence[Point] = ()) -> list[Point]:
    """Points between the smallest and the largest value of each key, and not among `besides`.

    They follow the additive recurrence R_d (Roberts, "The Unreasonable Effectiveness of
    Quasirandom Sequences", 2018), which fills a cube evenly; positive numbers are spread by their
    logarithm. The same axes always give the same points.

    >>> [point["x"] for point in spread_points({"x": (0.01, 1.0)}, 3)]
    [0.0172, 0.297, 0.0511]
    """
    points: list[Point] = []
    for place in islice(_places(len(axes)), _DRAWS * count):
        point = {
            key: _between(values, share)
            for (key, values), share in zip(axes.items(), place, strict=True)
        }
        if point not in points and point not in besides:
            points.append(point)
        if len(points) == count:
            break
    return points


def _places(dimensions: int) -> Iterator[list[float]]:
    """Points of the unit cube: k times the powers of 1/g, where g^(d+1) = g + 1."""
    root = 2.0
    for _ in range(64):
        root = (1 + root) ** (1 / (dimensions + 1))
    steps, number = [root**-power for power in range(1, dimensions + 1)], 0
    while True:
        number += 1
        yield [(0.5 + number * step) % 1 for step in steps]


def _between(values: Sequence[object], share: float) -> object:
    """The value at a share of the way from the smallest to the largest, or one of the words."""
    numbers = [value for value in values if isinstance(value, int | float)]
    words = len(numbers) < len(values) or any(isinstance(value, bool) for value in values)
    if words or len(values) == 1:
        return values[int(share * len(values))]
    low, high = min(numbers), max(numbers)
    value = exp(log(low) + share * log(high / low)) if low > 0 else low + share * (high - low)
    return round(value) if all(isinstance(n, int) for n in numbers) else float(f"{value:.3g}")


def equal_grids(names: Sequence[str], axes: Sequence[Axes]) -> list[list[Point]]:
    """The grid of each method, with points between for those with fewer than another.

    Every method has the same number of trials: a method with more would be tuned better.
    """
    grids = [grid_points(each) for each in axes]
    most = max(map(len, grids))
    for name, each, points in zip(names, axes, grids, strict=True):
        if missing := most - len(points):
            more = spread_points(each, missing, points)
            rule = f"{name} has {len(points)} points, another method {most}; need as many for each"
            require(len(more) == missing, "grid", name, rule)
            points += more
            shown = "; ".join(words(point) for point in more)
            notice(f"{missing} more points for {name}, so that all methods try {most}: {shown}")
    return grids


def drawn_points(names: Sequence[str], axes: Sequence[Axes], count: int) -> list[list[Point]]:
    """So many points of each method, spread between the values of its grid."""
    drawn = [spread_points(each, count) for each in axes]
    for name, points in zip(names, drawn, strict=True):
        rule = f"the grid of {name} has {len(points)} different points; need as many for each"
        require(len(points) == count, "trials", count, rule)
    return drawn


def words(point: Point) -> str:
    """A point as text.

    >>> words({"learning_rate": 0.2, "buffer": 5})
    'learning_rate=0.2, buffer=5'
    """
    return ", ".join(f"{key}={value}" for key, value in point.items())
