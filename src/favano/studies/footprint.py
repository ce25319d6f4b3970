"""Energy and carbon of a computation, by the formula of green-algorithms.org.

    energy = time x (power of the processor + power of the memory) x PUE
    carbon = energy x carbon intensity of the electricity

Lannelongue, Grealey, Inouye, "Green Algorithms: Quantifying the Carbon Footprint of Computation",
Advanced Science 8 (2021), which the paper's appendix uses. An estimate from constants: only the
time is measured.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from favano.errors import require

WATTS_PER_CORE: Final = 12.0  # of a processor whose model is not known
WATTS_PER_GIGABYTE: Final = 0.3725
PUE: Final = 1.67  # watts that a data centre draws per watt of computing, world average
GRAMS_PER_KWH: Final = 475.0  # CO2 equivalent, world average

_BOARDS: Mapping[str, float] = {  # watts at full load, by a part of the name PyTorch reports
    "B200": 1000.0,
    "H200": 700.0,
    "H100": 700.0,
    "A100": 400.0,
    "V100": 300.0,
    "P100": 250.0,
    "L40": 300.0,
    "A10": 150.0,
    "T4": 70.0,
}
_OTHER_BOARD: Final = 300.0


@dataclass(frozen=True)
class Footprint:
    """The power of a machine and the carbon intensity of its electricity.

    >>> one = Footprint("a board", watts=250.0, gigabytes=64.0)
    >>> round(one.energy_wh(3600.0), 2), round(one.co2_grams(3600.0), 2)
    (457.31, 217.22)
    """

    hardware: str
    watts: float  # of the processor or board that does the work
    gigabytes: float  # memory of the machine, which draws power even if it is not used
    pue: float = PUE
    grams_per_kwh: float = GRAMS_PER_KWH

    def __post_init__(self) -> None:
        check_constants(self.watts, self.pue, self.grams_per_kwh)

    def energy_wh(self, seconds: float) -> float:
        """Energy of so many seconds in watt hours."""
        return seconds / 3600 * (self.watts + WATTS_PER_GIGABYTE * self.gigabytes) * self.pue

    def co2_grams(self, seconds: float) -> float:
        """Grams of CO2 equivalent of so many seconds."""
        return self.energy_wh(seconds) / 1000 * self.grams_per_kwh

    @property
    def words(self) -> str:
        """The constants of the estimate in words."""
        return (
            f"{self.hardware}: {self.watts:g} W and {self.gigabytes:.0f} GB of memory at "
            f"{WATTS_PER_GIGABYTE} W/GB, PUE {self.pue:g}, {self.grams_per_kwh:g} g CO2e/kWh"
        )


def check_constants(watts: float | None, pue: float, grams_per_kwh: float) -> None:
    """Refuse impossible constants."""
    require(watts is None or watts > 0, "watts", watts, "need a number > 0")
    require(pue >= 1, "pue", pue, "need 1 or more")
    require(grams_per_kwh >= 0, "carbon_intensity", grams_per_kwh, "need 0 or more")


def machine(device: str, *, watts: float | None, pue: float, grams_per_kwh: float) -> Footprint:
    """This machine; by default with its power at full load."""
    from favano.forked_calls import usable_cores
    from favano.run.run_kernels import hardware
    from favano.run.samples import check_device

    cores, on, name = usable_cores(), check_device(device), hardware(device)
    known = WATTS_PER_CORE * cores
    if on.type == "cpu":
        name = f"{name}, {cores} cores"
    else:
        known = next((load for part, load in _BOARDS.items() if part in name), _OTHER_BOARD)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return Footprint(
        hardware=name,
        watts=known if watts is None else watts,
        gigabytes=memory,
        pue=pue,
        grams_per_kwh=grams_per_kwh,
    )
