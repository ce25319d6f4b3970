"""The specification of a run: everything that defines it, and nothing else."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from favano.algorithms import (
    CATALOGUE,
    ArrivalWeights,
    BufferMode,
    DelayRule,
    Reweight,
    parse_staleness,
)
from favano.data.batches import Order as BatchOrder
from favano.data.partition import check_split
from favano.errors import need
from favano.experiments import quantising
from favano.experiments.kinds import (
    CodecName,
    Count,
    PositiveShare,
    PositiveTime,
    Rate,
    Share,
    Time,
)
from favano.quantisation.recipe import Recipe
from favano.schedule import AtDeadline, Interruption, Latency, RoundTime, StepCount
from favano.timing import Order, Rounding
from favano.types import Buffers, KernelChoice, NonFinite, Precision


class Spec(BaseModel):
    """One algorithm on one data set, for one or more seeds.

    What is None is filled in by `favano.experiments.presets.resolve` with the paper's constants
    for the data set.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    algorithm: str = Field(default="favano", description=f"one of {', '.join(CATALOGUE)}")
    dataset: str = Field(
        default="digits", description="digits, mnist, cifar10, tiny-imagenet or a folder"
    )
    split: str | None = Field(
        default=None,
        description="iid, two-class, two-class-free, two-class-trim, shards:N or dirichlet:A",
    )
    model: str | None = Field(default=None, description="perceptron, resnet20, resnet18, ...")
    clients: Count | None = Field(default=None, description="number of clients n")
    selected: Count | None = Field(default=None, description="clients contacted per server step s")
    local_steps: Count | None = Field(default=None, description="most local steps per job K")
    local_steps_unit: Literal["steps", "epochs"] = Field(
        default="steps", description="what K counts: steps, or epochs of a client with N/n samples"
    )
    buffer: Count | None = Field(
        default=None, description="updates per flush of FedBuff's buffer Z"
    )

    fast_fraction: Share = Field(default=2 / 3, description="share of fast clients")
    fast_mean: PositiveTime = Field(
        default=2.0, description="mean duration of a fast client's step"
    )
    slow_mean: PositiveTime = Field(
        default=16.0, description="mean duration of a slow client's step"
    )
    step_law: str = Field(
        default="geometric",
        description="geometric, exponential, deterministic, lognormal[:SPREAD], or trace:FILE "
        "(CSV: client,duration; one line per recorded step)",
    )
    speed_rounding: Rounding = Field(default="nearest", description="how many clients are fast")
    speed_order: Order = Field(default="random", description="which clients are slow")
    waiting_time: Time = Field(default=4.0, description="time the server waits between calls V")
    interaction_time: Time = Field(default=3.0, description="time the server takes to talk I")
    interruption: Interruption = Field(
        default="redraw", description="the step under way at a contact"
    )
    starts_at_zero: bool = Field(default=False, description="first contact at time 0")
    idle_in_interaction: bool = Field(
        default=False, description="clients idle while the server talks"
    )
    strict_ties: bool = Field(default=False, description="a step that ends at the contact is lost")
    overrun: bool = Field(
        default=False, description="contacts go on to the first one past the horizon"
    )
    step_count: StepCount = Field(default="durations", description="literal: E itself is geometric")
    round_time: RoundTime = Field(default="sum", description="length of a synchronous round")
    deadline: PositiveTime | None = Field(default=None, description="longest wait for clients")
    at_deadline: AtDeadline = Field(
        default="drop", description="drop late clients, or take the steps they have made"
    )
    drop_last: bool = Field(
        default=False, description="leave out a round that ends past the horizon"
    )

    learning_rate: Rate | None = Field(default=None, description="client step size")
    server_learning_rate: Rate | None = Field(default=None, description="server step size")
    rate_scale: Literal["none", "selected", "buffer"] | None = Field(
        default=None, description="client steps times 1, (s+1)/s or Z/n"
    )
    rate_decay: bool = Field(
        default=False, description="halve steps at 60 % of the time, a fifth at 80 %"
    )
    proximal: Rate | None = Field(
        default=None, description="local steps: pull to the start model, rho (w - w_start)"
    )
    batch_size: Count | None = Field(default=None, description="samples per local step")
    batch_order: BatchOrder = Field(default="epoch", description="how mini-batches are drawn")
    horizon: PositiveTime | None = Field(default=None, description="simulated time")

    reweight: Reweight = Field(default="stochastic", description="how FAVANO divides progress")
    weights: Literal["exact", "empirical", "monte-carlo", "given"] = Field(
        default="exact", description="where P(E > 0) and E[min(E, K)] come from"
    )
    given_weights: tuple[PositiveTime, ...] = Field(
        default=(), description="one weight for all, each speed class (fast first) or each client"
    )
    sample_weights: bool = Field(
        default=False, description="FedAvg, AAFL, FedFix: weight clients by their samples"
    )
    client_averaging: bool = Field(
        default=True, description="QuAFL: clients keep a part of their model"
    )
    server_averaging: bool = Field(
        default=True, description="QuAFL: the server keeps a part of its model"
    )
    dampening: bool = Field(default=False, description="QuAFL: slow down fast clients' steps")
    buffer_mode: BufferMode = Field(
        default="concurrency", description="how FedBuff's clients are run"
    )
    staleness: str = Field(
        default="polynomial:0.5", description="constant, polynomial:A or hinge:A:B"
    )
    concurrency: Count | None = Field(default=None, description="clients at work at a time")
    distinct: bool = Field(
        default=False, description="FedBuff: a buffer holds a client once at most"
    )
    max_staleness: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="FedBuff, FedAsync: drop older updates"
    )
    flush_at_end: bool = Field(default=False, description="FedBuff: apply the last partial buffer")
    assignment: Literal["uniform", "same"] | None = Field(
        default=None, description="AsyncSGD: who gets the next job"
    )
    gradients_per_job: Count = Field(default=1, description="AsyncSGD: local steps per job")
    delays: DelayRule | None = Field(default=None, description="AsyncSGD: weight of late gradients")
    latency: Latency = Field(
        default="client",
        description="AsyncSGD, FedAsync, AsyncFedED: who pays the interaction time",
    )
    mixing: PositiveShare = Field(default=0.6, description="FedAsync: weight of a fresh model")
    halve_mixing_at: Annotated[int, Field(ge=0)] = Field(
        default=800, description="FedAsync: server step that halves the weight; 0: none"
    )
    arrival_fraction: PositiveShare = Field(
        default=0.1, description="AAFL: share of clients a server step waits for"
    )
    arrival_weights: ArrivalWeights = Field(
        default="importance", description="AAFL: keep a part of the server model, or not"
    )
    window: PositiveTime = Field(default=7.0, description="FedFix: time between server steps")
    window_weights: Literal["unbiased", "identical"] = Field(
        default="unbiased", description="FedFix: make up for rare arrivals, or not"
    )
    distance_offset: PositiveTime = Field(
        default=1.0, description="AsyncFedED: epsilon in its server step lambda / (gamma + epsilon)"
    )
    distance_target: float = Field(
        default=3.0, description="AsyncFedED: the gamma at which jobs keep their length"
    )
    distance_gain: Rate = Field(
        default=1.0, description="AsyncFedED: steps a job changes by, for each unit of gamma"
    )
    most_local_steps: Count | None = Field(
        default=None, description="AsyncFedED: longest job, by default 10 K"
    )

    codec: CodecName = Field(default="none", description="how models are compressed on their way")
    codec_bits: Annotated[int, Field(ge=1, le=32)] | None = Field(
        default=None, description="bits a parameter [default: lattice 14, others 8]"
    )
    codec_scale: PositiveTime | None = Field(
        default=None, description="lattice: side of a cell [default: 0.0001]"
    )
    codec_dither: bool = Field(default=False, description="lattice: a random shift, so unbiased")

    quantise: Literal["none", "luq"] = Field(
        default="none", description="training with few bits: luq is FAVANO[QNN]'s, for any method"
    )
    weight_bits: quantising.WeightBits = None
    activation_bits: quantising.ActivationBits = None
    quantised_gradients: quantising.QuantisedGradients = None
    gradient_levels: quantising.GradientLevels = None
    gradient_samples: quantising.GradientSamples = None
    quantised_layers: quantising.LayersQuantised = None
    quantiser_grid: quantising.QuantiserGrid = None
    clipped_gradients: quantising.GradientsClipped = None
    evaluate_with: quantising.EvaluatedWith = None

    normalise: bool = Field(default=False, description="MNIST: subtract 0.1307, divide by 0.3081")
    holdout: Annotated[int, Field(ge=0)] = Field(
        default=0, description="test on this many training images instead of the test set"
    )
    data_fraction: PositiveShare = Field(
        default=1.0, description="share of the training and test images that is used"
    )
    seeds: Count = Field(default=1, description="how many seeds")
    seed: Annotated[int, Field(ge=0)] = Field(default=0, description="the first seed")
    evaluate_every: PositiveTime | None = Field(default=None, description="time between rows")
    variance: Literal["start", "live"] = Field(
        default="start", description="which client models the variance speaks of"
    )
    track_bound: bool = Field(
        default=False,
        description="measure ||grad f(mu)||^2 and the theorem's constants at each evaluation",
    )
    buffers: Buffers = Field(
        default="average", description="BatchNorm statistics: averaged, or local to each client"
    )
    non_finite: NonFinite = Field(default="stop", description="what to do about NaN in an update")
    device: str = Field(default="cpu", description="cpu, cuda or cuda:N")
    precision: Precision = Field(
        default="tf32", description="numbers of a GPU in training: tf32, float32 or bf16"
    )

    kernels: KernelChoice = Field(
        default="auto", description="of a CPU in training; auto: measured once, in longer runs"
    )

    @model_validator(mode="after")
    def _check(self) -> Spec:
        known = ", ".join(CATALOGUE)
        need(self.algorithm in CATALOGUE, "algorithm", self.algorithm, f"need one of {known}")
        if self.split is not None:
            check_split(self.split)
        parse_staleness(self.staleness)
        if self.clients is not None:
            rule = f"need 1..clients ({self.clients})"
            for name in ("selected", "concurrency"):
                value = getattr(self, name)
                need(value is None or value <= self.clients, name, value, rule)
        given = bool(self.given_weights)
        rule = "goes with given_weights, one for all, each speed class or each client"
        need((self.weights == "given") == given, "weights", self.weights, rule)
        for_cpu = self.kernels == "auto" or self.device == "cpu"
        need(for_cpu, "kernels", self.kernels, f"need auto with device={self.device}")
        self._check_codec()
        self._check_quantise()
        return self

    def _check_codec(self) -> None:
        bits, scale, dither = self.codec_bits, self.codec_scale, self.codec_dither
        foreseen = self.codec == "none" or self.algorithm != "asyncfeded"
        need(foreseen, "codec", self.codec, "need none with asyncfeded, whose schedule grows")
        need(bits is None or self.codec != "none", "codec_bits", bits, "goes with a codec")
        lattice = self.codec == "lattice"
        need(scale is None or lattice, "codec_scale", scale, "goes with codec=lattice")
        need(not dither or lattice, "codec_dither", dither, "goes with codec=lattice")
        rule = "need 2..32 for codec=qsgd, one of them is the sign"
        need(bits != 1 or self.codec != "qsgd", "codec_bits", bits, rule)

    @property
    def recipe(self) -> Recipe | None:
        """How training is quantised; None if it is not."""
        keys = ((name, getattr(self, name)) for name in Recipe.__dataclass_fields__)
        given = {name: value for name, value in keys if value is not None}
        return Recipe(**given) if self.quantise == "luq" else None

    def _check_quantise(self) -> None:
        if self.recipe is None:
            for name in Recipe.__dataclass_fields__:
                value = getattr(self, name)
                need(value is None, name, value, "goes with quantise=luq")
            return
        rule = "need quantise=none, for the theorem speaks of gradients in full precision"
        need(not self.track_bound, "track_bound", self.track_bound, rule)
        rule = "need tf32 or float32 with quantise=luq"
        need(self.precision != "bf16", "precision", self.precision, rule)


def steps_of(spec: Spec) -> int:
    """K in steps; refused where it is counted in epochs, whose length only the data tell."""
    rule = "needs the data; without them, give local_steps in steps"
    need(spec.local_steps_unit == "steps", "local_steps_unit", spec.local_steps_unit, rule)
    return given(spec.local_steps)


T = TypeVar("T")


def given(value: T | None) -> T:
    """A key of a complete specification, where nothing is open any more."""
    assert value is not None
    return value
