"""Who holds which model: references, shared versions, and nothing that nobody holds."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from favano.engine.client_models import ClientModels, ClientModelsOfRun
from favano.engine.model_rows import ModelRows
from favano.policies import Polling
from favano.schedule import Timeline, plan
from favano.timing import two_speeds
from favano.types import Ints, Vector

SIZE = 3


def number(value: float) -> Vector:
    return torch.full((SIZE,), value, dtype=torch.float64)


class Run:
    """The holdings of one run, with a reference of its own to the newest version."""

    def __init__(self, clients: int, others: int = 0) -> None:
        self.rows = ModelRows(number(0.0))
        self.client_models = ClientModels(self.rows, [others, clients])
        self.first = others
        (self.server,) = self.rows.store(number(0.0)[None])
        self.client_models.open(1, int(self.server))
        self.held = ClientModelsOfRun(self.client_models, 1, SIZE)

    def assign(
        self,
        version: int,
        client: list[int],
        begin: list[float] | None = None,
        read: dict[int, Vector] | None = None,
    ) -> None:
        """Jobs of these clients get a new version, whose numbers are all `version` + 1.

        It is made at the time `version`; they begin at once if nothing else is said.
        """
        (new,) = self.rows.store(number(version + 1.0)[None])
        who = self.first + np.array(client, dtype=np.int64)
        now, read = np.full(len(who), float(version)), read or {}
        decoded = [(self.first + np.array(list(read)), list(read.values()))] if read else []
        self.client_models.advance(1, version)
        self.client_models.assign(
            *(who, np.full(len(who), new), np.full(len(who), version)),
            *(now if begin is None else np.array(begin), now, decoded),
        )
        self.rows.release(np.array([self.server]))
        self.server = new

    def keep_own(self, client: list[int], values: list[float]) -> None:
        models = torch.stack([number(value) for value in values])
        self.client_models.keep_own(self.first + np.array(client), models)

    def values(self, clients: int, time: float = np.inf) -> list[float]:
        models: list[float] = self.held.of(np.arange(clients), time)[:, 0].tolist()
        return models


def test_a_version_is_kept_as_long_as_a_client_holds_it() -> None:
    run = Run(3)
    assert run.rows.used == 1
    run.assign(0, [0, 2])
    assert run.values(3) == [1, 0, 1]
    assert run.rows.used == 2
    run.assign(1, [0, 2])
    assert run.values(3) == [2, 0, 2]
    assert run.rows.used == 2
    run.assign(2, [1])
    assert run.values(3) == [2, 3, 2]
    assert run.rows.used == 2
    run.assign(3, [0, 1, 2])
    assert run.rows.used == 1
    run.client_models.close(1)
    run.rows.release(np.array([run.server]))
    assert run.rows.used == 0


def test_a_client_that_begins_two_jobs_at_once_holds_one_model() -> None:
    """FedBuff's clients may start twice from one version."""
    run = Run(2)
    run.assign(0, [1, 0, 1])
    assert run.values(2) == [1, 1]
    run.assign(1, [1, 1])
    assert run.values(2) == [1, 2]
    assert run.rows.used == 2
    run.assign(2, [0, 1])
    assert run.rows.used == 1
    run.client_models.close(1)
    run.rows.release(np.array([run.server]))
    assert run.rows.used == 0


def test_own_models_last_until_they_are_forgotten() -> None:
    run = Run(3, others=4)
    run.keep_own([0, 2], [10.0, 20.0])
    run.assign(0, [0, 1])
    assert run.values(3) == [10, 1, 20]
    assert run.client_models.own[4 + np.arange(3)].tolist() == [True, False, True]
    run.keep_own([0], [11.0])
    assert run.values(3) == [11, 1, 20]
    run.client_models.own[4] = False
    run.assign(1, [0, 2])
    assert run.values(3) == [2, 1, 20]
    assert run.rows.used == 3  # versions 0 and 1, and one model of a client's own


def test_a_client_holds_a_model_from_when_it_begins() -> None:
    """Client 0 has a queue of two jobs, client 1 begins the second between two versions."""
    run = Run(3)
    run.assign(0, [0, 0, 2], [0.0, 2.5, 0.0])
    run.assign(1, [0, 1], [3.5, 1.5])
    for time, values in ((1.0, [1, 0, 1]), (1.5, [1, 2, 1]), (3.0, [1, 2, 1]), (3.5, [2, 2, 1])):
        assert run.values(3, time) == values
        distances = SIZE * np.square(np.array(values) - 5.0).sum()
        assert float(run.held.spread(number(5.0), time=time).distances[0]) == distances
        together, _ = run.client_models.spreads(np.array([1]), [time], number(5.0)[None], SIZE)
        assert float(together[0, 0]) == pytest.approx(distances)
    run.assign(2, [1])
    assert run.values(3, 2.0) == [1, 3, 1]
    assert run.rows.used == 3
    run.assign(4, [])
    assert run.values(3, 4.0) == [2, 3, 1]
    assert not run.held.changing
    run.client_models.close(1)
    run.rows.release(np.array([run.server]))
    assert run.rows.used == 0


def test_a_model_that_is_read_behind_a_codec_waits_as_it_is_read() -> None:
    run = Run(3)
    run.assign(0, [0, 1, 2], [0.0, 0.5, 0.0], {1: number(1.5), 2: number(0.5)})
    assert run.values(3, 0.0) == [1, 0, 0.5]
    assert run.values(3, 0.5) == [1, 1.5, 0.5]
    run.keep_own([1], [9.0])  # before it begins
    run.assign(1, [0])
    assert run.values(3, 1.0) == [2, 9, 0.5]
    run.client_models.close(1)
    run.rows.release(np.array([run.server]))
    assert run.rows.used == 0


def test_clients_that_read_the_same_share_it() -> None:
    """Behind a codec; who reads the same is handed the same vector."""
    run = Run(4)
    same, other = number(0.9), number(1.2)
    run.assign(0, [0, 1, 2], read={0: same, 1: other, 2: same})
    assert run.values(4) == pytest.approx([0.9, 1.2, 0.9, 0.0])
    assert run.rows.used == 4  # the server model, the initial one, and two that were read
    run.assign(1, [0, 1, 2, 3])
    assert run.rows.used == 1


def test_spreads_count_every_holder() -> None:
    """Of shared, read and own models, of one run and of all, and with clients in training."""
    run = Run(5)
    run.assign(0, [0, 1, 2], read={1: number(1.5)})
    run.keep_own([3], [7.0])
    server = number(2.0)
    values = np.array([1.0, 1.5, 1.0, 7.0, 0.0])
    spread = run.held.spread(server)
    assert float(spread.distances[0]) == pytest.approx(SIZE * float(((values - 2.0) ** 2).sum()))
    assert spread.mean.tolist() == pytest.approx([(values.sum() + 2.0) / 6] * SIZE)
    distances, means = run.client_models.spreads(np.array([1]), [np.inf], server[None], SIZE)
    torch.testing.assert_close(distances[0], spread.distances)
    torch.testing.assert_close(means[0], spread.mean)
    live = run.held.spread(server, {0: number(4.0), 3: number(5.0)})
    values[[0, 3]] = 4.0, 5.0
    assert float(live.distances[0]) == pytest.approx(SIZE * float(((values - 2.0) ** 2).sum()))


def test_versions_nobody_needs_are_dropped() -> None:
    """A client between contacts is a reference: 2,000 of them cost the versions they point to."""
    clients = 2000
    policy = Polling(selected=500, local_steps=2)
    timeline = Timeline.of(plan(policy, two_speeds(clients), horizon=7 * 100, seed=0))
    run, expected = Run(clients), np.zeros(clients)
    for version in range(timeline.updates):
        begun: Ints = timeline.schedule.client[timeline.begun(version)]
        run.assign(version, begun.tolist())
        expected[begun] = version + 1
        assert run.values(clients) == expected.tolist()
        assert run.rows.used == len({version + 1.0, *expected.tolist()})
        spread = run.held.spread(number(0.0))
        assert float(spread.distances[0]) == pytest.approx(SIZE * float((expected**2).sum()))
    assert 5 < run.rows.used < run.rows.total < 120
