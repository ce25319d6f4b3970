"""The theory applied to a specification, and the documents of `favano theory`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import floor, isfinite
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from favano import theory
from favano.errors import BadInput, require
from favano.methods.favano import Favano
from favano.planning.client_weights import speed_names
from favano.planning.fleet import make_fleet
from favano.planning.planned import make_context
from favano.policies import Polling
from favano.specification.presets import resolve
from favano.specification.spec import Spec, required
from favano.theory.problem import LARGEST

if TYPE_CHECKING:  # SciPy comes with them
    from favano.theory import (
        Advice,
        Condition,
        Estimates,
        Form,
        Rule,
        StepCount,
        TheoryProblem,
        TheorySetting,
    )

Document: TypeAlias = dict[str, object]
RULES: tuple[Rule, ...] = ("stochastic", "deterministic")
_FORMS: tuple[Form, ...] = ("printed", "corrected", "rigorous")


@dataclass(frozen=True)
class Case:
    """A complete specification of FAVANO, with its rule of reweighting."""

    spec: Spec
    rule: Rule

    def setting(self, form: Form = "corrected") -> TheorySetting:
        """The setting of Theorem 1."""
        fleet = make_fleet(self.spec, self.spec.run.seed)
        return theory.setting(self.policy, fleet, self.rule, form)

    @property
    def laws(self) -> dict[str, StepCount]:
        """The law of the step count for each speed; refused where the theorem has no say."""
        theory.check_always_there(make_fleet(self.spec, self.spec.run.seed))
        return speed_laws(self.spec)

    @property
    def policy(self) -> Polling:
        """The policy."""
        return make_context(self.spec, self.spec.run.seed).polling()

    def rounds(self, asked: int | None) -> int:
        """Server steps T: the number asked for, else that of the horizon."""
        if asked is not None:
            return asked
        horizon, period = required(self.spec.run.horizon), self.policy.period
        rule = f"need at most 1e30 server steps, which last {period:g} here"
        require(horizon / period <= LARGEST, "horizon", horizon, rule)
        return max(1, floor(horizon / period))


class BoundsAt(NamedTuple):
    """Theorem 1 in its three forms at one learning rate."""

    learning_rate: float
    short: float
    full: float
    assembled: float | None  # None: the proof does not apply


class Bounds(NamedTuple):
    """The bounds at the run's learning rate and at the largest that the theorem allows."""

    rounds: int
    run: BoundsAt
    allowed: BoundsAt


@dataclass(frozen=True)
class GuaranteedRates:
    """Limits on the learning rate, and the best one for a number of server steps."""

    problem: TheoryProblem
    printed: tuple[Condition, ...]
    sufficient: tuple[Condition, ...]
    rounds: int
    largest: float
    best: float
    lemma: float  # the closed form of the paper's lemma
    run: float

    @property
    def document(self) -> Document:
        """The rates as `favano theory learning-rate --json` prints them."""
        conditions = {
            "printed": [each._asdict() for each in self.printed],
            "sufficient": [each._asdict() for each in self.sufficient],
        }
        return {**asdict(self), **conditions}


def make_case(spec: Spec) -> Case:
    """The case of a specification; refused if the theorem does not cover it."""
    if not isinstance(spec.method, Favano):
        raise BadInput("algorithm", spec.method.name, "the theorem is about favano only")
    if spec.method.reweight == "none":
        raise BadInput("reweight", "none", "the theorem needs stochastic or deterministic")
    if (beyond := spec.beyond_theorem) is not None:
        key, rule = beyond
        raise BadInput(key, spec.keys[key], rule)
    return Case(resolve(spec), spec.method.reweight)


def speed_laws(spec: Spec) -> dict[str, StepCount]:
    """The law of the step count for each speed and K, the fastest first; refused without polls."""
    full = resolve(spec)
    context = make_context(full, full.run.seed)
    policy = full.method.bind(context).run_policy
    if not isinstance(policy, Polling):
        rule = "does not poll clients; the law is about steps between polls, as favano's"
        raise BadInput("algorithm", full.method.name, rule)
    fleet = context.fleet
    laws = theory.speed_laws(policy, fleet, required(full.run.horizon))
    laws.sort(key=lambda group: float(fleet.mean[group.members[0]]))
    kinds = [int(fleet.alike[group.members[0]]) for group in laws]
    speeds = dict.fromkeys(kinds)
    names = dict(zip(speeds, speed_names(len(speeds)), strict=True))
    alike = len(speeds) == len(laws)
    return {
        names[kind] if alike else f"{names[kind]}, K = {group.law.local_steps}": group.law
        for kind, group in zip(kinds, laws, strict=True)
    }


def steps_document(spec: Spec) -> Document:
    """The main numbers of the law of X for each speed."""
    keys = ("p_positive", "mean", "second_moment", "mean_inverse")
    laws = speed_laws(spec).items()
    return {name: {key: getattr(law, key) for key in keys} for name, law in laws}


def alpha_document(case: Case) -> Document:
    """Both weights, a_i and b_i in three forms, and the two parts of the estimators' variances."""
    document: Document = {}
    for name, law in case.laws.items():
        entry: Document = {}
        for rule in RULES:
            forms = {str(form): theory.coefficients(law, rule, form)._asdict() for form in _FORMS}
            entry[rule] = {
                **forms,
                "weight": law.p_positive if rule == "stochastic" else law.mean,
                "variance_of_mean": theory.estimator_variance(law, rule, mean=1.0, variance=0.0),
                "variance_of_noise": theory.estimator_variance(law, rule, mean=0.0, variance=1.0),
            }
        document[name] = entry
    return document


def bounds_of(case: Case, problem: TheoryProblem, rounds: int | None = None) -> Bounds:
    """The printed bound with the printed coefficients, the others with the rigorous ones."""
    steps = case.rounds(rounds)
    printed, rigorous = case.setting("printed"), case.setting("rigorous")

    def at(rate: float) -> BoundsAt:
        assembled = theory.bound_assembled(rigorous, problem, rate, steps)
        return BoundsAt(
            rate,
            theory.bound_short(printed, problem, rate, steps),
            theory.bound_full(rigorous, problem, rate, steps),
            assembled if isfinite(assembled) else None,
        )

    allowed = theory.largest_rate(rigorous, problem)
    return Bounds(steps, at(required(case.spec.training.learning_rate)), at(allowed))


def bound_document(case: Case, problem: TheoryProblem, rounds: int | None = None) -> Document:
    """The bounds with all their inputs."""
    bounds, right = bounds_of(case, problem, rounds), case.setting()
    return {
        "rounds": bounds.rounds,
        "problem": asdict(problem),
        "setting": {form: asdict(case.setting(form)) for form in _FORMS},
        "kappa": {
            "printed": theory.kappa(right.clients, right.selected, "printed"),
            "corrected": theory.kappa(right.clients, right.selected),
        },
        "run": bounds.run._asdict(),
        "allowed": bounds.allowed._asdict(),
    }


def rates_of(case: Case, problem: TheoryProblem, rounds: int | None = None) -> GuaranteedRates:
    """Every condition on the learning rate, and the rate with the smallest bound."""
    setting, steps = case.setting("rigorous"), case.rounds(rounds)
    expansion, cap = theory.full_expansion(setting, problem), theory.largest_rate(setting, problem)
    return GuaranteedRates(
        problem=problem,
        printed=theory.proof_conditions(case.setting("printed"), problem),
        sufficient=theory.sufficient_conditions(setting, problem),
        rounds=steps,
        largest=cap,
        best=theory.best_rate(expansion, cap, steps),
        lemma=theory.lemma_rate(expansion, cap, steps),
        run=required(case.spec.training.learning_rate),
    )


def advice_of(case: Case, estimates: Estimates, target: float) -> Advice:
    """The s, K, tick and learning rate with the shortest guaranteed time to the target."""
    fleet = make_fleet(case.spec, case.spec.run.seed)
    return theory.advise(case.policy, fleet, estimates, target, rule=case.rule)
