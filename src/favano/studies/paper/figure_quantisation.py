"""Figure: FAVANO on CIFAR-10 for several s, in 32 bits and with quantised training."""

from __future__ import annotations

from collections.abc import Mapping

from favano.studies.experiment import Experiment, Run, seeded
from favano.studies.paper.methods import HEADINGS, MOSTLY_FAST, OVER_TIME, SETTINGS

_SELECTED = (5, 10, 20, 50)  # the paper varies s and does not say over which values
_WIDTHS: Mapping[str, Mapping[str, object]] = {"32 bits": {}, "QNN": {"quantise": "luq"}}


def figure_quantisation(seeds: int) -> list[Run]:
    """FAVANO for each s and width; FAVANO[QNN] is FAVANO with `quantise=luq` and its defaults."""
    found = []
    for selected in _SELECTED:
        for width, keys in _WIDTHS.items():
            shared = {"dataset": "cifar10", "selected": selected, **SETTINGS[MOSTLY_FAST], **keys}
            found += seeded(_line(selected, width), MOSTLY_FAST, shared, range(seeds))
    return found


def _line(selected: int, width: str) -> str:
    return f"s = {selected}, {width}"


FIGURE_QUANTISATION = Experiment(
    name="figure-quantisation",
    title="CIFAR-10, ResNet-20, FAVANO with s clients contacted per step",
    runs=figure_quantisation,
    seeds=3,
    lines={
        name: f"FAVANO, {name}"
        for name in (_line(s, width) for s in _SELECTED for width in _WIDTHS)
    },
    columns={MOSTLY_FAST: HEADINGS[MOSTLY_FAST]},
    figures={"figure": OVER_TIME},
    note=(
        "The paper varies s without saying over which values; these are ours. QNN: 3 bits for "
        "weights and activations (SAWB), 4 for neural gradients (LUQ), in all layers but the first "
        "convolution and the last linear one; scored with quantised weights and activations."
    ),
)
