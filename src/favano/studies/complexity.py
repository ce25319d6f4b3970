"""Table 1 in numbers: server steps to a target up to constants, and their time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from favano import theory
from favano.methods import make_method
from favano.planning.comparison import shared_keys
from favano.planning.fleet import make_fleet
from favano.planning.planned import bind_method
from favano.planning.schedules import make_schedule
from favano.specification.presets import resolve
from favano.specification.spec import ALGORITHM, Spec, make_spec
from favano.studies.guarantees import Case, Document, make_case

if TYPE_CHECKING:  # SciPy comes with them
    from favano.theory import ComplexityTerms, Delays, Method, ServerTime, TheoryProblem

Keys: TypeAlias = Mapping[str, object]  # flat, for all methods of the table

_METHODS: tuple[Method, ...] = ("fedavg", "fedbuff", "asyncsgd", "quafl", "favano")


class ComplexityRow(NamedTuple):
    """One row of Table 1."""

    method: Method
    printed: ComplexityTerms
    steps: ComplexityTerms  # corrected
    server_time: ServerTime
    delays: Delays

    @property
    def time(self) -> float:
        """Simulated time to the target, up to constants."""
        return self.steps.total * self.server_time.mean


def complexity_rows(keys: Keys, problem: TheoryProblem, target: float) -> list[ComplexityRow]:
    """Table 1 for a fleet, with the delays of the first seed's schedule."""
    case = favano_case(keys)
    printed, corrected = case.setting("printed"), case.setting()
    fleet = make_fleet(case.spec, case.spec.run.seed)
    laws = theory.class_laws(case.policy, fleet)
    common = sum(len(members) * law.mean for members, law in laws) / fleet.clients
    rows = []
    for method in _METHODS:
        full = resolve(_one_of_them(keys, method))
        bound = bind_method(full, full.run.seed)
        late = make_schedule(full, bound, full.run.seed).staleness
        delays = theory.Delays(
            largest=float(late.max(initial=0)),
            average=float(late.mean()) if len(late) else 0.0,
            common_steps=common,
        )
        row = partial(theory.table_complexity, method, delays=delays)
        rows.append(
            ComplexityRow(
                method,
                row(printed, problem, target, form="printed"),
                row(corrected, problem, target),
                theory.server_time(bound.run_policy, fleet),
                delays,
            )
        )
    return rows


def favano_case(keys: Keys) -> Case:
    """FAVANO's row, whose fleet all rows share."""
    return make_case(_one_of_them(keys, "favano"))


def complexity_document(keys: Keys, problem: TheoryProblem, target: float) -> Document:
    """The table, and FAVANO's corollary with its constants."""
    rigorous = favano_case(keys).setting("rigorous")
    enough = theory.rounds_to_target(rigorous, problem, target)
    expansion = theory.full_expansion(rigorous, problem)
    cap = theory.largest_rate(rigorous, problem)
    methods = {
        row.method: {
            "printed": {**row.printed._asdict(), "total": row.printed.total},
            "corrected": {**row.steps._asdict(), "total": row.steps.total},
            "server_time": row.server_time.mean,
            "server_time_error": row.server_time.error,
            "time": row.time,
            "delays": asdict(row.delays),
        }
        for row in complexity_rows(keys, problem, target)
    }
    return {
        "target": target,
        "problem": asdict(problem),
        "methods": methods,
        "favano_with_constants": {
            "corollary": {**enough._asdict(), "total": enough.total},
            "fewest": theory.fewest_rounds(expansion, cap, target)._asdict(),
        },
    }


def _one_of_them(keys: Keys, method: Method) -> Spec:
    """The specification of one row, with the keys that its method takes."""
    every = {name: make_method(name, {}) for name in _METHODS}
    shared = shared_keys(keys, every[method], list(every.values()))
    return make_spec({**shared, ALGORITHM: method})
