"""No option is silently ignored: another value changes the result, or is refused by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal, get_args, get_origin

import numpy as np
import pytest

import favano
from favano.errors import BadInput
from favano.methods import method_class, our_methods
from favano.options import Option, options_of
from favano.planning.planned import plan_seed
from favano.run.job_cost import job_cost
from favano.run.runner import run
from favano.run.samples import Samples, load_samples, named_model
from favano.specification.parts import ProblemPart, RunPart
from favano.specification.presets import resolve
from favano.specification.spec import Spec, make_spec, part_options

BASE: Mapping[str, object] = {
    "split": "iid",
    "data_fraction": 0.06,
    "clients": 7,
    "fast_mean": 1.5,
    "slow_mean": 9.0,
    "batch_size": 5,
    "local_steps": 3,
    "selected": 2,
    "buffer": 3,
    "learning_rate": 0.1,
    "horizon": 64.0,
    "evaluate_every": 11.0,
    "engine": "loop",
}

# Values that a type does not tell, or that show only where something happens.
OTHERS: Mapping[str, object] = {
    "selection": "least-recent",
    "dataset": "no-such-folder",
    "split": "shards:2",
    "model": "transformer",
    "holdout": 20,
    "step_law": "exponential",
    "mean": (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0),
    "fleet": "phones",
    "flops_per_second": 1e6,
    "group": ("share=0.5 mean=2", "share=0.5 mean=5"),
    "availability": "daily:0.5:3:20",
    "link": "0.05:0.05:1",
    "server_link": "0.01:0.01",
    "faults": "no-such-file",
    "server": (favano.clip(0.001),),
    "warm_up": 9.0,
    "rate_schedule": "linear",
    "weight_bits": 2,
    "activation_bits": 2,
    "gradient_levels": 8,
    "robust": "median",
    "device": "nowhere",
    "staleness": "constant",
    "max_staleness": 0,
    "halve_mixing_at": 2,
    "given_weights": (0.5,),
    "clip": 0.01,
    "fast_fraction": 0.2,
}

# What an option requires, so that it is tried where it is accepted.
CONTEXT: Mapping[str, Mapping[str, object]] = {
    "flops_per_score": {"fleet": "phones"},
    "when_away": {"availability": "daily:0.5:3:20"},
    "timeout": {"availability": "daily:0.5:3:20"},
    "server_link": {"link": "0.05:0.05:1"},
    "server_optimiser_rate": {"server_optimiser": "adam"},
    "server_momentum": {"server_optimiser": "adam"},
    "server_epsilon": {"server_optimiser": "adam"},
    "server_beta2": {"server_optimiser": "adam"},
    "beta2": {"optimiser": "adam"},
    "epsilon": {"optimiser": "adam"},
    "nesterov": {"momentum": 0.9},
    "optimiser_state": {"momentum": 0.9},
    "rate_length": {"rate_schedule": "linear"},
    "rate_over": {"rate_schedule": "linear", "rate_length": 9.0},
    "weight_bits": {"quantise": "luq"},
    "activation_bits": {"quantise": "luq"},
    "quantised_gradients": {"quantise": "luq"},
    "gradient_levels": {"quantise": "luq"},
    "gradient_samples": {"quantise": "luq"},
    "quantised_layers": {"quantise": "luq"},
    "quantiser_grid": {"quantise": "luq"},
    "clipped_gradients": {"quantise": "luq"},
    "evaluate_with": {"quantise": "luq"},
    "codec_bits": {"codec": "lattice"},
    "codec_scale": {"codec": "lattice"},
    "codec_dither": {"codec": "lattice"},
    "at_deadline": {"deadline": 4.0},
    "given_weights": {"weights": "given", "given_weights": (0.3,)},
    "non_finite": {"learning_rate": 1e30},
    "interruption": {"selected": 6, "fast_mean": 6.0},
    "delays": {"interaction_time": 0.0, "slow_mean": 30.0},
    "buffers": {"model": "resnet20", "clients": 2, "selected": 1, "horizon": 8.0},
}

# Options that are not tried, or only in their context.
SAME: Mapping[str, str] = {
    "non_finite": "shows only where a client update has NaN",
    "interruption": "shows only where contacts interrupt steps",
    "delays": "shows only where a gradient is older than the jobs under way",
    "engine": "lanes and loop compute the same numbers (tests/run/test_engines.py)",
    "kernels": "kernels compute the same mathematics; the last bits may differ",
    "precision": "a CPU computes with float32 anyway, which is what is asked for",
}


def keys_of(method: str) -> Iterator[Option[Any]]:
    """All options that a run of a method can be given."""
    yield from (option for _, option in part_options().values())
    yield from options_of(method_class(method)).values()


def others(option: Option[Any], value: object) -> list[object]:
    """Other values of an option."""
    if option.name in OTHERS:
        return [OTHERS[option.name]]
    if isinstance(value, bool):
        return [not value]
    kinds = [option.kind, *get_args(option.kind)]
    if choices := [
        choice for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)
    ]:
        return [choice for choice in choices if choice != value]
    if option.values == "N":
        return [1 if value is None else int(str(value)) + 1]
    number = float(str(value or 0.4))
    return [number * (0.5 if 0.5 < number <= 1.0 else 1.5)]


@cache
def samples_of(problem: ProblemPart, device: str) -> Samples:
    return load_samples(resolve(Spec(problem=problem, run=RunPart(device=device))))


@cache
def outcome(keys: tuple[tuple[str, object], ...]) -> bytes | str:
    """All that a run writes, or the sentence of its refusal."""
    try:
        spec = resolve(make_spec(dict(keys)))
        samples = samples_of(spec.problem, spec.run.device)
        model = named_model(spec, samples)
        result, cost = run(spec, samples, model, workers=1), job_cost(spec, samples, model)
    except BadInput as refusal:
        return str(refusal)
    plan = plan_seed(spec, spec.run.seed, samples.traits, cost)
    return repr(
        (
            result.status,
            {
                key: repr(value.tolist() if isinstance(value, np.ndarray) else value)
                for key, value in vars(plan.schedule).items()
            },
            [row._replace(digest="") for row in result.rows],
            [
                (name, tensor.numpy().tobytes())
                for model in result.models.values()
                for name, tensor in model.items()
            ],
            [(run.mean_model, run.refused_updates, run.decoding_failures) for run in result.runs],
            result.bounds,
            result.audit,
            result.client_scores,
        )
    ).encode()


def asked(method: str, more: Mapping[str, object]) -> dict[str, object] | None:
    """The small run of a method, without what it refuses of it; None if it refuses `more`."""
    keys = {"algorithm": method, **BASE, **more}
    while isinstance(refusal := outcome(tuple(keys.items())), str):
        name = refusal.partition("=")[0]
        if name in more or name not in keys:
            return None
        del keys[name]
    return keys


def silent(method: str, option: Option[Any]) -> list[str]:
    """Other values of an option that change nothing and are not refused, with their context."""
    unchanged = []
    contexts: list[Mapping[str, object]] = [{}] if option.name not in SAME else []
    contexts += [CONTEXT[option.name]] if option.name in CONTEXT else []
    for context in contexts:
        keys = asked(method, context)
        if keys is None:
            continue
        before, now = outcome(tuple(keys.items())), resolve(make_spec(keys)).keys[option.name]
        for value in others(option, now):
            after = outcome(tuple({**keys, option.name: value}.items()))
            if after == before:
                unchanged.append(f"{method}: {option.name}={value} with {dict(context)}")
    return unchanged


@pytest.mark.quick("quafl")
@pytest.mark.parametrize("method", ["favano", "quafl", "fedbuff", "asyncsgd"])
def test_no_option_of_a_method_is_ignored(method: str) -> None:
    own = options_of(method_class(method)).values()
    assert [line for option in own for line in silent(method, option)] == []


@pytest.mark.slow
@pytest.mark.parametrize("method", our_methods())
def test_no_option_of_a_run_is_ignored(method: str) -> None:
    assert [line for option in keys_of(method) for line in silent(method, option)] == []
