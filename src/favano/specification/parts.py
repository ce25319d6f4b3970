"""The parts of a specification besides the method: problem, fleet, local training and run.

What is None is filled in with the constants of the data set (`presets`), or by the method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from favano.data.batches import Order as BatchOrder
from favano.data.catalogue import NAMES
from favano.data.partition import check_split
from favano.errors import require
from favano.methods import AnyMethod
from favano.methods.accumulation import Accumulation
from favano.options import (
    LIMIT,
    Count,
    Options,
    PositiveTime,
    PositiveUnitInterval,
    Rate,
    Seeds,
    Time,
    Whole,
    option,
)
from favano.quantisation.recipe import (
    ClippedGradients,
    EvaluateWith,
    Gradients,
    GridName,
    QuantisedLayers,
    Recipe,
)
from favano.specification.fleet_part import Fleet as Fleet
from favano.specification.fleet_part import listed
from favano.training.local_rule import LocalRule
from favano.training.optimisers import USUAL, Optimiser, OptimiserName, OptimiserState
from favano.training.rate_schedule import RateOver, RateRule, parse_rates, rate_factors
from favano.types import Buffers, Floats, Ints, KernelChoice, NonFinite, Precision

BY_DATA_SET = "by data set"
_RECIPE = Recipe()


def _one_or_each(given: object) -> object:
    """A number for all clients, or a list; a list of one word is a number on a command line."""
    if isinstance(given, list) and len(given) == 1 and isinstance(given[0], str):
        return given[0]
    return listed(given)


EachCount = Annotated[Sequence[Count], Field(min_length=1), AfterValidator(tuple)]


def _checked_split(text: str) -> str:
    check_split(text)
    return text


class ProblemPart(Options):
    """What is learnt: data and their split over the clients, network, batches."""

    dataset: str = option("digits", f"{', '.join(NAMES)} or a folder")
    split: Annotated[str, AfterValidator(_checked_split)] | None = option(
        None,
        "iid, two-class (2 labels each), shards:N, dirichlet:ALPHA, column:NAME or file:PATH",
        otherwise=BY_DATA_SET,
    )
    model: str | None = option(
        None,
        "perceptron, resnet20, resnet18, leaf-cnn, leaf-lstm, transformer, ...",
        otherwise=BY_DATA_SET,
    )
    batch_size: Count | None = option(None, "samples per local step", otherwise=BY_DATA_SET)
    batch_order: BatchOrder = option(
        "epoch",
        "shuffled per epoch, across epochs (continuous), or with replacement",
    )
    normalise: bool = option(False, "scale images to mean 0 and standard deviation 1")
    holdout: Whole = option(0, "hold out N training samples, and test on these")
    data_fraction: PositiveUnitInterval = option(1.0, "fraction of the training samples to use")


class TrainingPart(Options):
    """How clients learn: learning rate, number of steps, optimiser, low precision."""

    learning_rate: Rate | None = option(
        None, "client learning rate", otherwise=BY_DATA_SET, symbol="eta"
    )
    local_steps: Annotated[Count | EachCount, BeforeValidator(_one_or_each)] | None = option(
        None,
        "local steps per client update, at most: of all clients, or of each",
        otherwise=BY_DATA_SET,
        symbol="K",
    )
    local_epochs: Count | None = option(
        None, "instead of local steps: passes over each client's own samples"
    )
    rate_decay: bool = option(False, "half the rate from 60 % of the time, a tenth from 80 %")
    rate_schedule: RateRule = option(
        "constant",
        "constant, linear[:LAST_FACTOR], cosine[:LAST_FACTOR], or "
        "steps:FACTOR:FRACTION[:FRACTION...]",
    )
    rate_over: RateOver = option("time", "schedule by time, or by each client's own steps")
    rate_length: PositiveTime | None = option(
        None, "time or steps until the end of the schedule", otherwise="horizon"
    )
    warm_up: Time = option(
        0.0, "time or steps t in which the rate grows: times (t + 1) / (WARM_UP + 1)"
    )
    optimiser: OptimiserName = option("sgd", "client optimiser")
    momentum: Annotated[float, Field(ge=0, lt=1)] | None = option(
        None, "running mean of gradients", otherwise="sgd 0, adam 0.9", symbol="beta_1"
    )
    nesterov: bool = option(False, "sgd: look ahead along the momentum")
    beta2: Annotated[float, Field(ge=0, lt=1)] | None = option(
        None, "adam: running mean of squares", otherwise="0.999", symbol="beta_2"
    )
    epsilon: PositiveTime | None = option(None, "adam: added to the root", otherwise="1e-8")
    weight_decay: Rate | None = option(
        None, "L2; with adamw beside the gradient", otherwise="0, adamw 0.01"
    )
    clip: PositiveTime | None = option(None, "largest norm of a client's gradient")
    optimiser_state: OptimiserState = option(
        "fresh", "momentum and adam: begun anew in each job, or kept by the client"
    )
    proximal: Rate | None = option(
        None,
        "FedProx coefficient",
        otherwise="0, or the method's",
        symbol="mu",
    )
    quantise: Literal["none", "luq"] = option("none", "low-precision training; luq: 3 to 4 bits")
    weight_bits: int | None = option(
        None, "luq: bits of weights; 2, 3, 4 or 32", otherwise=str(_RECIPE.weight_bits)
    )
    activation_bits: int | None = option(
        None, "luq: bits of layers' inputs; 2, 3, 4 or 32", otherwise=str(_RECIPE.activation_bits)
    )
    quantised_gradients: Gradients | None = option(
        None,
        "luq: gradients of layers' outputs, or of weights",
        otherwise=_RECIPE.quantised_gradients,
    )
    gradient_levels: int | None = option(
        None, "luq: magnitudes beside zero; 7 or 8", otherwise=str(_RECIPE.gradient_levels)
    )
    gradient_samples: Count | None = option(
        None,
        "luq: draws averaged for gradients of weights",
        otherwise=str(_RECIPE.gradient_samples),
    )
    quantised_layers: QuantisedLayers | None = option(
        None,
        "luq: inner: not the first convolution, nor the last linear layer",
        otherwise=_RECIPE.quantised_layers,
    )
    quantiser_grid: GridName | None = option(
        None,
        "luq: levels as published, or as in its public code",
        otherwise=_RECIPE.quantiser_grid,
    )
    clipped_gradients: ClippedGradients | None = option(
        None, "luq: gradients of values that were clipped", otherwise=_RECIPE.clipped_gradients
    )
    evaluate_with: EvaluateWith | None = option(
        None, "luq: numbers that models are scored with", otherwise=_RECIPE.evaluate_with
    )

    def check(self) -> None:
        """Keys of an optimiser, of a schedule and of low-precision training require it."""
        both = self.local_steps is not None and self.local_epochs is not None
        rule = f"is another length of jobs than local_steps={self.local_steps}; remove one of them"
        require(not both, "local_epochs", self.local_epochs, rule)
        self._check_optimiser()
        self._check_schedule()
        if self.recipe is None:
            for name in Recipe.__dataclass_fields__:
                value = getattr(self, name)
                require(value is None, name, value, "requires quantise=luq")

    def _check_optimiser(self) -> None:
        adam = self.optimiser != "sgd"
        for name in ("beta2", "epsilon"):
            value = getattr(self, name)
            require(adam or value is None, name, value, "requires optimiser=adam or adamw")
        steady = not adam and bool(self.momentum)
        rule = "requires optimiser=sgd and a momentum"
        require(not self.nesterov or steady, "nesterov", self.nesterov, rule)
        fresh = self.optimiser_state == "fresh"
        rule = "requires a momentum, optimiser=adam or adamw; plain SGD has no state"
        require(fresh or adam or steady, "optimiser_state", self.optimiser_state, rule)

    def _check_schedule(self) -> None:
        steady, length, over = self.rate_schedule == "constant", self.rate_length, self.rate_over
        rule = "requires a rate_schedule"
        require(not steady or length is None, "rate_length", length, rule)
        rule = "requires a rate_schedule or a warm_up"
        require(over == "time" or not steady or self.warm_up > 0, "rate_over", over, rule)
        rule = "need rate_length, the number of a client's steps until the end of the schedule"
        require(over == "time" or steady or length is not None, "rate_over", over, rule)
        rule = "is a schedule of its own; leave out rate_schedule"
        require(steady or not self.rate_decay, "rate_decay", self.rate_decay, rule)

    @property
    def local_optimiser(self) -> Optimiser:
        """The client optimiser; numbers that are not given are the usual ones."""
        usual = USUAL[self.optimiser]
        return replace(
            usual,
            momentum=usual.momentum if self.momentum is None else self.momentum,
            nesterov=self.nesterov,
            beta2=usual.beta2 if self.beta2 is None else self.beta2,
            epsilon=usual.epsilon if self.epsilon is None else self.epsilon,
            weight_decay=usual.weight_decay if self.weight_decay is None else self.weight_decay,
            clip=self.clip,
            state=self.optimiser_state,
        )

    def local_rule(self, method: AnyMethod | None, *, corrected: bool) -> LocalRule:
        """The direction of a client's steps.

        Args:
            method: its clients may keep vectors of their own; None: they keep none.
            corrected: whether jobs come with a correction of their gradients.
        """
        memory = 0 if method is None else method.memory
        step = None if method is None or not memory else method.local_step
        return LocalRule(self.proximal or 0.0, corrected, memory, step, self.local_optimiser)

    @property
    def accumulation(self) -> Accumulation:
        """How the gradients of a job add up."""
        optimiser = self.local_optimiser
        heavy = optimiser.name == "sgd" and not optimiser.kept
        momentum = optimiser.momentum if heavy else 0.0
        return Accumulation(self.proximal or 0.0, momentum, bool(momentum) and self.nesterov)

    def rate_factors(self, time: Floats, first_step: Ints, horizon: float) -> Floats:
        """What the schedule makes of the rate of jobs that begin then, after so many own steps."""
        place = time if self.rate_over == "time" else first_step.astype(float)
        rule, length = parse_rates(self.rate_schedule), self.rate_length or horizon
        return rate_factors(rule, place, length, self.warm_up)

    @property
    def recipe(self) -> Recipe | None:
        """How training is quantised; None if it is not."""
        keys = ((name, getattr(self, name)) for name in Recipe.__dataclass_fields__)
        given = {name: value for name, value in keys if value is not None}
        return Recipe(**given) if self.quantise == "luq" else None


class RunPart(Options):
    """How long, how often and where: time, seeds, device, evaluation, codec on the link."""

    horizon: PositiveTime | None = option(
        None, "simulated time at which the run ends", otherwise=BY_DATA_SET
    )
    seeds: Seeds = option(1, "number of seeds")
    seed: Whole = option(0, "first seed")
    evaluate_every: PositiveTime | None = option(
        None, "simulated time between evaluations", otherwise=BY_DATA_SET
    )
    evaluate_on: Literal["test", "clients", "both"] = option(
        "test", "the test set, each client's samples, or both"
    )
    variance: Literal["start", "live"] = option(
        "start", "variance of client models: as they start, or train"
    )
    keep: Literal["last", "best"] = option(
        "last", "final model: the last, or the best by the leading metric on held-out samples"
    )
    track_bound: bool = option(False, "record ||grad f||^2 and the paper's bound on it")
    buffers: Buffers = option("average", "BatchNorm statistics: averaged, or per client")
    non_finite: NonFinite = option("stop", "client updates with NaN: stop, or drop them")
    codec: Literal["none", "lattice", "min-max", "qsgd"] = option(
        "none", "messages: lattice (QuAFL's), min-max (uniform) or qsgd"
    )
    codec_bits: Annotated[int, Field(ge=1, le=32)] | None = option(
        None, "bits per parameter", otherwise="lattice 14, others 8"
    )
    codec_scale: PositiveTime | None = option(None, "lattice: side of a cell", otherwise="0.0001")
    codec_dither: bool = option(False, "lattice: a random shift, so unbiased")
    device: str = option("cpu", "cpu, cuda or cuda:N")
    engine: Literal["lanes", "loop"] = option(
        "lanes", "lanes: many clients at once; loop: one by one, slow"
    )
    precision: Precision = option("tf32", "matmul precision on the GPU")
    kernels: KernelChoice = option(
        "auto", "auto (measured in longer runs), onednn, native (PyTorch's own) or channels-last"
    )

    def check(self) -> None:
        """All seeds are below the limit; keys of a codec go with it, and kernels with a CPU."""
        most = LIMIT - self.seeds
        rule = f"need at most {most} with seeds={self.seeds}, since seeds are below 2^63"
        require(self.seed <= most, "seed", self.seed, rule)
        for_cpu = self.kernels == "auto" or self.device == "cpu"
        require(for_cpu, "kernels", self.kernels, f"need auto with device={self.device}")
        bits, scale, dither = self.codec_bits, self.codec_scale, self.codec_dither
        require(bits is None or self.codec != "none", "codec_bits", bits, "requires a codec")
        lattice = self.codec == "lattice"
        require(scale is None or lattice, "codec_scale", scale, "requires codec=lattice")
        require(not dither or lattice, "codec_dither", dither, "requires codec=lattice")
        rule = "need 2..32 for codec=qsgd, one of them is the sign"
        require(bits != 1 or self.codec != "qsgd", "codec_bits", bits, rule)
