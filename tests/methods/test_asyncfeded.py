"""AsyncFedED: distances, step sizes and job lengths by hand (P13), and a schedule that grows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from favano.aggregation import Aggregator
from favano.engine import PlainLoop, Recorder, live_models
from favano.errors import BadInput
from favano.methods import ModelState
from favano.methods.asyncfeded import AsyncFedED
from favano.policies import Adaptive
from favano.schedule import Schedule, VirtualClock, check_schedule, plan
from favano.timing import ClientSpeeds, two_speeds
from favano.training import Layout, Work
from favano.types import Stack, Vector
from tests.effective_weights import effective_weights
from tests.methods.bound import any_method, bound
from tests.problems import (
    Quadratics,
    answers_of,
    close,
    make_aggregator,
    quadratics,
    server_models,
    start_model,
)

CLIENTS = 9
POLICY = Adaptive(local_steps=5, most_steps=50)
HORIZON = 300.0


def number(value: float) -> Vector:
    return torch.tensor([[value]], dtype=torch.float64)


def ready(options: AsyncFedED, fleet: ClientSpeeds | int = CLIENTS) -> AsyncFedED:
    """The method where the first jobs have five steps."""
    return bound(options, fleet, local_steps=5)


def updated(
    method: AsyncFedED, state: ModelState, steps: int, start: float, end: float
) -> ModelState:
    """The state after client 0 has made so many steps from one number to another."""
    return method.aggregate(state, answers_of([0], [steps], [1], number(start), number(end)))


def grown(
    method: AsyncFedED, problem: Quadratics, rate: float = 0.1
) -> tuple[list[Vector], Schedule]:
    """Server models and the schedule that came out."""
    clock = VirtualClock(method.policy(), method.context.fleet, HORIZON, 0)
    aggregator = make_aggregator(method, clock, start_model(), rate)
    return [event.server for event in PlainLoop(aggregator, problem).events()], aggregator.schedule


def test_p13_without_staleness_the_server_step_is_lambda_over_epsilon() -> None:
    """A single client is never stale."""
    options = AsyncFedED(server_learning_rate=1.5 / 2.0, distance_offset=2.0, most_local_steps=2)
    method = bound(options, two_speeds(1, seed=0), local_steps=2)
    assert method.policy() == Adaptive(local_steps=2, most_steps=2)
    trainer, model = quadratics(1), start_model()
    models, _ = grown(method, trainer)
    assert len(models) > 10
    for after in models[1:]:
        model = model + 1.5 / 2.0 * (trainer.local(0, model, 2, 0.1) - model)
        assert close(after, model)


def test_one_update_by_hand() -> None:
    """x_t = 7, started at 1, ended at 3: gamma = 6 / 2 = 3."""
    options = AsyncFedED(server_learning_rate=2.0, distance_target=3.5, distance_gain=4.0)
    method = ready(options)
    assert method.policy() == replace(POLICY, target=3.5, gain=4.0)
    state = method.init(number(7.0)[0])
    after = method.aggregate(state, answers_of([4], [5], [6], number(1.0), number(3.0)))
    assert float(after.model) == pytest.approx(7 + 2 / (3 + 1) * 2)


def test_the_step_falls_with_gamma_and_gamma_knows_no_scale() -> None:
    method, moved = ready(AsyncFedED()), []
    for server in (0.0, 1.0, 3.0, 10.0):
        after = updated(method, method.init(number(server)[0]), 5, 0.0, 1.0)
        moved.append(float(after.model) - server)
        same = updated(method, method.init(number(1000 * server)[0]), 5, 0.0, 1000.0)
        assert float(same.model) == pytest.approx(1000 * float(after.model))
    assert moved == pytest.approx([1.0, 1 / 2, 1 / 4, 1 / 11])


def test_a_client_that_has_not_moved_changes_nothing() -> None:
    method = ready(AsyncFedED())
    state = method.init(number(5.0)[0])
    assert updated(method, state, 9, 1.0, 1.0) == state


def test_a_run_grows_a_valid_schedule_that_gives_the_same_run_again(tmp_path: Path) -> None:
    """Lengths differ, the numbers follow the formulas, and the arrays are an ordinary schedule."""
    method, trainer = ready(AsyncFedED(distance_target=3.0)), quadratics(CLIENTS)
    models, schedule = grown(method, trainer)
    check_schedule(schedule)
    used = slice(0, schedule.jobs)
    assert len(set(schedule.steps[used].tolist())) > 5
    length = dict.fromkeys(range(CLIENTS), 5)
    for update in range(schedule.updates):
        client, base = int(schedule.client[update]), int(schedule.start_version[update])
        assert schedule.steps[update] == length[client]
        begin, before = models[base + 1], models[update]
        delta = trainer.local(client, begin, length[client], 0.1) - begin
        gamma = float((before - begin).norm() / delta.norm())
        assert close(models[update + 1], before + delta / (gamma + 1))
        length[client] = min(50, max(1, length[client] + int(np.floor(3.0 - gamma))))
    again = server_models(method, schedule, trainer, start_model())
    assert all(torch.equal(a, b) for a, b in zip(again, models, strict=True))
    planned = plan(POLICY, method.context.fleet, horizon=HORIZON, seed=0)
    assert planned.steps.tolist() != schedule.steps.tolist()


def test_p14_p15_p16_along_the_schedule_that_grows() -> None:
    method, trainer = ready(AsyncFedED()), quadratics(CLIENTS)
    fleet = method.context.fleet
    first, _ = grown(method, trainer)
    second, _ = grown(method, trainer)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    still, schedule = grown(method, trainer, rate=0.0)
    assert all(torch.equal(model, still[0]) for model in still)
    assert schedule.time[-1] > 0
    order = np.random.default_rng(1).permutation(CLIENTS)
    renumbered = ClientSpeeds(fleet.mean[order], fleet.law, fleet.streams[order])
    moved = Quadratics(trainer.curvature[order], trainer.centre[order])
    third, _ = grown(ready(AsyncFedED(), renumbered), moved)
    assert all(torch.equal(a, b) for a, b in zip(first, third, strict=True))


@pytest.mark.parametrize("live", [False, True])
def test_a_recorder_sees_the_same_along_both(live: bool) -> None:
    """Rows, counters and variances of the growing run equal those of its finished schedule."""
    method, fleet = ready(AsyncFedED()), two_speeds(CLIENTS, seed=0)
    times = np.arange(0.0, HORIZON + 1, 25.0)
    trainer, rows = quadratics(CLIENTS), []
    timeline: VirtualClock | Schedule = VirtualClock(POLICY, fleet, HORIZON, 0)
    for _ in range(2):
        aggregator = make_aggregator(method, timeline, start_model())
        at = live_models(aggregator, trainer, fleet, 0) if live else None
        recorder = Recorder(aggregator, 0, times, lambda model: model[:2], at)
        for event in PlainLoop(aggregator, trainer).events():
            recorder.observe(event)
        rows.append(recorder.rows())
        timeline = aggregator.schedule
    for grown_row, row in zip(*rows, strict=True):
        assert grown_row.metrics == pytest.approx(row.metrics, rel=1e-12)
        other, expected = (
            tuple(line._replace(metrics=0, energy=0, model_digest=0, digest=0))
            for line in (grown_row, row)
        )
        assert other == pytest.approx(expected, rel=1e-12)
    assert len(rows[0]) == len(times)
    assert rows[0][-1].local_steps > 0
    assert rows[0][-1].variance > 0


def test_refused_updates_leave_the_length() -> None:
    """A client that sends NaN goes on with as many steps as before."""
    method, fleet = ready(AsyncFedED()), two_speeds(CLIENTS, seed=0)

    class Poisoned:
        def train(self, start: Stack, work: Work) -> Stack:
            end = quadratics(CLIENTS).train(start, work)
            end[torch.from_numpy(work.client == 3)] = torch.nan
            return end

    clock = VirtualClock(POLICY, fleet, HORIZON, 0)
    layout = Layout(parameters=4, buffers=0, counters=0)
    aggregator = Aggregator(
        method, clock, layout, lambda s, first: np.full(len(s.client) - first, 0.1), start_model(),
        non_finite="skip",
    )  # fmt: skip
    moments = list(PlainLoop(aggregator, Poisoned()).events())
    assert all(bool(m.server.isfinite().all()) for m in moments)
    schedule = aggregator.schedule
    assert set(schedule.steps[schedule.client == 3].tolist()) == {5}
    assert (schedule.client[: schedule.jobs] == 3).sum() > 1


def test_has_no_weights_of_its_own() -> None:
    schedule = plan(POLICY, two_speeds(CLIENTS), horizon=50, seed=0)
    with pytest.raises(BadInput, match="method=asyncfeded: is not linear in the models"):
        effective_weights(any_method(ready(AsyncFedED())), schedule)
    with pytest.raises(BadInput, match="distance_offset=0: need greater than 0"):
        AsyncFedED(distance_offset=0)
