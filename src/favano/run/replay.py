"""A federation again, in the simulator: the same contacts, the same steps, the same model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from favano.aggregation import Aggregator, ClientMemory, Link, PerUpdate, ServerChain
from favano.aggregation.link import Messages
from favano.data import BatchStream, partition
from favano.engine import PlainLoop
from favano.errors import BadInput, require
from favano.methods import AnyMethod, State
from favano.methods.context import federation
from favano.methods.method import Expected
from favano.methods.weights import measured
from favano.planning.planned import federation_steps
from favano.preflight.task import check_task
from favano.quantisation import Codec, quantised
from favano.records import read_file
from favano.records.federation import FEDERATION, INITIAL, TRACE, federation_from_json
from favano.records.folder import MODEL, SPEC
from favano.run.assembly import codec_of
from favano.run.data import load_data
from favano.run.samples import initial_module, load_samples, named_model
from favano.schedule.contact_trace import ContactTrace, load_trace
from favano.specification.config import read_config
from favano.specification.presets import resolve
from favano.specification.spec import Spec, make_spec, required
from favano.training import FlatModel, LoopTrainer, Task, Work
from favano.transforms import AnyTransform
from favano.types import Buffers, Ints, Stack, Vector
from favano.user_classes import only_trusted

Places: TypeAlias = Mapping[tuple[int, int], int]


@dataclass(frozen=True)
class Divergence:
    """How far a federation's model is from the one that the simulator makes of its trace."""

    largest: float  # difference of two numbers
    numbers: int  # that differ
    equal: bool  # to the bit


@dataclass(frozen=True)
class ShareTrainer:
    """Trains each job on the part of the data that its client had then.

    A place in a federation may be taken by one node after the other.
    """

    trainer: LoopTrainer  # of as many clients as there are pairs of a client and a part
    places: Places  # of such pairs, by client and first step of a job

    def train(self, start: Stack, work: Work) -> Stack:
        """End models of the jobs."""
        jobs = zip(work.client.tolist(), work.first_step.tolist(), strict=True)
        places = np.array([self.places[job] for job in jobs], dtype=np.int64)
        return self.trainer.train(start, replace(work, client=places))


def replay(
    trace: ContactTrace,
    method: AnyMethod,  # bound as in the federation
    trainer: LoopTrainer,  # of all clients' data
    initial: Vector,
    *,
    places: Places | None = None,
    server: Sequence[AnyTransform] = (),
    link: Link | None = None,
    buffers: Buffers = "average",
) -> Iterator[Vector]:
    """The models that the simulator makes of a trace: the initial one, then one per update."""

    def expected(jobs: Ints) -> Expected:
        return Expected(trace.positive[jobs], trace.mean[jobs])

    def scales(jobs: Ints) -> PerUpdate:
        return PerUpdate(trace.scale[jobs], trace.buffer_scale[jobs])

    rule, layout = trainer.rule, trainer.model.layout
    aggregator: Aggregator[State] = Aggregator(
        method,
        trace.schedule,
        layout,
        trace.rate,
        initial,
        memory=ClientMemory(method, layout, kept=rule.optimiser.kept, buffers=buffers),
        server=ServerChain(method, server),
        link=link,
        expected=expected,
        scales=scales,
    )
    by_share = trainer if places is None else ShareTrainer(trainer, places)
    return (event.server for event in PlainLoop(aggregator, by_share).events())


def link_of(trace: ContactTrace, codec: Codec | None, model: FlatModel, seed: int) -> Link | None:
    """The link over which the models of a trace went."""
    if codec is None:
        return None
    schedule, whole = trace.schedule, trace.whole > 0
    return Link(
        codec,
        model.parameter_sizes,
        schedule,
        seed=seed,
        streams=np.arange(schedule.clients),
        timeline=Messages(trace.message.astype(np.int64), whole),
    )


def divergence(timeline: Vector, simulated: Vector) -> Divergence:
    """Compare two models."""
    first, two = (model.detach().cpu().numpy() for model in (timeline, simulated))
    same = first.dtype == two.dtype and first.tobytes() == two.tobytes()
    distance = np.abs(first.astype(np.float64) - two)
    return Divergence(float(distance.max(initial=0.0)), int((first != two).sum()), same)


def replay_folder(
    folder: Path, data_dir: Path | None = None, trust: Iterable[Path | str] = ()
) -> Divergence:
    """Replay what `favano serve` left in a folder, and compare the final models.

    A Python file of its method is executed only if it is one of those in `trust`.
    """
    final, models = replayed(folder, data_dir, trust)
    *_, last = models
    return divergence(final, last)


def replayed(
    folder: Path, data_dir: Path | None = None, trust: Iterable[Path | str] = ()
) -> tuple[Vector, Iterator[Vector]]:
    """The final model that `favano serve` left in a folder, and the models of the replay."""
    for name in (SPEC, FEDERATION, TRACE, INITIAL, MODEL):
        rule = f"lacks {name}; need the folder of a federation that has ended"
        require((folder / name).is_file(), "trace", folder, rule)
    with only_trusted(trust):
        spec = read_spec(folder / SPEC)
    trace = load_trace(folder / TRACE)
    epochs = spec.training.local_epochs is not None
    steps = federation_steps(spec, load_data(spec.problem, data_dir).traits if epochs else None)
    record = read_file(folder / FEDERATION, federation_from_json)
    method = measured(spec.method).bind(
        federation(
            required(spec.fleet.clients),
            local_steps=steps,
            selected=required(spec.clock.selected),
            selection=spec.clock.selection,
            tick=record.tick,
            deadline=spec.clock.deadline,
            step_seconds=record.step_seconds,
            accumulation=spec.training.accumulation,
            policy=spec.policy,
        )
    )
    for name, timeline, said in (
        ("clients", trace.schedule.clients, required(spec.fleet.clients)),
        ("local_steps", trace.schedule.local_steps, method.policy().most_steps),
    ):
        same = np.array_equal(timeline, said)
        require(same, "trace", folder / TRACE, f"has {name}={timeline}, {SPEC} {said}")
    trainer, places = _trainer(spec, trace, method, data_dir)
    initial, final = (_model(trainer.model, folder / name) for name in (INITIAL, MODEL))
    if spec.run.buffers == "local":  # the file has estimates of what the server never knows
        first = trainer.model.layout.parameters
        final = torch.cat([final[:first], initial[first:]])
    rule = "meant another rule before 0.3, on progress without its weight; it is not repeated"
    require(spec.server.robust == "none" or not trace.old, "robust", spec.server.robust, rule)
    models = replay(
        trace,
        method,
        trainer,
        initial,
        places=places,
        server=spec.server.chain,
        link=link_of(trace, codec_of(spec), trainer.model, spec.run.seed),
        buffers=spec.run.buffers,
    )
    return final, models


def read_spec(path: Path) -> Spec:
    """The complete specification in a file."""
    return resolve(make_spec(read_config(path).first))


def _trainer(
    spec: Spec, trace: ContactTrace, method: AnyMethod, data_dir: Path | None
) -> tuple[LoopTrainer, Places]:
    """Trains the jobs of all clients, each on the part of the data that it said it has."""
    samples, seed, clients = (
        load_samples(spec, data_dir),
        spec.run.seed,
        required(spec.fleet.clients),
    )
    parts = partition(samples.traits, clients, required(spec.problem.split), seed)
    shares, places = shares_of(trace)
    for client, number in shares.tolist():
        rule = f"client {client} said that it has this part of the data; need 0..{clients - 1}"
        require(0 <= number < clients, "trace", number, rule)
    held = [parts[number] for number in shares[:, 1].tolist()]
    size, order = required(spec.problem.batch_size), spec.problem.batch_order
    batches = BatchStream(held, size, seed, shares[:, 0], order)
    task = Task(samples.features, samples.labels, batches, samples.loss, samples.preprocessing)
    network = initial_module(named_model(spec, samples), seed)
    flat = FlatModel(quantised(network, spec.training.recipe), device="cpu")
    check_task(flat, task, samples.classes)
    local_rule = spec.training.local_rule(method, corrected=method.corrects)
    return LoopTrainer(flat, task, local_rule), places


def shares_of(trace: ContactTrace) -> tuple[Ints, Places]:
    """All pairs of a client and a part of the data, (k, 2), and where in it the jobs are."""
    schedule = trace.schedule
    used = schedule.used_by < len(schedule.time)
    columns = [schedule.client[used], trace.partition[used].astype(np.int64)]
    shares, place = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    jobs = zip(schedule.client[used].tolist(), schedule.first_step[used].tolist(), strict=True)
    return shares, dict(zip(jobs, place.ravel().tolist(), strict=True))


def _model(flat: FlatModel, path: Path) -> Vector:
    """A flat model from a file."""
    try:
        flat.module.load_state_dict(load_file(path))
    except (RuntimeError, SafetensorError) as error:
        rule = "does not hold a model of the network in the specification"
        raise BadInput("trace", path, rule) from error
    return flat.snapshot()
