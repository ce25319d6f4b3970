"""The Python interface: simulate, compare and plan."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Unpack

from favano.data import is_natural
from favano.errors import BadInput, require
from favano.methods import AMethod, AnyMethod, as_method
from favano.methods.context import K
from favano.notices import console, notice
from favano.options import options_of
from favano.planning.comparison import (
    keys_with_readings,
    label_variants,
    left_without,
    several_values,
    shared_keys,
    variants,
    without_exact_weights,
)
from favano.planning.fleet import needs_cost
from favano.planning.planned import plan_seed
from favano.policies import Policy
from favano.policies.registry import as_policy
from favano.records import as_path
from favano.records.folder import folder_name
from favano.run.data import split_of
from favano.run.problem import Problem, as_problem
from favano.specification.keys import Keys
from favano.specification.parts import Fleet, ProblemPart
from favano.specification.presets import OWN, Preset, resolve
from favano.specification.readings import READING
from favano.specification.spec import LABEL, POLICY, Spec, make_spec, with_fleet, with_policy
from favano.timing import JobCost

if TYPE_CHECKING:
    from favano.planning.plan import Plan
    from favano.results import Comparison, Result
    from favano.run.observer import Observer
    from favano.run.own_data import OwnData
    from favano.run.progress import Progress

_REPORT: Final = 'result.report("page.html") writes it'


def simulate(
    method: AMethod = "favano",
    problem: Problem | str = "digits",
    fleet: Fleet | str | None = None,
    *,
    progress: Progress | bool | None = None,
    on_evaluate: Observer | None = None,
    track: str | Sequence[str] | None = None,
    live: bool = False,
    checkpoints: Path | str | None = None,
    cluster: str | None = None,
    **keys: Unpack[Keys],
) -> Result:
    """Run one method and return its history and final models.

    Args:
        method: a name, `file.py:Name`, or a method object such as `favano.FedBuff(buffer=10)`.
        problem: a data set's name, or `favano.Problem(...)`.
        fleet: clients and their speeds, or the name of a list of devices, as `phones`; by default
            those of the paper for the data set.
        progress: True for a bar, or lines where none can be drawn; False for nothing; or an object
            that is called as the run goes on. By default a bar on a terminal and in a notebook.
        on_evaluate: is called after every evaluation with a mapping from `method` and the columns
            of the history to their values, whose `model()` is the server model as a network; as
            `favano.EarlyStopping(patience=5)`. If it returns `favano.STOP`, the run of this method
            and seed ends there, and its status is `stopped`. A run that goes on from a checkpoint
            tells of the evaluations after it.
        track: a tracker, or several, that get all evaluations, too: `tensorboard:DIR`, `wandb:DIR`
            (offline) or `mlflow:DIR`. One that is not installed or fails is named in a warning, and
            the runs go on without it.
        live: serve a page of the results so far while the runs go on, on this machine alone; its
            address is told.
        checkpoints: folder for checkpoints. A run that was ended before its time, even by a crash,
            goes on from there when it is asked for again.
        cluster: `auto` spreads seeds and methods over the GPUs of this machine, `HOST:PORT` over a
            Ray cluster that it has joined. Network, loss, metrics and data are sent there.
        **keys: the flags of `favano run` by their names: of clock, server, training and run, of a
            method or policy that is given by its name, of a problem that is, and of the fleet if
            none is given. `policy` may be an object of `favano.Policy`, too; without it the method
            has its own. What is left out takes the paper's constants for the data set; with your
            own data, neutral values, of which you are told.

    Ctrl-C raises `favano.Interrupted`, a `KeyboardInterrupt` whose `result` holds the evaluations
    made so far. So does `favano.NonFiniteUpdate`, which ends a run that meets NaN or infinity, and
    so does an error of `on_evaluate`, which is raised as it came. Any other error in code of yours
    is the cause of a `favano.BadInput` that says where it was raised; in the middle of runs it has
    a `result`, too.
    """
    return _run(
        [method], problem, fleet, keys, progress, on_evaluate, track, live, checkpoints, cluster
    ).results[0]


def compare(
    methods: Sequence[AMethod] = ("favano", "fedavg", "quafl", "fedbuff"),
    problem: Problem | str = "digits",
    fleet: Fleet | str | None = None,
    *,
    progress: Progress | bool | None = None,
    on_evaluate: Observer | None = None,
    track: str | Sequence[str] | None = None,
    live: bool = False,
    checkpoints: Path | str | None = None,
    cluster: str | None = None,
    **keys: Unpack[Keys],
) -> Comparison:
    """Run several methods, or variants of one, on the same seeds; arguments as in `simulate`.

    Keys of the clock and options of a method, as `selection` or `weights`, go to the methods that
    have them; the others run without. A number that lists several values, as in
    `learning_rate=[0.1, 0.5]`, makes a variant of each method for each of them.
    """
    several = isinstance(methods, Sequence) and not isinstance(methods, str)
    shown = methods if isinstance(methods, str) else type(methods).__name__
    require(several, "methods", shown, "need a list of methods")
    rest = progress, on_evaluate, track, live, checkpoints, cluster
    return _run(list(methods), problem, fleet, keys, *rest, compared=True)


def plan(
    method: AMethod = "favano",
    problem: Problem | str = "digits",
    fleet: Fleet | str | None = None,
    **keys: Unpack[Keys],
) -> Plan:
    """The schedule of the first seed without training; arguments as in `simulate`."""
    from favano.planning.plan import Plan

    given, data, (spec,) = prepare([method], problem, fleet, keys)
    traits = None if data is None else data.traits
    if data is None and spec.counts_samples:
        traits = given.named_data.traits
    return Plan(plan_seed(spec, spec.run.seed, traits, _cost(spec, given, data)))


def _cost(spec: Spec, problem: Problem, data: OwnData | None) -> JobCost | None:
    """What a job costs; PyTorch and the data are loaded only where times depend on it."""
    if not needs_cost(spec):
        return None
    from favano.run.inputs import RunInputs
    from favano.run.job_cost import job_cost

    inputs = RunInputs.of(problem, data)
    return job_cost(spec, inputs.samples("cpu"), inputs.network(spec))


class Prepared(NamedTuple):
    """What was asked for: problem, its data if they are the caller's own, and specifications."""

    problem: Problem
    data: OwnData | None
    specs: list[Spec]


def prepare(
    methods: Sequence[AMethod],
    problem: Problem | str,
    fleet: Fleet | str | None,
    keys: Mapping[str, object],
    *,
    holdout: int | None = None,
    compared: bool = False,
    tuned: Collection[str] = (),
) -> Prepared:
    """Complete specifications of these methods; with another number of held-out samples.

    Of keys that are `tuned` nobody is told what they would be otherwise.
    """
    rule = "is a flag of the command line; use result.save(folder), or checkpoints=folder"
    require("out" not in keys, "out", keys.get("out"), rule)
    given, clients, rest = _parts(problem, fleet, _read(keys, methods))
    if holdout is not None:
        given = replace(given, holdout=holdout)
    data = _own_data(given)
    counted = _counted(clients, given, data)
    specs = _specs(methods, given, counted, rest, compared=compared, tuned=tuned)
    return Prepared(given, data, specs)


def _run(
    methods: Sequence[AMethod],
    problem: Problem | str,
    fleet: Fleet | str | None,
    keys: Mapping[str, object],
    progress: Progress | bool | None,
    on_evaluate: Observer | None,
    track: str | Sequence[str] | None,
    live: bool,
    checkpoints: Path | str | None,
    cluster: str | None,
    *,
    compared: bool = False,
) -> Comparison:
    rule = "need a function of a row"
    require(on_evaluate is None or callable(on_evaluate), "on_evaluate", on_evaluate, rule)
    from favano.run.listeners import check_here, listening
    from favano.run.trackers import check_trackers, trackers

    tracked = check_trackers(track, cluster)
    check_here("live", live, cluster)
    given, data, specs = prepare(methods, problem, fleet, keys, compared=compared)
    from favano.results import Comparison, Interrupted, Result, check_writable
    from favano.run.backend import place
    from favano.run.checkpoints import Checkpoints
    from favano.run.early_stopping import EarlyStopping
    from favano.run.inputs import RunInputs
    from favano.run.live_page import beginning, live_page
    from favano.run.observer import ObserverFailed
    from favano.run.samples import new_network

    if isinstance(on_evaluate, EarlyStopping) and not specs[0].problem.holdout:
        notice("early stopping looks at the test data; give holdout=N for held-out samples")
    inputs = RunInputs.of(given, data)
    kept = None
    if checkpoints is not None:
        folder = as_path("checkpoints", checkpoints)
        check_writable(folder, "checkpoints")
        kept = Checkpoints([folder / folder_name(spec.name) for spec in specs])
    failed: Exception | None = None
    try:
        with place(cluster, on_evaluate) as there, ExitStack() as during:
            together = there.prepare(specs[0], inputs)
            listeners = trackers(tracked, specs)
            if live:
                empty = [beginning(Result.of(spec)) for spec in specs]
                listeners += during.enter_context(live_page(empty, _REPORT, notice))
            told = listening(listeners, on_evaluate)
            with told as observer, shown_progress(progress) as shown:
                results = together(specs, progress=shown, on_evaluate=observer, checkpoints=kept)
    except ObserverFailed as error:
        results, failed = error.results, error.error
    except BadInput as error:
        if not error.results:  # before anything was measured
            raise
        results, failed = error.results, error
    network = partial(new_network, inputs.network(specs[0]))
    comparison = Comparison([replace(result, _network=network) for result in results])
    alone = comparison.results[0] if len(comparison.results) == 1 else comparison
    if failed is not None:
        failed.result = alone  # type: ignore[attr-defined]
        failed.add_note("favano: the evaluations made so far are in .result of this error")
        raise failed
    if any(result.interrupted for result in comparison.results):
        raise Interrupted(alone)
    for result in comparison.results:
        if result.error is not None:
            result.error.result = alone
            raise result.error
    return comparison


@contextmanager
def shown_progress(asked: Progress | bool | None) -> Iterator[Progress]:
    """What shows how far the runs are."""
    from favano.run.progress import ProgressBar, Silence, draws_bars

    if not isinstance(asked, bool | None):
        watches = all(hasattr(asked, name) for name in ("begin", "advance", "end"))
        rule = "need True, False, or an object with the methods begin, advance and end"
        require(watches, "progress", type(asked).__name__, rule)
        yield asked
        return
    screen = console()
    if asked is False or (asked is None and not draws_bars(screen)):
        yield Silence()
    else:
        with ProgressBar(screen) as bar:
            yield bar


def _read(keys: Mapping[str, object], methods: Sequence[AMethod]) -> dict[str, object]:
    """The keys, with those of the readings of the paper that they name."""
    return keys_with_readings(keys, list(map(as_method, methods)) if READING in keys else ())


def _parts(
    problem: Problem | str, fleet: Fleet | str | None, keys: Mapping[str, object]
) -> tuple[Problem, Fleet | None, dict[str, object]]:
    """The problem and the fleet, with the keys that are theirs, and the other keys."""
    if isinstance(fleet, str):
        keys, fleet = {**keys, "fleet": fleet}, None
    rule = "need favano.Fleet(...), as favano.Fleet.two_speeds(100), or its name, as phones"
    require(fleet is None or isinstance(fleet, Fleet), "fleet", type(fleet).__name__, rule)
    of_problem, of_fleet = (
        {key: keys[key] for key in options_of(kind) if key in keys} for kind in (ProblemPart, Fleet)
    )
    for key, value in of_problem.items():
        rule = "belongs to the problem: give it to favano.Problem(...)"
        require(isinstance(problem, str), key, value, rule)
        rule = "is the problem, the second argument; with another network, favano.Problem(...)"
        require(key not in ("dataset", "model"), key, value, rule)
    for key, value in of_fleet.items():
        require(fleet is None, key, value, "belongs to the fleet: give it to favano.Fleet(...)")
    given = as_problem(problem)
    rest = {key: keys[key] for key in keys if key not in of_problem and key not in of_fleet}
    return (
        replace(given, **of_problem) if of_problem else given,  # type: ignore[arg-type]
        Fleet(**of_fleet) if of_fleet else fleet,  # type: ignore[arg-type]
        rest,
    )


def _own_data(problem: Problem) -> OwnData | None:
    """The caller's data; reading them needs PyTorch, which planning does without."""
    if not problem.is_own:
        return None
    from favano.run.own_data import read_data

    return read_data(problem)


def _counted(fleet: Fleet | None, problem: Problem, data: OwnData | None) -> Fleet | None:
    """The fleet, with the number of clients that a natural split has, if it is not given."""
    how = split_of(problem.part)
    if (fleet is not None and fleet.clients is not None) or not is_natural(how):
        return fleet
    if problem.parts is not None:
        clients = len(problem.parts)
    elif data is not None:
        clients = data.traits.clients_by(how)
    else:
        clients = problem.named_data.traits.clients_by(how)
    return replace(fleet or Fleet(), clients=clients)


def _specs(
    methods: Sequence[AMethod],
    problem: Problem,
    fleet: Fleet | None,
    keys: Mapping[str, object],
    *,
    compared: bool,
    tuned: Collection[str],
) -> list[Spec]:
    """Complete specifications; values taken for own data are printed once.

    Where methods are compared, numbers that list several values make variants.
    """
    made = [as_method(method) for method in methods]
    require(bool(made), "methods", "[]", "need at least one method")
    fleet, part = fleet or Fleet(), problem.part
    asked = []
    keys = _with_policy(keys, made)
    for given, method in zip(methods, made, strict=True):
        mine = shared_keys(keys, method, made)
        if given is method:  # an object, which has its options
            for key in options_of(type(method)):
                rule = f"is an option of the method: give it to {type(method).__name__}(...)"
                require(key not in mine, key, mine.get(key), rule)
        several = several_values(mine, type(method)) if compared else {}
        for values in variants(several, method.label or method.title):
            spec = make_spec({**mine, **values}, type(method))
            label = str(values.get(LABEL, method.label))
            chosen = replace(method if given is method else spec.method, label=label)
            asked.append(with_fleet(replace(spec, method=chosen, problem=part), fleet, mine))
    specs = [resolve(spec) for spec in label_variants(asked)]
    for words in [*left_without(keys, made), *without_exact_weights(specs)]:
        notice(words)
    if problem.is_own:
        _print_taken(specs, tuned)
    return specs


def _with_policy(keys: Mapping[str, object], methods: Sequence[AnyMethod]) -> dict[str, object]:
    """The keys with the policy as an object; one that is given as an object has its options."""
    given = keys.get(POLICY)
    if isinstance(given, Policy | Mapping):
        policy = as_policy(given)
        for key in options_of(type(policy)):
            rule = f"is an option of the policy: give it to {type(policy).__name__}(...)"
            once = key not in keys or (key == K and K not in policy.given)
            require(once, key, keys.get(key), rule)
    return with_policy(keys, [type(method) for method in methods])


def _print_taken(specs: Sequence[Spec], tuned: Collection[str]) -> None:
    """Print the values that were filled in, since they were not chosen for these data."""
    taken: dict[str, object] = {}
    for spec in specs:
        asked = (spec.as_given or spec).keys
        filled = {
            key: spec.keys.get(key)
            for key in Preset._fields
            if asked.get(key) is None and key not in tuned
        }
        taken |= {key: value for key, value in filled.items() if value not in (None, OWN)}
    if taken:
        words = ", ".join(f"{key}={_shown(taken[key])}" for key in Preset._fields if key in taken)
        notice(f"defaults used for your data: {words}")


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
