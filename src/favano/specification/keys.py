"""The keys that the functions of `favano` take by name: the flags of `favano run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from favano.policies.registry import APolicy
from favano.policies.selection_names import ASelection
from favano.transforms import ATransform


class Keys(TypedDict, total=False):
    """Each means what it means on the command line; `favano run --help-all` says more."""

    policy: APolicy  # whom the server asks and when, instead of the method's own policy
    reading: str | Sequence[str]  # of the paper, by name (docs/reference/readings.md)
    # problem, where it is given by its name
    split: str
    batch_size: int
    batch_order: Literal["epoch", "continuous", "replacement"]
    normalise: bool
    holdout: int
    data_fraction: float
    # fleet, where none is given, or where it is a word
    clients: int
    mean: Sequence[float]
    fast_fraction: float
    fast_mean: float
    slow_mean: float
    step_law: str
    speed_rounding: Literal["nearest", "ceil-slow"]
    speed_order: Literal["random", "slow-first"]
    flops_per_second: float | Sequence[float]
    flops_per_score: float
    availability: str
    when_away: Literal["lost", "paused", "later"]
    link: str
    server_link: str
    timeout: float
    faults: str
    joules_per_step: float | Sequence[float]
    watts: float | Sequence[float]
    joules_per_byte: float | Sequence[float]
    group: Sequence[Mapping[str, object]]
    # clock
    selected: int
    selection: ASelection
    waiting_time: float
    interaction_time: float
    interruption: Literal["redraw", "resume", "keep"]
    starts_at_zero: bool
    idle_in_interaction: bool
    strict_ties: bool
    overrun: bool
    step_count: Literal["durations", "literal", "literal-zero"]
    round_time: Literal["sum", "one-draw", "mean"]
    deadline: float
    at_deadline: Literal["drop", "take"]
    drop_last: bool
    # server
    server: Sequence[ATransform]
    server_optimiser: Literal["none", "momentum", "adagrad", "adam", "yogi"]
    server_optimiser_rate: float
    server_momentum: float
    server_epsilon: float
    server_beta2: float
    robust: str
    # local training
    learning_rate: float
    local_steps: int | Sequence[int]
    local_epochs: int
    rate_decay: bool
    rate_schedule: str
    rate_over: Literal["time", "steps"]
    rate_length: float
    warm_up: float
    optimiser: Literal["sgd", "adam", "adamw"]
    momentum: float
    nesterov: bool
    beta2: float
    epsilon: float
    weight_decay: float
    clip: float
    optimiser_state: Literal["fresh", "kept"]
    proximal: float
    quantise: Literal["none", "luq"]
    weight_bits: int
    activation_bits: int
    quantised_gradients: Literal["neural", "weights", "none"]
    gradient_levels: int
    gradient_samples: int
    quantised_layers: Literal["inner", "all"]
    quantiser_grid: Literal["sawb", "released"]
    clipped_gradients: Literal["pass", "mask"]
    evaluate_with: Literal["quantised", "full"]
    # run
    horizon: float
    seeds: int
    seed: int
    evaluate_every: float
    evaluate_on: Literal["test", "clients", "both"]
    variance: Literal["start", "live"]
    keep: Literal["last", "best"]
    track_bound: bool
    buffers: Literal["average", "local"]
    non_finite: Literal["stop", "skip"]
    codec: Literal["none", "lattice", "min-max", "qsgd"]
    codec_bits: int
    codec_scale: float
    codec_dither: bool
    device: str
    engine: Literal["lanes", "loop"]
    precision: Literal["tf32", "float32", "bf16"]
    kernels: Literal["auto", "onednn", "native", "channels-last"]
    # methods, where they are given by their names
    reweight: Literal["stochastic", "deterministic", "none"]
    weights: Literal["exact", "empirical", "monte-carlo", "given", "measured"]
    given_weights: Sequence[float]
    rate_scale: Literal["none", "selected", "buffer"]
    sample_weights: bool
    server_learning_rate: float
    client_averaging: bool
    server_averaging: bool
    dampening: bool
    buffer: int
    buffer_mode: Literal["concurrency", "block", "code", "reset", "check-ins"]
    staleness: str
    concurrency: int
    check_in_rate: float
    check_ins: Literal["constant", "poisson"]
    distinct: bool
    max_staleness: int
    flush_at_end: bool
    assignment: Literal["uniform", "same"]
    gradients_per_job: int
    delays: Literal["none", "scale", "drop"]
    latency: Literal["client", "server", "none"]
    mixing: float
    halve_mixing_at: int
    staleness_from_one: bool
    arrival_fraction: float
    arrival_weights: Literal["importance", "mean"]
    window: float
    window_weights: Literal["unbiased", "identical"]
    distance_offset: float
    distance_target: float
    distance_gain: float
    most_local_steps: int
    memory_decay: float
    delay_logarithm: Literal["natural", "decimal", "none"]
