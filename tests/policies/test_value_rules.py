"""Power of choice and Oort against enumerations and their formulas, client by client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf, log, nan, sqrt

import numpy as np
import pytest

from favano.errors import BadInput
from favano.policies import (
    Buffered,
    Candidates,
    Oort,
    Polling,
    PowerOfChoice,
    ReceivedUpdate,
    Rounds,
    Selection,
    Selector,
)
from tests.policies.test_selection import drawn_one_by_one

ROUNDS = 1500
SAMPLES = (30.0, 10.0, 20.0, 40.0, 5.0)
LOSSES = (0.5, 2.0, 1.0, 0.1, 3.0)


def known(
    number: int, loss: Sequence[float], *, duration: Sequence[float] = (), last: Sequence[int] = ()
) -> Candidates:
    count = len(loss)
    return Candidates(
        number,
        np.arange(count),
        np.array(last or [0] * count),
        np.ones(count, dtype=np.int64),
        np.array(SAMPLES[:count]),
        3,
        {"loss": np.array(loss), "duration": np.array(duration or [1.0] * count)},
    )


def test_power_of_choice_is_that_of_an_enumeration() -> None:
    """Three candidates drawn by samples, of which the two highest losses are selected."""
    expected = Counter[tuple[int, ...]]()
    for drawn, chance in drawn_one_by_one(SAMPLES, 3).items():
        best = sorted(drawn, key=lambda client: -LOSSES[client])[:2]
        expected[tuple(sorted(best))] += chance  # type: ignore[assignment]
    rule = PowerOfChoice(candidates=3)
    counts = Counter(
        tuple(sorted(rule.select(known(number, LOSSES), 2).tolist())) for number in range(ROUNDS)
    )
    for chosen, chance in expected.items():
        error = 4 * sqrt(chance * (1 - chance) / ROUNDS)
        assert counts[chosen] / ROUNDS == pytest.approx(chance, abs=error)
    assert counts.keys() <= expected.keys()


def test_power_of_choice_begins_with_those_it_does_not_know() -> None:
    rule = PowerOfChoice(candidates=5)
    assert set(rule.select(known(0, (0.5, nan, 9.0, nan, 0.1)), 3).tolist()) == {1, 2, 3}
    assert len(set(PowerOfChoice().select(known(0, LOSSES), 2).tolist())) == 2  # of four
    with pytest.raises(BadInput, match="candidates=1: need at least 2"):
        PowerOfChoice(candidates=1).select(known(0, LOSSES), 2)


def test_the_utility_is_that_of_the_formula() -> None:
    """Round 8; durations 1..5, so that their 0.5 quantile is 3; nothing is cut at 0.999."""
    last, duration = [0, 1, 2, 3, 4], [1.0, 2.0, 3.0, 4.0, 5.0]
    rule = Oort(preferred=0.5, penalty=3.0, clip=0.9999999)
    utility = rule.utility(known(7, LOSSES, duration=duration, last=last))
    value = [samples * loss for samples, loss in zip(SAMPLES, LOSSES, strict=True)]
    for client in range(5):
        scaled = (value[client] - min(value)) / (max(value) - min(value))
        expected = scaled + sqrt(0.1 * log(8) / (last[client] + 1))
        if duration[client] > 3:
            expected *= (3 / duration[client]) ** 3
        assert utility[client] == pytest.approx(expected, rel=1e-5)


def test_utilities_are_cut() -> None:
    losses = (1.0, 1.0, 1.0, 1.0, 1000.0)
    high, cut = (Oort(clip=clip).utility(known(1, losses)) for clip in (0.99, 0.5))
    assert high.argmax() == 4
    assert cut[4] == cut[3] == cut[0] > cut[2]


def test_oort_draws_by_utility_and_explores() -> None:
    """Without a cut-off, one client of all, in proportion; a share of those without a loss."""
    rule = Oort(least_exploration=0.25, exploration=0.0, cut_off=0.0)
    losses = (0.5, 2.0, 1.0, nan, nan)
    drawn = Counter(int(rule.select(known(number, losses), 1)[0]) for number in range(ROUNDS))
    explored = drawn[3] + drawn[4]
    assert explored / ROUNDS == pytest.approx(0.25, abs=4 * sqrt(0.25 * 0.75 / ROUNDS))
    assert drawn[3] / explored == pytest.approx(0.5, abs=4 * sqrt(0.25 / explored))
    # The temporal part grows as log R, so that chances are those of their mean over rounds.
    chances = np.zeros(3)
    for number in range(ROUNDS):
        utility = rule.utility(known(number, losses))[:3]
        chances += utility / utility.sum() / ROUNDS
    for client, chance in enumerate(chances):
        error = 4 * sqrt(chance * (1 - chance) / (ROUNDS - explored))
        assert drawn[client] / (ROUNDS - explored) == pytest.approx(chance, abs=error)


def test_oort_takes_those_whose_utility_would_do() -> None:
    """At first everybody is new, later the best are taken: a high cut-off leaves no choice."""
    rule = Oort(exploration=0.0, least_exploration=0.0, cut_off=1.0, clip=0.99)
    unknown = rule.select(known(0, [nan] * 5), 3)
    assert len(set(unknown.tolist())) == 3
    candidates = known(4, LOSSES)
    best = np.argsort(rule.utility(candidates))[-2:]
    assert set(rule.select(candidates, 2).tolist()) == set(best.tolist())
    assert set(rule.select(known(4, (inf, 1.0, 2.0, nan, inf)), 4).tolist()) > {1, 2}


def test_rules_learn_from_client_updates() -> None:
    selector = Selector(PowerOfChoice(candidates=3), 0)
    for client, loss in enumerate((1.0, 3.0, 2.0)):
        selector.receive(ReceivedUpdate(client, client, -1, 5, 2.0, (("loss", loss),)))
    assert selector.select(range(3), 2) == [1, 2]
    selector.receive(ReceivedUpdate(1, 4, 0, 5, 2.0, (("loss", 0.1),)))
    assert selector.select(range(3), 2) == [0, 2]
    assert selector.copy().select(range(3), 2) == [0, 2]


def test_policies_see_what_their_rules_see() -> None:
    rule = PowerOfChoice()
    assert (
        Rounds(selection=rule).sees == Buffered(hand_out="idle", selection=rule).sees == ("loss",)
    )
    assert not Rounds().grows
    with pytest.raises(BadInput, match=r"selection=power-of-choice: looks at loss, but polls tell"):
        Polling(selection=rule)
    with pytest.raises(BadInput, match=r"drop_last=True: requires a selection that can be planned"):
        Rounds(selection=rule, drop_last=True)


def test_rules_say_what_they_see() -> None:
    class Curious(Selection):
        def select(self, clients: Candidates, size: int) -> Sequence[int]:
            return [int(client) for client in np.argsort(clients.loss)[:size]]

    with pytest.raises(BadInput, match=r"selection=curious: select raises AttributeError: loss is"):
        Selector(Curious(), 0).select(range(3), 2)
    with pytest.raises(BadInput, match="selection=blind: sees must be some of loss, delta_norm"):

        class Blind(Selection):
            sees = ("colour",)

            def select(self, clients: Candidates, size: int) -> Sequence[int]:
                return []
