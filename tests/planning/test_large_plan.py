"""Plans of large fleets: audited by groups, without a weight of each client."""

from __future__ import annotations

from pathlib import Path

import pytest

from favano.engine import audit
from favano.engine.audit import PLAIN, LocalSteps, Weights
from favano.methods import AnyMethod
from favano.planning import client_weights, plan
from favano.planning.plan import Plan
from favano.planning.planned import plan_seed
from favano.schedule import Schedule
from favano.types import Ints
from tests.specs import complete

_METHODS = ["favano", "quafl"]


@pytest.mark.parametrize("method", _METHODS)
def test_a_large_fleet_is_audited_as_a_small_one(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups get what their clients have together, and no client is weighed on its own."""
    exact = {"weights": "empirical"} if method == "favano" else {}
    planned = plan_seed(
        complete(
            algorithm=method, clients=30, horizon=200.0, availability="two-state:30:20", **exact
        ),
        0,
    )
    by_client = Plan(planned).audit
    assert by_client is not None
    assert len(by_client.weight) == 30

    monkeypatch.setattr(plan, "MOST", 29)
    large = Plan(planned)
    columns: list[int] = []
    weigh = audit.weigh

    def counted(
        method: AnyMethod, schedule: Schedule, group: Ints, local: LocalSteps = PLAIN
    ) -> Weights:
        columns.append(int(group.max()) + 1)
        return weigh(method, schedule, group, local)

    monkeypatch.setattr(client_weights, "weigh", counted)
    by_groups = large.audit
    assert by_groups is not None
    assert by_groups.weight == ()
    assert len(columns) == 1
    assert columns[0] < 30
    for mine, its in [
        (by_groups.speeds, by_client.speeds),
        (by_groups.availability, by_client.availability),
    ]:
        assert [share.name for share in mine] == [share.name for share in its]
        weights = [share.weight for share in mine]
        assert weights == pytest.approx([share.weight for share in its])
        assert [share.low for share in mine] == pytest.approx([share.low for share in its])
    asked = large.weights
    assert asked is not None
    assert asked.complete  # who asks for them gets them


@pytest.mark.parametrize("method", _METHODS)
def test_a_fleet_that_is_never_there_is_planned(method: str, tmp_path: Path) -> None:
    recording = tmp_path / "never.csv"
    recording.write_text("client,second,available\n0,0,0\n")
    exact = {"weights": "empirical"} if method == "favano" else {}
    keys: dict[str, object] = {
        "clients": 1,
        "selected": 1,
        "horizon": 60.0,
        "availability": f"trace:{recording}",
    }
    planned = plan_seed(complete(algorithm=method, **keys, **exact), 0)
    record = Plan(planned).audit
    assert record is not None
    assert record.verdict == "made no update"
