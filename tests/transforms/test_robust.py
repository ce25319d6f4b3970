"""Transforms of client deltas: by hand, against a client that lies, and where they do nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import favano
from favano.aggregation import Aggregator, ServerChain
from favano.engine import PlainLoop
from favano.errors import BadInput
from favano.methods import ClientUpdates, make_method, our_methods
from favano.methods.fedavg import FedAvg
from favano.specification.keys import Keys
from favano.training import Layout, Work
from favano.transforms import AnyTransform, as_transform, parse_transform
from favano.types import Stack
from tests.methods.bound import bound, scheduled
from tests.problems import quadratics, start_model

MEDIAN = parse_transform("median")


def trimmed(share: float) -> AnyTransform:
    return as_transform(favano.trimmed_mean(share))


def tamed(
    transform: AnyTransform,
    progress: list[list[float]],
    steps: list[int],
    weight: list[float] | None = None,  # of each client update; the same for all by default
) -> list[list[float]]:
    """Progress before and after, from start models that differ."""
    start = torch.arange(2.0 * len(steps), dtype=torch.float64).reshape(-1, 2)
    moved = torch.tensor(progress, dtype=torch.float64)
    shares = np.array(weight or [1 / len(steps)] * len(steps))
    count, zeros = np.array(steps), np.zeros(len(steps), dtype=np.int64)
    updates = ClientUpdates(zeros, count, zeros, np.ones(len(steps)), 0, start, start + moved)
    chain = ServerChain(bound(FedAvg(), selected=3), [transform])
    step = chain.deltas(((),), updates, shares)[0].end - start
    return [[round(value, 9) for value in row] for row in step.tolist()]


def test_the_median_of_contributions_as_they_are_applied() -> None:
    """With their weights (1, 10), (2, 5), (900, -3): the middle is (2, 5), over each weight."""
    progress, weight = [[1.0, 10.0], [4.0, 10.0], [900.0, -3.0]], [1 / 3, 1 / 6, 1 / 3]
    mean = tamed(MEDIAN, progress, [1, 2, 1], weight)
    assert mean == [[2.0, 5.0], [4.0, 10.0], [2.0, 5.0]]


def test_an_answer_without_weight_has_no_say() -> None:
    progress = [[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [-1e9, 0.0]]
    mean = tamed(MEDIAN, progress, [1] * 4, [0.25, 0.25, 0.25, 0.0])
    assert mean == [[2.0, 0.0], [2.0, 0.0], [2.0, 0.0], [0.0, 0.0]]


def test_the_median_of_an_even_number_is_between_the_two_in_the_middle() -> None:
    assert tamed(MEDIAN, [[1.0, 0], [2.0, 0], [4.0, 0], [9.0, 0]], [1] * 4) == [[3.0, 0.0]] * 4


@pytest.mark.parametrize(("share", "count", "cut"), [(0.07, 100, 7), (0.29, 100, 29), (0.1, 25, 3)])
def test_a_share_is_rounded_up_from_its_decimals(share: float, count: int, cut: int) -> None:
    """In floats, 0.07 times 100 is 7.000000000000001."""
    progress = [[1.0, 1.0]] * count
    progress[:cut] = [[-1e9, 1.0]] * cut  # as many wrong client updates as the share allows
    assert tamed(trimmed(share), progress, [1] * count)[0] == [1.0, 1.0]
    progress[cut] = [-1e9, 1.0]
    assert tamed(trimmed(share), progress, [1] * count)[0][0] < -1e6


def test_a_trimmed_mean_leaves_out_both_ends() -> None:
    progress = tamed(trimmed(0.2), [[-1e9, 1], [1, 1], [2, 1], [3, 1], [1e9, 1]], [1] * 5)
    assert progress == [[2.0, 1.0]] * 5


def test_clients_without_a_step_have_no_say() -> None:
    progress = tamed(MEDIAN, [[0.0, 0.0], [3.0, 1.0], [4.0, 1.0], [5.0, 1.0]], [0, 1, 1, 1])
    assert progress == [[0.0, 0.0], [4.0, 1.0], [4.0, 1.0], [4.0, 1.0]]


def test_of_two_nobody_can_tell_who_is_right() -> None:
    still = [[0.0, 0.0]] * 3
    assert tamed(MEDIAN, [[0.0, 0.0], [3.0, 1.0], [5.0, 1.0]], [0, 1, 1]) == still
    assert tamed(trimmed(0.1), [[0.0, 0.0], [3.0, 1.0], [5.0, 1.0]], [0, 1, 1]) == still
    assert tamed(MEDIAN, still, [0] * 3) == still


def test_clipping_shortens_what_is_too_long() -> None:
    progress = tamed(parse_transform("clip:5"), [[30.0, 40.0], [0.3, 0.4], [0.0, 0.0]], [7, 1, 0])
    assert progress == [[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]]
    heavy = tamed(parse_transform("clip:5"), [[0.3, 0.4], [0.3, 0.4]], [1, 20], [10.0, -0.5])
    assert heavy == [[0.15, 0.2], [0.3, 0.4]]  # times 20 and -1: 10 and 0.5 long


WEIGHING: Mapping[str, tuple[str, dict[str, object]]] = {
    "favano": ("favano", {}),
    "favano deterministic": ("favano", {"reweight": "deterministic"}),
    "favano-delta": ("favano-delta", {"server_learning_rate": 0.5}),
    "fedbuff": ("fedbuff", {"buffer": 5}),
    "fedavg": ("fedavg", {}),
}


@pytest.mark.parametrize("name", WEIGHING)
@pytest.mark.parametrize("rule", ["median", "clip:0.5"])
def test_rules_act_on_contributions_as_they_are_applied(name: str, rule: str) -> None:
    """Contributions are found by leaving answers out, one by one, of the method's own update."""
    kind, options = WEIGHING[name]
    method = bound(make_method(kind, options), selected=5)
    schedule = scheduled(method, horizon=120.0)
    rates, model, draws = np.full(len(schedule.client), 0.05), start_model(), torch.manual_seed(3)
    layout = Layout(len(model), 0, 0)
    chain = ServerChain(method, [as_transform(rule)])
    run = Aggregator(method, schedule, layout, rates, model, server=chain)
    heaviest = 0.0
    for number in range(schedule.updates):
        jobs = np.flatnonzero(schedule.used_by == number)
        steps = schedule.steps[jobs]
        start = torch.randn(len(jobs), len(model), generator=draws, dtype=model.dtype)
        length = torch.from_numpy(0.3 * steps)[:, None]
        end = start + length * torch.randn(start.shape, generator=draws, dtype=model.dtype)
        stale = number - 1 - schedule.start_version[jobs]
        given = ClientUpdates(
            schedule.client[jobs], steps, stale, rates[jobs], number, start, start
        )
        state = run.state

        def moved(ends: Tensor, state: Any = state, given: ClientUpdates = given) -> Tensor:
            model: Tensor = method.aggregate(state, replace(given, end=ends)).model
            return model

        still, parts = moved(start), list[Tensor]()
        for row in range(len(jobs)):
            alone = start.clone()
            alone[row] = end[row]
            parts.append(len(jobs) * (moved(alone) - still))
        with_steps = torch.stack(parts)[torch.from_numpy(steps > 0)]
        norms = with_steps.norm(dim=1, keepdim=True)
        if rule == "median":
            middle = torch.from_numpy(np.median(with_steps.numpy(), axis=0)) if len(norms) else 0.0
            expected = still + (len(norms) / len(jobs) if len(norms) > 2 else 0.0) * middle
        else:
            expected = still + (with_steps * (0.5 / norms).clamp(max=1.0)).sum(0) / len(jobs)
        everybody = np.ones(len(jobs), np.bool_)
        model = run.update(model, start, end, everybody).server
        assert torch.allclose(model, expected, rtol=1e-4, atol=1e-5)
        ratio = norms.flatten() / (end - start)[torch.from_numpy(steps > 0)].norm(dim=1)
        heaviest = max(heaviest, float(ratio.max() / ratio.min())) if len(norms) else heaviest
    assert heaviest > 1.2 or name == "fedavg"  # weights differ, so that the rules do


class Liar:
    """Client 0 answers with a million times its progress."""

    def __init__(self) -> None:
        self.trainer = quadratics(8)

    def train(self, start: Stack, work: Work) -> Tensor:
        end = self.trainer.train(start, work)
        lies = torch.from_numpy(work.client == 0)[:, None]
        return torch.where(lies, start + 1e6 * (end - start), end)


@pytest.mark.parametrize("name", ["favano", "favano-delta", "fedavg", "fedbuff"])
@pytest.mark.parametrize("rule", ["median", "trimmed_mean:0.3", "clip:1.0"])
def test_one_liar_does_no_harm(name: str, rule: str) -> None:
    def last(*rules: str) -> Tensor:
        method = bound(our_methods()[name](), selected=4)
        schedule = scheduled(method, horizon=200.0)
        rates, initial = np.full(len(schedule.client), 0.05), start_model()
        chain = ServerChain(method, [as_transform(rule) for rule in rules])
        run = Aggregator(method, schedule, Layout(len(initial), 0, 0), rates, initial, server=chain)
        *_, event = PlainLoop(run, Liar()).events()
        return event.server

    assert last().abs().max() > 1e3
    assert last(rule).abs().max() < 20


@pytest.mark.parametrize(
    ("method", "rule", "said"),
    [
        (
            "asyncsgd",
            "median",
            "server=median: needs updates of at least 3 clients; asyncsgd makes them of 1",
        ),
        ("scaffold", "clip:1", "server=clip: cannot be used with scaffold, whose corrections"),
        (
            "quafl",
            "clip:1",
            "cannot be used with quafl, whose clients go on from models of their own",
        ),
        ("favano", "trimmed:0.5", "need none, median, trimmed:SHARE"),
        ("favano", "middle", "robust=middle: need none, median"),
        ("favano", "clip:x", "robust=clip:x: need none, median"),
    ],
)
def test_what_would_do_nothing_is_refused(method: str, rule: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        favano.simulate(method, "digits", robust=rule, selected=4, horizon=40)


def test_a_rule_that_changes_nothing_changes_nothing() -> None:
    keys: Keys = {"selected": 3, "horizon": 60.0, "local_steps": 3}
    plain = favano.simulate("favano", "digits", **keys)
    keys["robust"] = "clip:1e6"
    wide = favano.simulate("favano", "digits", **keys)
    assert wide.history["loss"][-1] == pytest.approx(plain.history["loss"][-1], rel=1e-5)
    keys["robust"] = "clip:0.001"
    tight = favano.simulate("favano", "digits", **keys)
    assert tight.history["loss"][-1] != pytest.approx(plain.history["loss"][-1], rel=1e-5)
    assert tight.audit is None


def test_every_method_takes_it_or_says_why() -> None:
    refused = set()
    for name, kind in our_methods().items():
        try:
            ServerChain(bound(kind(), selected=4), [MEDIAN])
        except BadInput:
            refused.add(name)
    one_by_one = {"asyncsgd", "asyncsgd-adaptive", "fedasync", "asyncfeded", "asofed"}
    assert refused == one_by_one | {
        "scaffold",
        "quafl",
        "aafl",
    }  # AAFL: of 8 clients it waits for 2


def test_three_answers_have_a_middle() -> None:
    ServerChain(bound(FedAvg(), selected=3), [MEDIAN])
    with pytest.raises(BadInput, match="at least 3 clients; fedavg makes them of 2"):
        ServerChain(bound(FedAvg(), selected=2), [MEDIAN])
