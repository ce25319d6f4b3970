"""||grad f(mu_t)||^2 and Phi_t along a run, beside the bounds of Theorem 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf, isfinite
from typing import NamedTuple

from favano import theory
from favano.aggregation import NoSnapshot
from favano.records import BoundRow, Row
from favano.run.constants import Point, Probe
from favano.theory import TheoryProblem, TheorySetting
from favano.theory.problem import LARGEST
from favano.types import Vector

_FLAT = 1e-12  # L of a problem without curvature, since L must be positive


class Tracked(NamedTuple):
    """The bounds of a run in the middle, one row and one point per evaluation."""

    learning_rate: float
    rows: list[BoundRow]
    points: list[Point]


@dataclass
class Tracker:
    """Tracks the bounds along a run; without `setting`, for any method, they are infinite.

    Constants are the largest measured so far. Between evaluations the gradient is assumed to stay
    as it was at the last one. Losses are assumed to be >= 0.
    """

    probe: Probe
    setting: TheorySetting | None
    learning_rate: float
    rows: list[BoundRow] = field(default_factory=list)
    _points: list[Point] = field(default_factory=list)  # where they were measured

    def saved(self) -> Tracked:
        """What a checkpoint keeps."""
        return Tracked(self.learning_rate, list(self.rows), list(self._points))

    def restore(self, tracked: Tracked) -> None:
        """Take over what was saved."""
        if tracked.learning_rate != self.learning_rate:
            raise NoSnapshot("its largest learning rate is another")
        self.rows, self._points = tracked.rows, tracked.points

    def drop_after(self, count: int) -> None:
        """Keep so many evaluations."""
        del self.rows[count:], self._points[count:]

    def observe(self, seen: Sequence[Row], mean: Vector) -> None:
        """Measure at the mean model of the last evaluation, for evaluations not yet seen."""
        for row in seen[len(self.rows) :]:
            self.rows.append(self._beside(row, mean))

    def _beside(self, row: Row, mean: Vector) -> BoundRow:
        point = self.probe.at(mean)
        self._points.append(point)
        last, problem = self.rows[-1] if self.rows else None, self._problem()
        steps = row.server_step - last.server_step if last else 0
        total = last.mean_gradient * last.server_step + last.gradient * steps if last else 0.0
        rounds = row.server_step
        short, full, assembled = self._bounds(problem, rounds)
        return BoundRow(
            seed=row.seed,
            time=row.time,
            server_step=rounds,
            gradient=point.gradient,
            mean_gradient=total / rounds if rounds else point.gradient,
            potential=row.potential,
            potential_bound=self._potential_bound(problem, steps),
            bound_short=short,
            bound_full=full,
            bound_assembled=assembled,
            learning_rate=self.learning_rate,
            largest_rate=theory.largest_rate(self.setting, problem) if self.setting else inf,
            smoothness=problem.smoothness,
            noise=problem.noise,
            dissimilarity=problem.dissimilarity,
            gap=problem.gap,
        )

    def _problem(self) -> TheoryProblem:
        """The largest constants measured so far; a diverged run goes on without bounds."""
        points = [point for point in self._points if all(map(isfinite, point))]
        return TheoryProblem(
            smoothness=_largest(_FLAT, *(each.smoothness for each in points)),
            noise=_largest(*(each.noise for each in points)),
            dissimilarity=_largest(*(each.dissimilarity for each in points)),
            gap=_largest(*(each.loss for each in points[:1])),
        )

    def _bounds(self, problem: TheoryProblem, rounds: int) -> tuple[float, float, float]:
        """The three forms, infinite if the learning rate does not meet the form's condition."""
        where, rate = self.setting, self.learning_rate
        if where is None or rounds == 0 or rate == 0:
            return inf, inf, inf
        claimed = theory.largest_rate(where, problem, "printed")
        allowed = theory.largest_rate(where, problem)
        return (
            theory.bound_short(where, problem, rate, rounds) if rate <= claimed else inf,
            theory.bound_full(where, problem, rate, rounds) if rate <= allowed else inf,
            theory.bound_assembled(where, problem, rate, rounds),
        )

    def _potential_bound(self, problem: TheoryProblem, steps: int) -> float:
        """Lemma "potential" applied `steps` times to the bound at the last evaluation."""
        where, rate = self.setting, self.learning_rate
        if not self.rows:
            return 0.0  # all models are equal at the start
        last = self.rows[-1]
        if where is None or rate == 0 or theory.contraction(where, problem, rate) <= 0:
            return inf
        bound = last.potential_bound
        step = partial(theory.next_potential, where, problem, rate, gradient=last.gradient)
        for _ in range(steps):
            bound = step(potential=bound)
        return bound


def _largest(*measured: float) -> float:
    """The largest of some constants; those beyond the theory count as the largest it takes."""
    return min(LARGEST, max((0.0, *measured)))
