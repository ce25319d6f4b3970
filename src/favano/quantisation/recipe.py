"""Options of low-precision training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from favano.errors import require

Gradients: TypeAlias = Literal["neural", "weights", "none"]
ClippedGradients: TypeAlias = Literal["pass", "mask"]
QuantisedLayers: TypeAlias = Literal["inner", "all"]
EvaluateWith: TypeAlias = Literal["quantised", "full"]
GridName: TypeAlias = Literal["sawb", "released"]

LEVELS: Final = (7, 8)  # magnitudes besides zero; 8 of them with sign and zero are 17 values
BITS: Final = (2, 3, 4)  # SAWB has constants for these
FULL: Final = 32  # full precision


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Training with LUQ; the defaults are those of the paper's FAVANO[QNN] where it gives them.

    Args:
        weight_bits: of weights in both passes: 2, 3, 4, or 32 for full precision.
        activation_bits: of a layer's inputs: 2, 3, 4 or 32.
        quantised_gradients: `neural`: those of a layer's outputs, used in both products of the
            backward pass (LUQ; the paper's appendix); `weights`: only those of the weights, before
            the step (a remark of the paper); `none`.
        gradient_levels: magnitudes besides zero.
        gradient_samples: draws that are averaged for the gradient of weights, "smp" in LUQ.
        quantised_layers: `inner` leaves out the first convolution and the last linear layer.
        quantiser_grid: `sawb`, or `released`, that of LUQ's public code (`sawb.py`).
        clipped_gradients: gradient of a value that was clipped in the forward pass: unchanged
            (`pass`), or zero (`mask`).
        evaluate_with: whether models are scored in low or in full precision.
    """

    weight_bits: int = 3
    activation_bits: int = 3
    quantised_gradients: Gradients = "neural"
    gradient_levels: int = 7
    gradient_samples: int = 1
    quantised_layers: QuantisedLayers = "inner"
    quantiser_grid: GridName = "sawb"
    clipped_gradients: ClippedGradients = "pass"
    evaluate_with: EvaluateWith = "quantised"

    def __post_init__(self) -> None:
        known = (*BITS, FULL)
        for name in ("weight_bits", "activation_bits"):
            bits = getattr(self, name)
            require(bits in known, name, bits, f"need one of {', '.join(map(str, known))}")
        levels, samples = self.gradient_levels, self.gradient_samples
        require(
            levels in LEVELS, "gradient_levels", levels, f"need {' or '.join(map(str, LEVELS))}"
        )
        require(samples >= 1, "gradient_samples", samples, "need 1 or more")
        drawn = self.quantised_gradients != "none"
        rule = "requires quantised gradients"
        require(drawn or levels == LEVELS[0], "gradient_levels", levels, rule)
        require(drawn or samples == 1, "gradient_samples", samples, rule)

    @property
    def changes_nothing(self) -> bool:
        """Whether everything has full precision."""
        full = self.weight_bits == self.activation_bits == FULL
        return full and self.quantised_gradients == "none"
