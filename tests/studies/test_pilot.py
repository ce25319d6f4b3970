"""The pilot measures constants along a short run, with intervals."""

from __future__ import annotations

import pytest

from favano.run.constants import Point
from favano.run.samples import load_samples, named_model
from favano.specification.presets import resolve
from favano.specification.spec import changed
from favano.studies.pilot import estimate, estimates, pilot
from tests.specs import spec_of

SPEC = spec_of(clients=10, selected=3, local_steps=4, horizon=210)


def point(smoothness: float, typical: float, noise: float, differ: float, loss: float) -> Point:
    return Point(
        loss=loss,
        gradient=1.0,
        dissimilarity=differ,
        noise=noise,
        noise_typical=noise / 2,
        noise_error=0.1,
        smoothness=smoothness,
        smoothness_typical=typical,
    )


def test_intervals_by_hand() -> None:
    known = estimates([point(4.0, 2.0, 1.0, 0.5, 3.0), point(2.0, 2.0, 3.0, 2.0, 1.0)])
    assert (known.smoothness.low, known.smoothness.value, known.smoothness.high) == (2, 4, 8)
    assert (known.noise.low, known.noise.value) == (1.0, 3.0)
    assert known.noise.high == pytest.approx(3.2)
    assert (known.dissimilarity.low, known.dissimilarity.high) == (0.5, 8.0)
    assert known.gap.value == 3.0
    assert known.problem.growth == 1.0


def test_a_pilot_on_digits() -> None:
    full = resolve(SPEC)
    samples = load_samples(full)
    known = pilot(full, samples, named_model(full, samples))
    assert known == estimate(SPEC)
    assert 0.1 < known.smoothness.value < 100
    assert 0 < known.noise.low <= known.noise.value
    assert known.dissimilarity.value > 0.5  # two classes a client
    assert known.gap.value == pytest.approx(2.3, abs=0.2)  # log 10, untrained
    alike = pilot(changed(full, {"split": "iid"}), samples, named_model(full, samples))
    assert alike.dissimilarity.value < 0.7 * known.dissimilarity.value


def test_a_run_without_an_update_is_measured_at_its_start() -> None:
    known = estimate(changed(SPEC, {"horizon": 5.0}))
    assert known.dissimilarity.low == known.dissimilarity.value
