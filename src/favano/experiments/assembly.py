"""A planned run put together: the updates and the local training. All who train use this."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from torch import nn

from favano.algorithms import State
from favano.engine import Link, Replay
from favano.experiments.build import make_course, step_sizes
from favano.experiments.planning import Planned
from favano.experiments.samples import ModelFactory, Samples, initial_module, make_task
from favano.experiments.spec import Spec, given
from favano.quantisation import Codec, Lattice, MinMax, Qsgd
from favano.training import FlatModel, LocalRule, Task, check_fit
from favano.types import Vector


class Assembled(NamedTuple):
    """One seed of one specification, ready to be trained."""

    task: Task
    replay: Replay[State]
    rule: LocalRule


def assemble(
    planned: Planned, samples: Samples, flat: FlatModel, model: nn.Module | ModelFactory
) -> Assembled:
    """Split the data, and put together what the specification asks for.

    Args:
        planned: the run.
        samples: the data.
        flat: the network that trains; its weights are of no matter.
        model: where the initial weights come from.
    """
    spec, algorithm, schedule = planned.spec, planned.algorithm, planned.schedule
    task = make_task(spec, planned.seed, planned.fleet, samples)
    check_fit(flat, task, samples.classes)
    course = make_course(spec, planned.fleet, algorithm, schedule, planned.seed)
    rates = partial(step_sizes, spec, algorithm=algorithm)
    replay: Replay[State] = Replay(
        algorithm,
        course,
        flat.layout,
        rates(schedule) if course.complete else rates,
        _initial_vector(flat, model, planned.seed),
        non_finite=spec.non_finite,
        buffers=spec.buffers,
        link=_link(planned, flat),
    )
    rule = LocalRule(proximal=spec.proximal or 0.0, corrected=replay.corrected)
    return Assembled(task, replay, rule)


def _link(planned: Planned, model: FlatModel) -> Link | None:
    """What compression does to the messages of a run; None without any."""
    spec = planned.spec
    if spec.codec == "none":
        return None
    return Link(
        _codec(spec),
        model.parameter_sizes,
        planned.schedule,
        seed=planned.seed,
        streams=planned.fleet.streams,
        plain=model.layout.buffers if spec.buffers == "average" else 0,
    )


def _codec(spec: Spec) -> Codec:
    bits = given(spec.codec_bits)
    if spec.codec == "lattice":
        return Lattice(bits=bits, scale=given(spec.codec_scale), dither=spec.codec_dither)
    return MinMax(bits=bits) if spec.codec == "min-max" else Qsgd(bits=bits)


def _initial_vector(flat: FlatModel, model: nn.Module | ModelFactory, seed: int) -> Vector:
    module = initial_module(model, seed)
    return FlatModel(module, device=flat.vector.device, dtype=flat.vector.dtype).snapshot()
