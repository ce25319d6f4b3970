"""Keys that go with `quantise=luq`; what is None takes the default of `Recipe`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from favano.experiments.kinds import Count
from favano.quantisation import (
    ClippedGradients,
    EvaluateWith,
    Gradients,
    GridName,
    QuantisedLayers,
    Recipe,
)

_DEFAULT = Recipe()


def _described(name: str, what: str) -> object:
    default = getattr(_DEFAULT, name)
    return Field(description=f"luq: {what} [default: {default}]")


WeightBits = Annotated[int | None, _described("weight_bits", "of weights; 2, 3, 4 or 32")]
ActivationBits = Annotated[
    int | None, _described("activation_bits", "of layers' inputs; 2, 3, 4 or 32")
]
QuantisedGradients = Annotated[
    Gradients | None, _described("quantised_gradients", "of layers' outputs, or of weights")
]
GradientLevels = Annotated[
    int | None, _described("gradient_levels", "magnitudes beside zero; 7 or 8")
]
GradientSamples = Annotated[
    Count | None, _described("gradient_samples", "draws averaged for gradients of weights")
]
LayersQuantised = Annotated[
    QuantisedLayers | None,
    _described("quantised_layers", "inner: not the first convolution, nor the last linear layer"),
]
QuantiserGrid = Annotated[
    GridName | None, _described("quantiser_grid", "levels as published, or as in its public code")
]
GradientsClipped = Annotated[
    ClippedGradients | None, _described("clipped_gradients", "of values that were clipped")
]
EvaluatedWith = Annotated[
    EvaluateWith | None, _described("evaluate_with", "numbers that models are scored with")
]
