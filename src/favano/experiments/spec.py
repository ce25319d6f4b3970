"""The specification of a run: everything that defines it, and nothing else."""

from __future__ import annotations

from difflib import get_close_matches
from fractions import Fraction
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from favano.algorithms import CATALOGUE, BufferMode, DelayRule, Reweight, parse_staleness
from favano.data.batches import Order as BatchOrder
from favano.data.partition import check_split
from favano.engine import Buffers, NonFinite
from favano.errors import BadInput, need
from favano.schedule import Interruption, Latency, RoundTime, StepCount
from favano.timing import Order, Rounding
from favano.training import Precision


def _fraction(value: object) -> object:
    """Let `1/9` be written as such."""
    try:
        return float(Fraction(value)) if isinstance(value, str) else value
    except (ValueError, ZeroDivisionError):
        return value


Count = Annotated[int, Field(ge=1)]
Time = Annotated[float, Field(ge=0)]
PositiveTime = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1), BeforeValidator(_fraction)]
Rate = Annotated[float, Field(ge=0)]


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
        description="geometric, exponential, deterministic, lognormal[:SPREAD] or trace:FILE",
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
    deadline: PositiveTime | None = Field(default=None, description="drop clients slower than this")
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
        default=False, description="FedAvg: weight clients by their samples"
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
        default=None, description="FedBuff: drop older updates"
    )
    flush_at_end: bool = Field(default=False, description="FedBuff: apply the last partial buffer")
    assignment: Literal["uniform", "same"] | None = Field(
        default=None, description="AsyncSGD: who gets the next job"
    )
    gradients_per_job: Count = Field(default=1, description="AsyncSGD: local steps per job")
    delays: DelayRule | None = Field(default=None, description="AsyncSGD: weight of late gradients")
    latency: Latency = Field(
        default="client", description="AsyncSGD: who pays the interaction time"
    )

    normalise: bool = Field(default=False, description="MNIST: subtract 0.1307, divide by 0.3081")
    holdout: Annotated[int, Field(ge=0)] = Field(
        default=0, description="test on this many training images instead of the test set"
    )
    seeds: Count = Field(default=1, description="how many seeds")
    seed: Annotated[int, Field(ge=0)] = Field(default=0, description="the first seed")
    evaluate_every: PositiveTime | None = Field(
        default=None, description="simulated time between rows"
    )
    variance: Literal["start", "live"] = Field(
        default="start", description="which client models the variance speaks of"
    )
    buffers: Buffers = Field(
        default="average", description="BatchNorm statistics: averaged, or local to each client"
    )
    non_finite: NonFinite = Field(default="stop", description="what to do about NaN in an update")
    device: str = Field(default="cpu", description="cpu, cuda or cuda:N")
    precision: Precision = Field(
        default="tf32", description="products of a GPU in training: tf32 or float32"
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
        return self


def make_spec(values: dict[str, object]) -> Spec:
    """A specification from a configuration file or flags; bad values are refused by name.

    >>> make_spec({"clients": 10, "selected": 30})
    Traceback (most recent call last):
    favano.errors.BadInput: selected=30: need 1..clients (10)
    """
    try:
        return Spec.model_validate(values)
    except ValidationError as error:
        raise _sentence(error) from None


def _sentence(error: ValidationError) -> BadInput:
    """The first complaint as one sentence with name, value and rule."""
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, BadInput):
        return cause
    name = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        close = get_close_matches(name, Spec.model_fields, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        return BadInput(name, first["input"], f"unknown key; {hint}known: {known_keys()}")
    rule = first["msg"][0].lower() + first["msg"][1:].replace("'", "")
    return BadInput(name, first["input"], rule.replace("input should be", "need"))


def known_keys() -> str:
    """All keys of a configuration, for messages."""
    return ", ".join(Spec.model_fields)


T = TypeVar("T")


def given(value: T | None) -> T:
    """A key of a complete specification, where nothing is open any more."""
    assert value is not None
    return value
