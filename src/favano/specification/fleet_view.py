"""A fleet in a notebook: what is known of its clients before a seed draws them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from favano.notebook import PlotLine, line_plot, table
from favano.options import options_of

if TYPE_CHECKING:
    from favano.specification.fleet_part import Fleet, FleetGroup

_FEW = 6  # values of a list that are written one by one
_POINTS = 201  # of the plot


def fleet_html(fleet: Fleet) -> str:
    """Its keys, its groups, and the mean time of a local step where the fleet says it."""
    known = {"clients": fleet.clients, "step_law": fleet.step_law, **fleet.given}
    if not fleet.says_speeds_otherwise:
        keys = ("fast_fraction", "fast_mean", "slow_mean")
        known |= {key: getattr(fleet, key) for key in keys}
    rows = [[key, _words(value)] for key, value in known.items() if key != "group"]
    parts = [table("", ["fleet", "value"], rows), _groups(fleet.group or ()), _plot(fleet)]
    return f"<div>{''.join(parts)}</div>"


def _words(value: object) -> str:
    if isinstance(value, tuple):
        if len(value) > _FEW:
            return f"{len(value):,} values from {min(value):g} to {max(value):g}"
        return ", ".join(f"{each:g}" for each in value)
    if isinstance(value, float):
        return f"{value:.4g}"
    return "by data set" if value is None else str(value)


def _groups(groups: Sequence[FleetGroup]) -> str:
    if not groups:
        return ""
    keys = [
        key
        for key in options_of(type(groups[0]))
        if key != "name" and any(getattr(group, key) is not None for group in groups)
    ]
    values = [[getattr(group, key) for key in keys] for group in groups]
    rows = [
        [group.name or str(number), *("" if value is None else _words(value) for value in row)]
        for number, (group, row) in enumerate(zip(groups, values, strict=True), start=1)
    ]
    return table("", ["group", *keys], rows)


def _plot(fleet: Fleet) -> str:
    """The mean time of a local step over the clients, the fastest first."""
    if not (speeds := _speeds(fleet)):
        return ""
    size, mean = np.array(sorted(speeds, key=lambda pair: pair[1])).T
    upto, across = np.cumsum(size) / size.sum(), np.linspace(0, 1, _POINTS)
    place = np.minimum(np.searchsorted(upto, across), len(mean) - 1)
    line = PlotLine("", 100 * across, mean[place])
    return line_plot([line], "clients, fastest first, %", "Mean time of a local step")


def _speeds(fleet: Fleet) -> list[tuple[float, float]]:
    """How many clients, or which share of them, have which mean; empty if it is not known yet."""
    if fleet.mean is not None:
        return [(1.0, mean) for mean in fleet.mean]
    if fleet.group is not None:
        groups = [(group.clients or group.share, group.mean) for group in fleet.group]
        known = [(size, mean) for size, mean in groups if size is not None and mean is not None]
        return known if len(known) == len(groups) else []
    if fleet.says_speeds_otherwise:
        return []
    fast = fleet.fast_fraction
    speeds = [(fast, fleet.fast_mean), (1 - fast, fleet.slow_mean)]
    return [(share, mean) for share, mean in speeds if share > 0]
