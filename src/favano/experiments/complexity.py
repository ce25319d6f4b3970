"""Table 1 in numbers: server steps to a target up to constants, and the time they take."""

from __future__ import annotations

from dataclasses import asdict
from typing import NamedTuple

from favano.experiments.build import make_algorithm, make_fleet, make_schedule, poll_policy
from favano.experiments.guarantees import Document, make_case
from favano.experiments.method_keys import shared_keys
from favano.experiments.parsing import make_spec
from favano.experiments.presets import resolve
from favano.experiments.spec import Spec
from favano.theory import (
    Delays,
    Method,
    Problem,
    ServerTime,
    Terms,
    class_laws,
    fewest_rounds,
    full_expansion,
    largest_rate,
    rounds_to_target,
    server_time,
    table_complexity,
)

_METHODS: tuple[Method, ...] = ("fedavg", "fedbuff", "asyncsgd", "quafl", "favano")


class ComplexityRow(NamedTuple):
    """One row of Table 1."""

    method: Method
    printed: Terms
    steps: Terms  # corrected
    server_time: ServerTime
    delays: Delays

    @property
    def time(self) -> float:
        """Simulated time to the target, up to constants."""
        return self.steps.total * self.server_time.mean


def complexity_rows(spec: Spec, problem: Problem, target: float) -> list[ComplexityRow]:
    """Table 1 for a fleet. Delays are those of the schedule planned for the first seed."""
    case = make_case(_one_of_them(spec, "favano"))
    printed, corrected = case.setting("printed"), case.setting()
    fleet = make_fleet(case.spec, case.spec.seed)
    laws = class_laws(poll_policy(case.spec), fleet)
    common = sum(len(members) * law.mean for members, law in laws) / fleet.clients
    rows = []
    for method in _METHODS:
        full = resolve(_one_of_them(spec, method))
        algorithm = make_algorithm(full, fleet)
        late = make_schedule(full, fleet, algorithm, full.seed).staleness
        delays = Delays(
            largest=float(late.max(initial=0)),
            average=float(late.mean()) if len(late) else 0.0,
            common_steps=common,
        )
        rows.append(
            ComplexityRow(
                method,
                table_complexity(method, printed, problem, target, delays=delays, form="printed"),
                table_complexity(method, corrected, problem, target, delays=delays),
                server_time(algorithm.policy, fleet),
                delays,
            )
        )
    return rows


def complexity_document(spec: Spec, problem: Problem, target: float) -> Document:
    """The table, and FAVANO's corollary with its constants."""
    rigorous = make_case(_one_of_them(spec, "favano")).setting("rigorous")
    enough = rounds_to_target(rigorous, problem, target)
    expansion, cap = full_expansion(rigorous, problem), largest_rate(rigorous, problem)
    methods = {
        row.method: {
            "printed": {**row.printed._asdict(), "total": row.printed.total},
            "corrected": {**row.steps._asdict(), "total": row.steps.total},
            "server_time": row.server_time.mean,
            "server_time_error": row.server_time.standard_error,
            "time": row.time,
            "delays": asdict(row.delays),
        }
        for row in complexity_rows(spec, problem, target)
    }
    return {
        "target": target,
        "problem": asdict(problem),
        "methods": methods,
        "favano_with_constants": {
            "corollary": {**enough._asdict(), "total": enough.total},
            "fewest": fewest_rounds(expansion, cap, target)._asdict(),
        },
    }


def _one_of_them(spec: Spec, method: Method) -> Spec:
    """The specification of one row; each method takes its own keys."""
    keys = shared_keys(spec.model_dump(), method, _METHODS)
    return make_spec({**keys, "algorithm": method})
