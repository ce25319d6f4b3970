"""Energy and carbon by hand."""

from __future__ import annotations

import pytest

from favano.errors import BadInput
from favano.studies.footprint import Footprint, check_constants, machine


def test_energy_and_carbon_by_hand() -> None:
    """Half an hour at 200 W and 40 GB: 0.5 (200 + 14.9) 1.5 = 161.175 Wh; at 400 g/kWh 64.47 g."""
    footprint = Footprint("a board", watts=200.0, gigabytes=40.0, pue=1.5, grams_per_kwh=400.0)
    assert footprint.energy_wh(1800) == pytest.approx(161.175)
    assert footprint.co2_grams(1800) == pytest.approx(64.47)
    assert footprint.energy_wh(0) == 0


def test_this_machine_draws_twelve_watts_a_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("favano.forked_calls.usable_cores", lambda: 3)
    here = machine("cpu", watts=None, pue=1.67, grams_per_kwh=475.0)
    assert here.watts == 36
    assert here.gigabytes > 0.1
    assert "3 cores" in here.hardware
    assert "PUE 1.67, 475 g CO2e/kWh" in here.words
    assert machine("cpu", watts=65.0, pue=1.0, grams_per_kwh=0.0).watts == 65


@pytest.mark.parametrize(
    ("watts", "pue", "carbon", "message"),
    [
        (0.0, 1.67, 475.0, "watts=0.0: need a number > 0"),
        (10.0, 0.9, 475.0, "pue=0.9: need 1 or more"),
        (10.0, 1.0, -1.0, "carbon_intensity=-1.0: need 0 or more"),
    ],
)
def test_impossible_constants(watts: float, pue: float, carbon: float, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        machine("cpu", watts=watts, pue=pue, grams_per_kwh=carbon)
    with pytest.raises(BadInput, match=message):
        check_constants(watts, pue, carbon)
