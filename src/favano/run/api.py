"""The Python interface: simulate, compare and plan."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from favano.data import is_natural
from favano.errors import BadInput, need
from favano.methods import AMethod, AnyMethod, as_method, foreign_option
from favano.options import did_you_mean, options_of
from favano.planning.comparison import folder_name, label_variants, shared_keys
from favano.planning.planned import plan_seed
from favano.records import as_path
from favano.run.data import split_of
from favano.run.problem import Problem, as_problem
from favano.specification.keys import Keys
from favano.specification.parts import FleetPart
from favano.specification.presets import OWN, Preset, resolve
from favano.specification.spec import PARTS, Spec, make_spec

if TYPE_CHECKING:
    from favano.planning.plan import Plan
    from favano.run.observer import Observer
    from favano.run.own_data import OwnData
    from favano.run.progress import Progress
    from favano.run.result import Comparison, Result


def simulate(
    method: AMethod = "favano",
    problem: Problem | str = "digits",
    fleet: FleetPart | None = None,
    *,
    progress: Progress | None = None,
    on_evaluate: Observer | None = None,
    checkpoints: Path | str | None = None,
    **keys: Unpack[Keys],
) -> Result:
    """Run one method and return its history and final models.

    Args:
        method: a name, `file.py:Name`, or a method object such as `favano.FedBuff(buffer=10)`.
        problem: a data set's name, or `favano.Problem(...)`.
        fleet: clients and their speeds; by default those of the paper for the data set.
        progress: is told how far the run is.
        on_evaluate: is called at every evaluation with a mapping from `method` and the columns of
            the history to their values; if it returns `favano.STOP`, the run of this method and
            seed ends there, and its status is `stopped`. A run that goes on from a checkpoint
            tells of the evaluations after it.
        checkpoints: folder for checkpoints. A run that was ended before its time, even by a crash,
            goes on from there when it is asked for again.
        **keys: keys of clock, server, training and run. Keys that are not given take the paper's
            constants for the data set; with your own data they take neutral values, which are
            printed.

    Ctrl-C raises `favano.Interrupted`, a `KeyboardInterrupt` whose `result` holds the evaluations
    made so far. So does `favano.NonFiniteUpdate`, which ends a run that meets NaN or infinity, and
    so does an error of `on_evaluate`, which is raised as it came.
    """
    return _run([method], problem, fleet, keys, progress, on_evaluate, checkpoints).results[0]


def compare(
    methods: Sequence[AMethod] = ("favano", "fedavg", "quafl", "fedbuff"),
    problem: Problem | str = "digits",
    fleet: FleetPart | None = None,
    *,
    progress: Progress | None = None,
    on_evaluate: Observer | None = None,
    checkpoints: Path | str | None = None,
    **keys: Unpack[Keys],
) -> Comparison:
    """Run several methods, or variants of one, on the same seeds; arguments as in `simulate`.

    Keys of the clock go to the methods that have them.
    """
    several = isinstance(methods, Sequence) and not isinstance(methods, str)
    shown = methods if isinstance(methods, str) else type(methods).__name__
    need(several, "methods", shown, "need a list of methods")
    return _run(list(methods), problem, fleet, keys, progress, on_evaluate, checkpoints)


def plan(
    method: AMethod = "favano",
    problem: Problem | str = "digits",
    fleet: FleetPart | None = None,
    **keys: Unpack[Keys],
) -> Plan:
    """The schedule of the first seed without training; arguments as in `simulate`."""
    from favano.planning.plan import Plan

    given = as_problem(problem)
    data = _own_data(given)
    (spec,) = _specs([method], given, _counted(fleet, given, data), keys)
    traits = None if data is None else data.traits
    if data is None and getattr(spec.method, "sample_weights", False):
        traits = given.named_data.traits
    return Plan(plan_seed(spec, spec.run.seed, traits))


def _run(
    methods: Sequence[AMethod],
    problem: Problem | str,
    fleet: FleetPart | None,
    keys: Mapping[str, object],
    progress: Progress | None,
    on_evaluate: Observer | None,
    checkpoints: Path | str | None,
) -> Comparison:
    given = as_problem(problem)
    watches = all(hasattr(progress, name) for name in ("begin", "advance", "end"))
    rule = "need an object with the methods begin, advance and end"
    need(progress is None or watches, "progress", type(progress).__name__, rule)
    rule = "need a function of a row"
    need(on_evaluate is None or callable(on_evaluate), "on_evaluate", on_evaluate, rule)
    data = _own_data(given)
    specs = _specs(methods, given, _counted(fleet, given, data), keys)
    from favano.run.checkpoints import Checkpoints
    from favano.run.observer import ObserverFailed
    from favano.run.own_data import samples_of
    from favano.run.result import Comparison, Interrupted
    from favano.run.result_folder import check_writable
    from favano.run.runner import run_together
    from favano.run.samples import named_model

    samples = samples_of(given, data, specs[0])
    model = given.model or named_model(specs[0], samples)
    kept = None
    if checkpoints is not None:
        folder = as_path("checkpoints", checkpoints)
        check_writable(folder, "checkpoints")
        kept = Checkpoints([folder / folder_name(spec.name) for spec in specs])
    failed: Exception | None = None
    try:
        results = run_together(
            specs, samples, model, progress=progress, on_evaluate=on_evaluate, checkpoints=kept
        )
    except ObserverFailed as error:
        results, failed = error.results, error.error
    found = Comparison(results)
    alone = found.results[0] if len(found.results) == 1 else found
    if failed is not None:
        failed.result = alone  # type: ignore[attr-defined]
        failed.add_note("favano: the evaluations made so far are in .result of this error")
        raise failed
    if any(result.interrupted for result in found.results):
        raise Interrupted(alone)
    for result in found.results:
        if result.error is not None:
            result.error.result = alone
            raise result.error
    return found


def _own_data(problem: Problem) -> OwnData | None:
    """The caller's data; None for a data set by name."""
    if not problem.is_own:
        return None
    from favano.run.own_data import read_data

    return read_data(problem)


def _counted(fleet: FleetPart | None, problem: Problem, data: OwnData | None) -> FleetPart | None:
    """The fleet, with the number of clients that a natural split has, if it is not given."""
    rule = "need favano.Fleet(...), as favano.Fleet.two_speeds(100)"
    need(fleet is None or isinstance(fleet, FleetPart), "fleet", type(fleet).__name__, rule)
    how = split_of(problem.part)
    if (fleet is not None and fleet.clients is not None) or not is_natural(how):
        return fleet
    if problem.parts is not None:
        clients = len(problem.parts)
    elif data is not None:
        clients = data.traits.clients_by(how)
    else:
        clients = problem.named_data.traits.clients_by(how)
    return replace(fleet or FleetPart(), clients=clients)


def _specs(
    methods: Sequence[AMethod],
    problem: Problem,
    fleet: FleetPart | None,
    keys: Mapping[str, object],
) -> list[Spec]:
    """Complete specifications; values taken for own data are printed once."""
    made = [as_method(one) for one in methods]
    need(bool(made), "methods", "[]", "need at least one method")
    _check_keys(keys, made)
    fleet, part = fleet or FleetPart(), problem.part
    asked = [
        replace(make_spec(shared_keys(keys, one, made)), method=one, problem=part, fleet=fleet)
        for one in made
    ]
    specs = [resolve(spec) for spec in label_variants(asked)]
    if problem.is_own:
        _print_taken(specs)
    return specs


def _check_keys(keys: Mapping[str, object], methods: Sequence[AnyMethod]) -> None:
    """Refuse names that are not keys of clock, server, training or run."""
    parts = ("clock", "server", "training", "run")
    known = [key for part in parts for key in options_of(PARTS[part])]
    for key, value in keys.items():
        for part, where in (("problem", "favano.Problem"), ("fleet", "favano.Fleet")):
            rule = f"belongs to the {part}: give it to {where}(...)"
            need(key not in options_of(PARTS[part]), key, value, rule)
        for method in methods:
            rule = f"is an option of the method: give it to {type(method).__name__}(...)"
            need(key not in options_of(type(method)), key, value, rule)
        if key not in known:
            refused = foreign_option(key, value, [type(method) for method in methods])
            rule = f"unknown key; {did_you_mean(key, known)}"
            raise refused if "is a key of" in str(refused) else BadInput(key, value, rule)


def _print_taken(specs: Sequence[Spec]) -> None:
    """Print the values that were filled in, since they were not chosen for these data."""
    taken: dict[str, object] = {}
    for spec in specs:
        asked = (spec.asked or spec).keys
        filled = {key: spec.keys.get(key) for key in Preset._fields if asked.get(key) is None}
        taken |= {key: value for key, value in filled.items() if value not in (None, OWN)}
    if taken:
        words = ", ".join(f"{key}={_shown(taken[key])}" for key in Preset._fields if key in taken)
        print(f"favano: own data; not given, so taken: {words}", file=sys.stderr)


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
