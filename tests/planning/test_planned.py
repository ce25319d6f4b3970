"""From specification to objects: weights, policies, step sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from favano.data import Traits
from favano.errors import BadInput
from favano.methods.favano import Favano
from favano.methods.weights import Empirical, KnownSteps, Weights
from favano.options import options_of
from favano.planning.comparison import without_exact_weights
from favano.planning.fleet import make_fleet
from favano.planning.planned import bind_method, check_plans, plan_seed
from favano.policies import Buffered, Polling, Rounds
from favano.specification.digest import run_digest
from favano.specification.parts import TrainingPart
from favano.specification.spec import Spec
from favano.timing import Exponential, JobCost
from tests.specs import complete


def mnist(**keys: object) -> Spec:
    return complete(dataset="mnist", **keys)


def expected_of(**keys: object) -> Weights:
    method: object = bind_method(mnist(**keys), 0)
    assert isinstance(method, Favano)
    return method.expected


def weights_of(**keys: object) -> KnownSteps:
    weights = expected_of(**keys)
    assert isinstance(weights, KnownSteps)
    return weights


def test_exact_weights_are_the_default() -> None:
    weights = weights_of()
    assert sorted(set(weights.positive.round(6))) == [0.740627, 0.998428]
    assert sorted(set(weights.mean.round(6))) == [2.186981, 12.492906]


FAULTS = '[[fault]]\nwho = "node 1"\nwhen = "9 s"\nwhat = "crash"\n'
COST = JobCost(flops=1e6, bits_up=1e6, bits_down=1e6)


@pytest.mark.parametrize("algorithm", ["favano", "favano-delta"])
@pytest.mark.parametrize(
    ("keys", "lawless"),
    [
        ({}, None),
        ({"availability": "two-state:12:6"}, "availability"),
        ({"availability": "two-state:12:6", "when_away": "paused"}, "availability"),
        ({"group": ["share=0.5 mean=2 link=home", "share=0.5 mean=3"]}, "link"),
        ({"timeout": 30}, "timeout"),
        ({"faults": "faults.toml"}, "faults"),
        ({"step_law": "half-normal"}, "step_law"),
        ({"step_law": "lognormal"}, None),
        ({"selection": "least-recent"}, "selection"),
        ({"selection": "weighted:" + ",".join(["1", "2"] * 50)}, None),
        ({"step_count": "literal", "selection": "least-recent"}, None),
        ({"interruption": "keep"}, "interruption"),
        ({"interruption": "resume"}, None),
        ({"interruption": "resume", "strict_ties": True}, "interruption"),
        ({"interruption": "resume", "waiting_time": 0.5}, "interruption"),
        ({"interruption": "resume", "waiting_time": 0.5, "step_law": "exponential"}, None),
        ({"interruption": "resume", "step_law": "lognormal"}, "interruption"),
        ({"policy": "rounds", "availability": "two-state:12:6"}, None),
        ({"policy": "rounds", "deadline": 9, "availability": "two-state:12:6"}, "availability"),
        ({"policy": "rounds", "deadline": 9, "step_law": "half-normal"}, "step_law"),
        ({"policy": "rounds", "deadline": 999, "selection": "least-recent"}, None),
    ],
)
def test_weights_are_empirical_just_where_there_is_no_exact_law(
    algorithm: str,
    keys: dict[str, object],
    lawless: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "faults.toml").write_text(FAULTS)
    spec = mnist(algorithm=algorithm, **keys)
    assert spec.keys["weights"] == ("empirical" if lawless else "exact")
    said = [f"{algorithm} takes weights=empirical, from contacts so far: {lawless} leaves no exact"]
    assert [words.partition(" law of")[0] for words in without_exact_weights([spec])] == (
        said if lawless else []
    )
    bind_method(spec, 0, cost=COST)
    asked = mnist(algorithm=algorithm, weights="exact", **keys)
    assert without_exact_weights([asked]) == []
    if lawless is None:
        assert run_digest(asked) == run_digest(spec)
        bind_method(asked, 0, cost=COST)
        return
    with pytest.raises(BadInput):
        bind_method(asked, 0, cost=COST)
    assert mnist(algorithm=algorithm, reweight="none", **keys).keys["weights"] == "exact"


def test_monte_carlo_weights_come_close() -> None:
    exact, drawn = weights_of(), weights_of(weights="monte-carlo")
    assert drawn.positive == pytest.approx(exact.positive, rel=0.01)
    assert drawn.mean == pytest.approx(exact.mean, rel=0.01)
    kept = weights_of(weights="monte-carlo", interruption="keep", strict_ties=True)
    assert kept.positive.min() == pytest.approx(0.37, abs=0.03)


def test_given_weights() -> None:
    alike = weights_of(weights="given", given_weights=[0.5])
    assert set(alike.positive) == {0.5}
    literal = weights_of(
        weights="given", reweight="deterministic", given_weights=[1.999998, 11.599059]
    )
    fleet = make_fleet(mnist(), 0)
    assert set(literal.mean[fleet.mean == 2]) == {1.999998}
    assert set(literal.mean[fleet.mean == 16]) == {11.599059}
    with pytest.raises(BadInput, match=r"need 1, 2, 100 numbers, found 3"):
        weights_of(weights="given", given_weights=[1, 1, 1])


def test_empirical_weights_pool_by_speed() -> None:
    weights = expected_of(weights="empirical")
    assert isinstance(weights, Empirical)
    assert set(weights.group) == {0, 1}


def test_a_client_that_never_finishes_is_refused() -> None:
    keys: dict[str, object] = {"step_law": "deterministic", "slow_mean": 1e9}
    with pytest.raises(BadInput, match=r"weights=exact: client \d+ can never finish a step"):
        bind_method(mnist(**keys), 0)
    bind_method(mnist(**keys, reweight="none"), 0)


def test_policies_of_each_method() -> None:
    favano = bind_method(mnist(strict_ties=True), 0)
    policy = favano.policy()
    assert isinstance(policy, Polling)
    assert policy.strict_ties
    for mode, kind in (("reset", Rounds), ("block", Buffered)):
        buffered = bind_method(mnist(algorithm="fedbuff", buffer_mode=mode), 0)
        assert isinstance(buffered.policy(), kind)
    asynchronous = bind_method(mnist(algorithm="asyncsgd", gradients_per_job=3), 0).policy()
    assert isinstance(asynchronous, Buffered)
    assert asynchronous.local_steps == 3


def test_clients_are_weighed_by_the_samples_that_the_split_gives_them() -> None:
    labels = np.arange(1000) % 10
    keys: dict[str, object] = {"algorithm": "fedavg", "sample_weights": True, "clients": 3}
    spec = complete(**keys, selected=1, split="iid")
    traits = Traits(1000, labels, 10)
    assert bind_method(spec, 0, traits).context.samples.tolist() == [334, 333, 333]
    with pytest.raises(BadInput, match=r"^sample_weights=True: needs the data"):
        _ = bind_method(spec, 0).context.samples


def test_factors_on_the_learning_rate() -> None:
    scaled = plan_seed(mnist(algorithm="fedbuff", rate_scale="buffer", horizon=100), 0)
    assert set(scaled.method.rates(scaled.schedule)) == {0.1}
    quafl = plan_seed(mnist(algorithm="quafl", dampening=True, horizon=100), 0)
    mean = quafl.fleet.mean[quafl.schedule.client]
    rates = quafl.method.rates(quafl.schedule)
    (fast,), (slow,) = set(rates[mean == 2]), set(rates[mean == 16])
    assert fast / slow == pytest.approx(2.186981 / 12.492906, rel=1e-5)


def test_step_sizes_and_their_decay() -> None:
    planned = plan_seed(mnist(algorithm="quafl", rate_decay=True, horizon=1000), 0)
    schedule = planned.schedule
    rates = planned.rates(schedule)
    full = 0.5 * 21 / 20
    assert sorted(set(rates.round(9))) == pytest.approx([0.1 * full, 0.5 * full, full])
    assert rates[schedule.begin < 600] == pytest.approx(full)
    assert rates[schedule.begin >= 800] == pytest.approx(0.1 * full)
    said = options_of(TrainingPart)["rate_decay"].text
    assert said == "half the rate from 60 % of the time, a tenth from 80 %"


def test_schedules_follow_time_or_the_steps_of_a_client() -> None:
    """A job has the rate of its beginning."""
    planned = plan_seed(mnist(rate_schedule="linear", warm_up=49, horizon=1000), 0)
    begin, rates = planned.schedule.begin, planned.rates(planned.schedule)
    known = begin < 1000
    warm = np.minimum((begin[known] + 1) / 50, 1)
    assert rates[known] == pytest.approx(0.5 * warm * (1 - begin[known] / 1000))
    keys = {"rate_schedule": "steps:0.1:0.5", "rate_over": "steps", "rate_length": 40}
    planned = plan_seed(mnist(**keys, horizon=1000), 0)
    first, rates = planned.schedule.first_step, planned.rates(planned.schedule)
    assert rates == pytest.approx(np.where(first < 20, 0.5, 0.05))
    assert {0.5, 0.05} == set(rates.round(9))


def test_what_clients_keep_is_known_before_training() -> None:
    def vectors(**keys: object) -> int:
        return plan_seed(complete(horizon=100, **keys), 0).memory

    kept = {"optimiser_state": "kept"}
    assert vectors() == vectors(optimiser="adam") == 0
    assert vectors(optimiser="adamw", **kept) == vectors(algorithm="asofed") == 2
    assert vectors(algorithm="asofed", momentum=0.9, **kept) == 3


def test_what_can_be_refused_without_data_is_refused_at_once() -> None:
    check_plans([mnist(local_epochs=2, horizon=100)])
    with pytest.raises(BadInput, match=r"^deadline=40.0: is a key of methods with rounds, which "):
        check_plans([mnist(deadline=40.0, horizon=100)])
    with pytest.raises(BadInput, match=r"^codec=qsgd: need none with asyncfeded, whose schedule"):
        check_plans([mnist(algorithm="asyncfeded", codec="qsgd", horizon=100)])


def test_what_was_planned_to_be_checked_is_not_planned_again() -> None:
    specs = [mnist(algorithm=name, horizon=100) for name in ("favano", "fedavg", "fedbuff")]
    kept = check_plans([*specs, mnist(horizon=101), mnist(horizon=102)])  # by other processes
    again = [plan_seed(spec, spec.run.seed) for spec in specs]
    assert [plan.schedule for plan in again] == [plan.schedule for plan in kept[:3]]
    assert all(plan.schedule is before.schedule for plan, before in zip(again, kept, strict=False))
    del kept, again
    alone = plan_seed(specs[0], specs[0].run.seed).schedule
    assert alone.jobs > 0


def test_laws_and_traces(tmp_path: Path) -> None:
    assert make_fleet(mnist(step_law="exponential"), 0).law == Exponential()
    path = tmp_path / "trace.csv"
    path.write_text("client,duration\n0,1\n1,2\n")
    spec = complete(step_law=f"trace:{path}", clients=2, selected=1)
    assert make_fleet(spec, 0).mean.tolist() == [1.0, 2.0]
    with pytest.raises(BadInput, match=r"holds 2 clients, need clients \(30\)"):
        make_fleet(complete(step_law=f"trace:{path}"), 0)


def test_a_trace_that_changed_is_planned_anew(tmp_path: Path) -> None:
    """Although its name and the means are the same."""
    path = tmp_path / "steps.csv"
    spec = complete(step_law=f"trace:{path}", clients=1, selected=1, local_steps=1, horizon=70)
    path.write_text("client,duration\n0,1\n0,30\n")
    first = plan_seed(spec, 0)
    path.write_text("client,duration\n0,15.5\n0,15.5\n")
    with pytest.raises(BadInput, match="client 0 can never finish a step"):
        plan_seed(spec, 0)
    path.write_text("client,duration\n0,30\n0,1\n")
    assert plan_seed(spec, 0).schedule.steps.tolist() != first.schedule.steps.tolist()


def test_recordings_of_one_mean_are_not_pooled(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    path.write_text("client,duration\n0,1\n0,30\n1,15.5\n2,1\n2,30\n")
    keys: dict[str, object] = {"step_law": f"trace:{path}", "clients": 3, "selected": 2}
    assert make_fleet(mnist(**keys), 0).groups.tolist() == [0, 0, 0]
    exact, drawn = weights_of(**keys), weights_of(**keys, weights="monte-carlo")
    assert drawn.positive == pytest.approx(exact.positive, rel=0.05)
    assert exact.positive[0] == exact.positive[2] > 1.5 * exact.positive[1]
    seen = expected_of(**keys, weights="empirical")
    assert isinstance(seen, Empirical)
    assert seen.group.tolist() == [0, 1, 0]
