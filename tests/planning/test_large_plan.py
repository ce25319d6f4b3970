"""Plans of large fleets: audited by groups, without a weight of each client."""

from __future__ import annotations

import numpy as np
import pytest

from favano.planning import client_weights, plan
from favano.planning.plan import Plan
from favano.planning.planned import plan_seed
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
    assert by_client is not None and len(by_client.weight) == 30

    monkeypatch.setattr(plan, "MOST", 29)
    large = Plan(planned)
    columns: list[int] = []
    weigh = client_weights.weigh

    def counted(*args: object) -> object:
        columns.append(int(np.max(args[2])) + 1)  # type: ignore[arg-type]
        return weigh(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(client_weights, "weigh", counted)
    by_groups = large.audit
    assert by_groups is not None and by_groups.weight == ()
    assert len(columns) == 1 and columns[0] < 30
    for mine, its in [
        (by_groups.speeds, by_client.speeds),
        (by_groups.availability, by_client.availability),
    ]:
        assert [share.name for share in mine] == [share.name for share in its]
        weights = [share.weight for share in mine]
        assert weights == pytest.approx([share.weight for share in its])
        assert [share.low for share in mine] == pytest.approx([share.low for share in its])
    weights = large.weights
    assert weights is not None and weights.complete  # who asks for them gets them
