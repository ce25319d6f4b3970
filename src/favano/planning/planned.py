"""Plans the seeds of a specification before anything is trained. NumPy only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from favano import theory
from favano.data import Traits, partition
from favano.engine.audit import LocalSteps
from favano.errors import BadInput, require
from favano.forked_calls import usable_cores
from favano.methods import AnyMethod, Context
from favano.methods.clock import ServerClock
from favano.methods.favano import Favano
from favano.options import options_of
from favano.planning.client_weights import MOST, ClientWeights, weigh_clients
from favano.planning.fleet import make_fleet, needs_cost
from favano.planning.schedules import make_schedules
from favano.policies import LeastRecent, Polling, StepsPerJob, Uniform
from favano.preflight.method import check_method
from favano.schedule import Schedule, Timeline, VirtualClock
from favano.specification.presets import chosen_keys
from favano.specification.spec import Spec, required
from favano.timing import ClientSpeeds, JobCost
from favano.types import Floats
from favano.user_classes import is_ours

# Keys that methods read or not, as their options are.
OPEN_KEYS: Final = frozenset({"selected", "selection", "local_steps", "local_epochs"})
_ANY_COST = JobCost(flops=1e18, bits_up=0.0, bits_down=0.0)  # where times do not matter


@dataclass(frozen=True)
class Planned:
    """One seed, planned but not trained."""

    spec: Spec
    seed: int
    method: AnyMethod  # bound to this seed's fleet
    schedule: Schedule  # a forecast, if it grows with the run and was not `made` by one
    # With track_bound, if the theorem covers the method.
    setting: theory.TheorySetting | None = None
    made: bool = False  # whether the schedule is that of a run

    @property
    def fleet(self) -> ClientSpeeds:
        """The clients and their speeds."""
        return self.method.context.fleet

    @property
    def timeline(self) -> Timeline | VirtualClock:
        """The timeline of the run or, if it grows with the run, the clock that makes it."""
        horizon, policy = required(self.spec.run.horizon), self.method.run_policy
        if policy.grows:
            return VirtualClock(policy, self.fleet, horizon, self.seed)
        return Timeline.of(self.schedule)

    @property
    def longest_job(self) -> int:
        """The most local steps of a job."""
        most = self.schedule.local_steps if self.method.run_policy.grows else self.schedule.steps
        return int(np.max(most, initial=0))

    @property
    def linear(self) -> bool:
        """Whether clients have effective weights: all steps of the server are linear in models."""
        return self.method.linear and not self.spec.server.chain

    @property
    def memory(self) -> int:
        """Vectors as long as the model that each client keeps from job to job."""
        return self.method.memory + self.spec.training.local_optimiser.kept

    def rates(self, schedule: Schedule, first: int = 0) -> Floats:
        """Step size of each job from the first on: rate, and factors of method and schedule."""
        training, horizon = self.spec.training, required(self.spec.run.horizon)
        begin, first_step = schedule.begin[first:], schedule.first_step[first:]
        rates = required(training.learning_rate) * self.method.job_rates(schedule)[first:]
        if training.rate_decay:
            share = begin / horizon
            rates = rates * np.where(share < 0.6, 1.0, np.where(share < 0.8, 0.5, 0.1))
        return rates * training.rate_factors(begin, first_step, horizon)

    @property
    def local_steps(self) -> LocalSteps:
        """The clients' local rule, for the audit."""
        return LocalSteps(self.rates(self.schedule), self.spec.training.accumulation)

    @property
    def fair(self) -> Floats | None:
        """Each client's share of all samples, (n,), if the method weighs by them; None: 1/n."""
        by_samples: bool = getattr(self.method, "sample_weights", False)
        return self.method.context.shares(by_samples=True) if by_samples else None

    @cached_property
    def weights(self) -> ClientWeights:
        """The clients' shares in the final model; refused if they depend on the models."""
        return self.weigh()

    def weigh(self, most: int = MOST) -> ClientWeights:
        """The shares, with a weight per client for up to `most` clients."""
        policy = self.method.run_policy
        rule = f"sees {' and '.join(policy.sees)}: clients have no weights before the run"
        require(self.made or not policy.grows, "policy", type(policy).__name__, rule)
        names = ", ".join(transform.name for transform in self.spec.server.chain)
        rule = "changes what clients contribute, so that they have no effective weights"
        require(not names, "server", names, rule)
        return weigh_clients(self.method, self.schedule, self.fleet, self.local_steps, most)


class Seed(NamedTuple):
    """A seed of a complete specification, with the cost of a job where times depend on it."""

    spec: Spec
    seed: int
    cost: JobCost | None = None


def plan_seeds(
    spec: Spec, traits: Traits | None = None, cost: JobCost | None = None
) -> list[Planned]:
    """Plan all seeds; arguments as in `plan_all`."""
    first, seeds = spec.run.seed, spec.run.seeds
    return plan_all([Seed(spec, seed, cost) for seed in range(first, first + seeds)], traits)


def plan_seed(
    spec: Spec, seed: int, traits: Traits | None = None, cost: JobCost | None = None
) -> Planned:
    """Plan one seed; arguments as in `plan_all`."""
    return plan_all([Seed(spec, seed, cost)], traits, whole=False)[0]


def plan_all(
    seeds: Sequence[Seed], traits: Traits | None = None, processes: int = 0, *, whole: bool = True
) -> list[Planned]:
    """Plan seeds. Whatever can be refused without data is refused here.

    Args:
        seeds: of one or more specifications.
        traits: of the training data, for methods that weight clients by their samples.
        processes: that plan at the same time, if there is much to plan; 0: this one.
        whole: whether these are all seeds of their specifications.
    """
    asked = []
    for spec, seed, cost in seeds:
        method = bind_method(spec, seed, traits, cost)
        _check_keys(spec, method)
        asked.append((spec, method, seed))
    plans, longest = [], dict[int, int]()
    for (spec, method, seed), schedule in zip(asked, make_schedules(asked, processes), strict=True):
        method.job_rates(schedule)  # refused before any training
        rule = f"need none with {method.name}, whose schedule grows with the run"
        codec = spec.run.codec
        require(codec == "none" or not method.run_policy.grows, "codec", codec, rule)
        bound = bound_setting(spec, method) if spec.run.track_bound else None
        plan = Planned(spec, seed, method, schedule, bound)
        plans.append(plan)
        longest[id(spec)] = max(plan.longest_job, longest.get(id(spec), 0))
    for spec, *_ in asked if whole else ():
        _check_one_step(spec, longest[id(spec)])
    return plans


def check_plans(specs: Sequence[Spec]) -> list[Planned]:
    """Refuse what can be refused without data, by planning one seed of each.

    As long as somebody keeps these plans, their schedules are not made again.
    """
    asked = []
    for spec in specs:
        if spec.clock.selection.uses_samples:  # which only the data tell
            spec = replace(spec, clock=replace(spec.clock, selection=Uniform()))
        epochs, costs = spec.training.local_epochs, needs_cost(spec)
        if epochs is None and not costs:
            asked.append(Seed(spec, spec.run.seed))
            continue
        training = spec.training
        if epochs is not None:
            training = replace(training, local_steps=epochs, local_epochs=None)
        cost = _ANY_COST if costs else None
        method = bind_method(replace(spec, training=training), spec.run.seed, cost=cost)
        _check_keys(spec, method)
    return plan_all(asked, processes=usable_cores(), whole=False)


def make_context(
    spec: Spec, seed: int, traits: Traits | None = None, cost: JobCost | None = None
) -> Context:
    """What a method may know of its run."""
    count: Callable[[], Floats] | None = None
    if traits is not None:

        def count() -> Floats:
            parts = partition(
                traits, required(spec.fleet.clients), required(spec.problem.split), seed
            )
            return np.array([len(part) for part in parts], dtype=np.float64)

    fleet, rule = make_fleet(spec, seed, cost), spec.training.accumulation
    steps = _steps_per_job(spec, count)
    return Context(fleet, steps, spec.clock, count, False, rule, spec.policy)


def _steps_per_job(spec: Spec, count: Callable[[], Floats] | None) -> StepsPerJob:
    """K, or that of each client: the batches of E epochs, the last of which may be short."""
    epochs = spec.training.local_epochs
    if epochs is None:
        steps = spec.training.local_steps
        assert steps is not None
        return steps if isinstance(steps, int) else tuple(steps)
    if count is None:
        rule = "needs the data, to know how many samples each client has"
        raise BadInput("local_epochs", epochs, rule)
    each = epochs * np.ceil(count() / required(spec.problem.batch_size)).astype(np.int64)
    return int(each[0]) if (each == each[0]).all() else tuple(each.tolist())


def federation_steps(spec: Spec, traits: Traits | None) -> StepsPerJob:
    """K of a federation. With local epochs it is the largest: nobody knows yet who has which data.

    A node that has fewer samples makes fewer steps.
    """
    context = make_context(spec, spec.run.seed, traits)
    return context.local_steps if spec.training.local_epochs is None else context.longest_job


def bind_method(
    spec: Spec, seed: int, traits: Traits | None = None, cost: JobCost | None = None
) -> AnyMethod:
    """The method of a specification, bound to one seed's run.

    A method from outside the package is checked, since its declarations may be wrong.
    """
    method = spec.method.bind(make_context(spec, seed, traits, cost))
    if is_ours(method):
        method.init(np.zeros(1))  # type: ignore[arg-type]  # errors come before any training
    else:
        check_method(method)
    return method


def bound_setting(
    spec: Spec, method: AnyMethod, form: theory.Form = "rigorous"
) -> theory.TheorySetting | None:
    """The setting of Theorem 1 for a run of FAVANO; None for runs that it does not cover."""
    policy = method.run_policy
    if not isinstance(method, Favano) or method.reweight == "none":
        return None
    if not isinstance(policy, Polling):
        return None
    return theory.setting(policy, method.context.fleet, method.reweight, form)


def _check_keys(spec: Spec, method: AnyMethod) -> None:
    """Refuse keys that the method's policy does not depend on."""
    read = policy_keys(method)
    for key, value in chosen_keys(spec).items():
        if key in options_of(ServerClock) and key not in OPEN_KEYS:
            owner = "polls" if key in Polling.__dataclass_fields__ else "rounds"
            rule = f"is a key of methods with {owner}, which {spec.method.name} does not have"
            if spec.policy is not None:
                rule = f"is not an option of policy {type(spec.policy).__name__}; remove it"
            require(key in read, key, value, rule)
        elif key in OPEN_KEYS:
            named = spec.method.name if spec.policy is None else type(spec.policy).__name__
            rule = f"has no effect with {named} and its options; remove it"
            require(key in read, key, value, rule)


def _check_one_step(spec: Spec, longest: int) -> None:
    """Refuse what acts from the second step of a job on, if the longest job has one step."""
    training, chosen = spec.training, chosen_keys(spec)
    if longest != 1:
        return
    heavy = bool(training.momentum) and training.optimiser == "sgd" and not training.nesterov
    useless = heavy and training.optimiser_state == "fresh"
    rule = "has no effect in jobs of one step; need optimiser_state=kept, or remove it"
    require(not useless, "momentum", training.momentum, rule)
    rule = "has no effect in jobs of one step, which pull from where they are; remove it"
    require(not chosen.get("proximal"), "proximal", training.proximal, rule)
    rule = "has no effect in jobs of one step, whose clients hold what they began with; need start"
    require(spec.run.variance == "start", "variance", spec.run.variance, rule)


def policy_keys(method: AnyMethod) -> set[str]:
    """Keys of the clock, and those of K, that the policy of a bound method depends on."""
    policy, context = method.run_policy, method.context
    clock, given = context.clock, context.clock.selection
    other_rule = LeastRecent() if given == Uniform() else Uniform()
    others = {
        ("selected",): replace(
            context, clock=replace(clock, selected=required(clock.selected) + 1)
        ),
        ("selection",): replace(context, clock=replace(clock, selection=other_rule)),
        ("local_steps", "local_epochs"): replace(context, local_steps=context.longest_job + 1),
    }
    read = {key for keys, other in others.items() if _differs(method, other) for key in keys}
    return read | (policy.__dataclass_fields__.keys() - OPEN_KEYS)


def _differs(method: AnyMethod, context: Context) -> bool:
    """Whether the policy of a bound method is another one in this context."""
    try:
        return method.bind(context).run_policy != method.run_policy
    except BadInput:  # it looks at what is too much for it
        return True
