"""From specification to objects: weights, policies, step sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from favano.errors import BadInput
from favano.methods.asyncsgd import AsyncSGD
from favano.methods.favano import Favano
from favano.methods.fedavg import FedAvg
from favano.methods.fedbuff import FedBuff
from favano.methods.quafl import Quafl
from favano.methods.weights import Empirical, Known
from favano.planning.planned import make_fleet, make_schedule
from favano.schedule import Arrival, Barrier
from favano.specification.presets import resolve
from favano.specification.spec import Spec, make_spec
from favano.timing import Exponential
from tests.MISSING import make_algorithm, make_weights, step_sizes
from tests.specs import spec_of


def mnist(**keys: object) -> Spec:
    return resolve(make_spec({"dataset": "mnist", **keys}))


def weights_of(**keys: object) -> Known:
    spec = mnist(**keys)
    found = make_weights(spec, make_fleet(spec, 0))
    assert isinstance(found, Known)
    return found


def test_exact_weights_are_the_default() -> None:
    found = weights_of()
    assert sorted(set(found.positive.round(6))) == [0.740627, 0.998428]
    assert sorted(set(found.mean.round(6))) == [2.186981, 12.492906]


def test_monte_carlo_weights_come_close() -> None:
    exact, drawn = weights_of(), weights_of(weights="monte-carlo")
    assert drawn.positive == pytest.approx(exact.positive, rel=0.01)
    assert drawn.mean == pytest.approx(exact.mean, rel=0.01)
    kept = weights_of(weights="monte-carlo", interruption="keep", strict_ties=True)
    assert kept.positive.min() == pytest.approx(0.37, abs=0.03)


def test_given_weights() -> None:
    one = weights_of(weights="given", given_weights=[0.5])
    assert set(one.positive) == {0.5}
    literal = weights_of(
        weights="given", reweight="deterministic", given_weights=[1.999998, 11.599059]
    )
    fleet = make_fleet(mnist(), 0)
    assert set(literal.mean[fleet.mean == 2]) == {1.999998}
    assert set(literal.mean[fleet.mean == 16]) == {11.599059}
    with pytest.raises(BadInput, match=r"need 1, 2, 100 numbers, found 3"):
        weights_of(weights="given", given_weights=[1, 1, 1])


def test_empirical_weights_pool_by_speed() -> None:
    spec = mnist(weights="empirical")
    found = make_weights(spec, make_fleet(spec, 0))
    assert isinstance(found, Empirical)
    assert set(found.group) == {0, 1}


def test_a_client_that_never_finishes_is_refused() -> None:
    spec = mnist(step_law="deterministic", slow_mean=1e9)
    with pytest.raises(BadInput, match=r"weights=exact: client \d+ can never finish a step"):
        make_algorithm(spec, make_fleet(spec, 0))
    make_algorithm(
        mnist(step_law="deterministic", slow_mean=1e9, reweight="none"), make_fleet(spec, 0)
    )


def test_policies_of_each_method() -> None:
    fleet = make_fleet(mnist(), 0)
    favano: object = make_algorithm(mnist(strict_ties=True), fleet)
    assert isinstance(favano, Favano)
    assert favano.policy.strict_ties
    fedavg: object = make_algorithm(
        mnist(algorithm="fedavg", sample_weights=True), fleet, np.arange(100.0)
    )
    assert isinstance(fedavg, FedAvg)
    assert fedavg.samples is not None
    for mode, kind in (("reset", Barrier), ("block", Arrival)):
        buffered: object = make_algorithm(mnist(algorithm="fedbuff", buffer_mode=mode), fleet)
        assert isinstance(buffered, FedBuff)
        assert isinstance(buffered.policy, kind)
    scaled = make_algorithm(mnist(algorithm="fedbuff", rate_scale="buffer"), fleet)
    assert scaled.rate(np.array([0])).tolist() == [0.1]
    quafl: object = make_algorithm(mnist(algorithm="quafl", dampening=True), fleet)
    assert isinstance(quafl, Quafl)
    fast, slow = int(np.argmin(fleet.mean)), int(np.argmax(fleet.mean))
    ratio = quafl.rate(np.array([fast])) / quafl.rate(np.array([slow]))
    assert ratio[0] == pytest.approx(2.186981 / 12.492906, rel=1e-5)
    asynchronous: object = make_algorithm(mnist(algorithm="asyncsgd", gradients_per_job=3), fleet)
    assert isinstance(asynchronous, AsyncSGD)
    assert asynchronous.policy.local_steps == 3


def test_step_sizes_and_their_decay() -> None:
    spec = mnist(algorithm="quafl", rate_decay=True, horizon=1000)
    fleet = make_fleet(spec, 0)
    algorithm = make_algorithm(spec, fleet)
    schedule = make_schedule(spec, fleet, algorithm, 0)
    rates = step_sizes(spec, schedule, algorithm)
    full = 0.5 * 21 / 20
    assert sorted(set(rates.round(9))) == pytest.approx([0.1 * full, 0.5 * full, full])
    assert rates[schedule.begin < 600] == pytest.approx(full)
    assert rates[schedule.begin >= 800] == pytest.approx(0.1 * full)


def test_laws_and_traces(tmp_path: Path) -> None:
    assert make_fleet(mnist(step_law="exponential"), 0).law == Exponential()
    path = tmp_path / "trace.csv"
    path.write_text("client,duration\n0,1\n1,2\n")
    spec = resolve(spec_of(step_law=f"trace:{path}", clients=2, selected=1))
    assert make_fleet(spec, 0).mean.tolist() == [1.0, 2.0]
    with pytest.raises(BadInput, match=r"holds 2 clients, need clients \(30\)"):
        make_fleet(resolve(spec_of(step_law=f"trace:{path}")), 0)
