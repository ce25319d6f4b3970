"""Energy and carbon of a computation, by the formula of green-algorithms.org.

    energy = time x (power of the processor + power of the memory) x PUE
    carbon = energy x carbon intensity of the electricity

Lannelongue, Grealey, Inouye, "Green Algorithms: Quantifying the Carbon Footprint of Computation",
Advanced Science 8 (2021), which the paper's appendix uses. An estimate from constants: nothing is
measured but the time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from favano.errors import need

WATTS_A_CORE: Final = 12.0  # of a processor whose model is not known
WATTS_A_GIGABYTE: Final = 0.3725
PUE: Final = 1.67  # what a data centre draws for one watt of computing, world average
GRAMS_A_KWH: Final = 475.0  # CO2 equivalent, world average

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
    """What a second of this machine costs.

    >>> one = Footprint("a board", watts=250.0, gigabytes=64.0)
    >>> round(one.energy_wh(3600.0), 2), round(one.co2_grams(3600.0), 2)
    (457.31, 217.22)
    """

    hardware: str
    watts: float  # of the processor or board that does the work
    gigabytes: float  # of memory in the machine: it draws power whether it is used or not
    pue: float = PUE
    grams_a_kwh: float = GRAMS_A_KWH

    def __post_init__(self) -> None:
        need(self.watts > 0, "watts", self.watts, "need a number > 0")
        need(self.pue >= 1, "pue", self.pue, "need 1 or more")
        need(self.grams_a_kwh >= 0, "carbon_intensity", self.grams_a_kwh, "need 0 or more")

    def energy_wh(self, seconds: float) -> float:
        """Watt hours of so many seconds."""
        return seconds / 3600 * (self.watts + WATTS_A_GIGABYTE * self.gigabytes) * self.pue

    def co2_grams(self, seconds: float) -> float:
        """Grams of CO2 equivalent of so many seconds."""
        return self.energy_wh(seconds) / 1000 * self.grams_a_kwh

    @property
    def words(self) -> str:
        """The constants behind the numbers."""
        return (
            f"{self.hardware}: {self.watts:g} W and {self.gigabytes:.0f} GB of memory at "
            f"{WATTS_A_GIGABYTE} W/GB, PUE {self.pue:g}, {self.grams_a_kwh:g} g CO2e/kWh"
        )


def machine(device: str, *, watts: float | None, pue: float, grams_a_kwh: float) -> Footprint:
    """This machine, with its power at full load unless `watts` says otherwise."""
    import torch

    from favano.run.samples import check_device
    from favano.training import processor, usable_cores

    cores = usable_cores()
    on = check_device(device)
    board = torch.cuda.get_device_name(on) if on.type == "cuda" else None
    if board is not None:
        known = next((load for name, load in _BOARDS.items() if name in board), _OTHER_BOARD)
    else:
        known = WATTS_A_CORE * cores
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return Footprint(
        hardware=board or f"{processor()}, {cores} cores",
        watts=known if watts is None else watts,
        gigabytes=memory,
        pue=pue,
        grams_a_kwh=grams_a_kwh,
    )
