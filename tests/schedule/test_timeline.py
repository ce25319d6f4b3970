"""What is noted of a federation as it happens."""

from __future__ import annotations

import numpy as np

from favano.schedule import Timeline

K = 5


def test_a_client_that_is_handed_a_model_at_work_goes_on_behind_its_jobs() -> None:
    """Steps of jobs that wait are counted as K each, until they are answered."""
    timeline = Timeline(clients=2, local_steps=K)
    first, second, third = (timeline.begin(0, 0.0) for _ in range(3))
    other = timeline.begin(1, 0.0)
    assert timeline.known.first_step[[first, second, third, other]].tolist() == [0, K, 2 * K, 0]
    assert timeline.known.begin.tolist() == [0.0, np.inf, np.inf, 0.0]
    timeline.receive(first, 3, 2.0)
    assert timeline.known.begin.tolist() == [0.0, 2.0, np.inf, 0.0]
    last = timeline.begin(0, 2.0)
    assert timeline.known.first_step[last] == 3 + 2 * K
