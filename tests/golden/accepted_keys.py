"""Which keys each method reads, and what it says of the others.

Each case is a key with a value that is not its default, and with the keys that it needs. A run is
asked for with each of the fifteen methods; where nothing speaks against it, it ends before the
first step is made. What a method says has METHOD for its name, so that methods that say the same
stand together.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

import favano
from tests.golden import schedules
from tests.golden.front_door import folder
from tests.golden.records import Values

TOLERANCE: Final = 0.0
METHODS: Final = (
    *("favano", "favano-delta", "fedavg", "quafl", "fedbuff", "asyncsgd", "asyncsgd-adaptive"),
    *("fedasync", "aafl", "fedfix", "scaffold", "asyncfeded", "fedprox", "fednova", "asofed"),
)
_HORIZON: Final = 60.0
_Keys: TypeAlias = dict[str, Any]

_ADAM: Final = {"optimiser": "adam"}
_LUQ: Final = {"quantise": "luq"}
_CHECK_INS: Final = {"buffer_mode": "check-ins", "check_in_rate": 0.5}
_GROUPS: Final = [{"share": 0.5, "mean": 2.0}, {"share": 0.5, "mean": 5.0}]
_KEYS: Final[dict[str, Any]] = {
    # problem
    "dataset": "digits", "model": "leaf-cnn", "split": "iid", "batch_size": 16,
    "batch_order": "replacement", "normalise": True, "holdout": 100, "data_fraction": 0.5,
    # fleet
    "clients": 8, "mean": [1.0, 2.0, 2.0, 3.0, 5.0, 8.0], "fast_fraction": 0.5, "fast_mean": 3.0,
    "slow_mean": 9.0, "step_law": "exponential", "speed_rounding": "ceil-slow",
    "speed_order": "slow-first", "fleet": "phones", "flops_per_second": 1e6,
    "availability": "two-state:60:20", "link": "10:10", "server_link": "10:10", "timeout": 30.0,
    "faults": "crash.toml", "joules_per_step": 0.1, "watts": 2.0, "joules_per_byte": 1e-6,
    "group": _GROUPS,
    # clock
    "selected": 3, "selection": "least-recent", "waiting_time": 2.0, "interaction_time": 1.0,
    "interruption": "resume", "starts_at_zero": True, "idle_in_interaction": True,
    "strict_ties": True, "overrun": True, "step_count": "literal", "round_time": "mean",
    "deadline": 20.0, "drop_last": True,
    # server
    "server": ["clip:1.0"], "server_optimiser": "adam", "robust": "median",
    # local training
    "learning_rate": 0.1, "local_steps": 3, "local_epochs": 1, "rate_decay": True,
    "rate_schedule": "linear", "warm_up": 5.0, "optimiser": "adam", "momentum": 0.5,
    "weight_decay": 0.01, "clip": 1.0, "proximal": 0.1, "quantise": "luq",
    # run
    "horizon": 50.0, "seeds": 2, "seed": 3, "evaluate_every": 20.0, "evaluate_on": "both",
    "variance": "live", "track_bound": True, "buffers": "local", "non_finite": "skip",
    "codec": "qsgd", "device": "tpu", "engine": "loop", "precision": "bf16", "kernels": "native",
    "label": "mine", "reading": "literal",
    # methods
    "reweight": "deterministic", "weights": "empirical", "sample_weights": True,
    "server_learning_rate": 0.5, "client_averaging": False, "server_averaging": False,
    "dampening": True, "buffer": 3, "buffer_mode": "block", "staleness": "constant",
    "concurrency": 4, "distinct": True, "max_staleness": 2, "flush_at_end": True,
    "assignment": "same", "gradients_per_job": 2, "delays": "drop", "latency": "server",
    "mixing": 0.3, "halve_mixing_at": 5, "staleness_from_one": True, "arrival_fraction": 0.5,
    "arrival_weights": "mean", "window": 9.0, "window_weights": "identical",
    "distance_offset": 2.0, "distance_target": 1.0, "distance_gain": 2.0, "most_local_steps": 30,
    "memory_decay": 0.1, "delay_logarithm": "decimal",
}  # fmt: skip
_WITH_OTHERS: Final[dict[str, _Keys]] = {
    "flops_per_score": {"flops_per_score": 2e7, "fleet": "phones"},
    "when_away": {"when_away": "paused", "availability": "two-state:60:20"},
    "at_deadline": {"at_deadline": "take", "deadline": 20.0},
    "server_optimiser_rate": {"server_optimiser_rate": 0.1, "server_optimiser": "adam"},
    "server_momentum": {"server_momentum": 0.5, "server_optimiser": "momentum"},
    "server_epsilon": {"server_epsilon": 1e-4, "server_optimiser": "adam"},
    "server_beta2": {"server_beta2": 0.9, "server_optimiser": "yogi"},
    "rate_over": {"rate_over": "steps", "rate_length": 50.0, "rate_schedule": "linear"},
    "rate_length": {"rate_length": 50.0, "rate_schedule": "linear"},
    "nesterov": {"nesterov": True, "momentum": 0.5},
    "beta2": {"beta2": 0.9} | _ADAM,
    "epsilon": {"epsilon": 1e-4} | _ADAM,
    "optimiser_state": {"optimiser_state": "kept", "momentum": 0.5},
    "weight_bits": {"weight_bits": 3} | _LUQ,
    "activation_bits": {"activation_bits": 3} | _LUQ,
    "quantised_gradients": {"quantised_gradients": "none"} | _LUQ,
    "gradient_levels": {"gradient_levels": 8} | _LUQ,
    "gradient_samples": {"gradient_samples": 2} | _LUQ,
    "quantised_layers": {"quantised_layers": "all"} | _LUQ,
    "quantiser_grid": {"quantiser_grid": "released"} | _LUQ,
    "clipped_gradients": {"clipped_gradients": "mask"} | _LUQ,
    "evaluate_with": {"evaluate_with": "full"} | _LUQ,
    "keep": {"keep": "best", "holdout": 100},
    "codec_bits": {"codec_bits": 4, "codec": "qsgd"},
    "codec_scale": {"codec_scale": 0.01, "codec": "lattice"},
    "codec_dither": {"codec_dither": True, "codec": "lattice"},
    "given_weights": {"given_weights": [0.9], "weights": "given"},
    "rate_scale by selected": {"rate_scale": "selected"},
    "rate_scale by buffer": {"rate_scale": "buffer"},
    "check_in_rate": _CHECK_INS,
    "check_ins": {"check_ins": "poisson"} | _CHECK_INS,
    **{
        f"policy {name}": {"policy": name} for name in ("polling", "rounds", "buffered", "windowed")
    },
    "grace": {"grace": 2.0, "policy": "polling"},
    "asked": {"asked": "now", "policy": "polling"},
    "wait_for": {"wait_for": 2, "policy": "rounds"},
    "hand_out": {"hand_out": "uniform", "policy": "buffered"},
    "period": {"period": 5.0, "policy": "windowed"},
    "a key that nobody knows": {"bufer": 3},
}
CASES: Final[dict[str, _Keys]] = {key: {key: value} for key, value in _KEYS.items()} | _WITH_OTHERS
QUICK: Final = (
    *("selected", "selection", "deadline", "local_steps", "interruption", "server", "proximal"),
    *("track_bound", "codec", "buffer", "weights", "policy rounds", "latency", "variance"),
)


def record(case: _Keys) -> Values:
    """The methods that read it, and those that refuse it by their sentence."""
    made: dict[str, list[str]] = {}
    with folder(schedules.FILES):
        for method in METHODS:
            said = _said(method, {"horizon": _HORIZON} | case)
            said = re.sub(rf"(?<![\w-]){method}(?![\w.-])", "METHOD", said)
            made.setdefault(said, []).append(method)
    return {said: " ".join(methods) if len(made) > 1 else "all" for said, methods in made.items()}


class _Begun(Exception):
    """All checks are done."""


class _Never:
    """Progress that ends a run before it makes any."""

    def begin(self, steps: int) -> None:
        raise _Begun

    def advance(self, label: str, steps: int, time: float) -> None: ...

    def end(self) -> None: ...


def _said(method: str, keys: _Keys) -> str:
    try:
        favano.simulate(method, progress=_Never(), **keys)
    except _Begun:
        return "read"
    except favano.BadInput as refusal:
        return str(refusal)
    raise AssertionError(f"{method} was run without progress")
