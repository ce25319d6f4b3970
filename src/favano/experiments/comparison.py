"""Several algorithms under one roof: what they share, and what is said of one of them alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from favano.errors import need
from favano.experiments.method_keys import shared_keys
from favano.experiments.parsing import make_spec
from favano.experiments.presets import check_named, resolve
from favano.experiments.spec import Spec
from favano.quantisation.recipe import Recipe

_DEFAULT = "favano,fedavg,quafl,fedbuff"


def comparison(
    values: Mapping[str, object], algorithms: str | None, settings: Sequence[str]
) -> list[Spec]:
    """One complete specification an algorithm.

    Args:
        values: keys that all share, from a file and flags; `algorithms` may list the names and
            `set` hold a table of keys a method.
        algorithms: the names, separated by commas; wins over the list in `values`.
        settings: keys for one method, each as `METHOD.KEY=VALUE`.

    >>> specs = comparison({"clients": 20}, "favano,fedbuff", ["fedbuff.buffer_mode=block"])
    >>> [(spec.algorithm, spec.clients, spec.buffer_mode) for spec in specs]
    [('favano', 20, 'concurrency'), ('fedbuff', 20, 'block')]
    """
    shared = dict(values)
    listed = shared.pop("algorithms", None)
    names = _names(listed if algorithms is None else algorithms)
    tables = shared.pop("set", {})
    right = isinstance(tables, dict) and all(isinstance(t, dict) for t in tables.values())
    need(right, "set", tables, "need a table a method, as [set.fedbuff]")
    assert isinstance(tables, dict)
    own: dict[str, dict[str, object]] = {name: dict(table) for name, table in tables.items()}
    for setting in settings:
        place, equals, value = setting.partition("=")
        name, dot, key = place.partition(".")
        need(bool(equals and dot), "set", setting, "need ALGORITHM.KEY=VALUE")
        own.setdefault(name, {})[key] = value
    for name in own:
        need(name in names, "set", name, f"not compared; need one of {', '.join(names)}")
    specs = [
        resolve(make_spec(shared_keys(shared, n, names) | own.get(n, {}) | {"algorithm": n}))
        for n in names
    ]
    for spec in specs:
        check_named(spec)
    data = ("dataset", "normalise", "holdout", "data_fraction")
    for key in (*data, "model", "device", "quantise", *Recipe.__dataclass_fields__):
        alike = len({getattr(spec, key) for spec in specs}) == 1
        need(alike, "set", key, "must be the same for all methods that are compared")
    return specs


def _names(listed: object) -> list[str]:
    names = listed if isinstance(listed, list) else str(listed or _DEFAULT).split(",")
    repeated = len({str(name) for name in names}) < len(names)
    need(not repeated, "algorithms", ",".join(map(str, names)), "names an algorithm twice")
    return [str(name) for name in names]
