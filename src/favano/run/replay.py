"""A federation again, in the simulator: the same contacts, the same steps, the same model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.torch import load_file

from favano.aggregation import Aggregator, Link
from favano.aggregation.link import Messages
from favano.data import BatchStream, deal
from favano.engine import PlainLoop
from favano.errors import need
from favano.methods import AnyMethod, State
from favano.methods.method import Expected
from favano.methods.robust import Robust
from favano.methods.server_optimiser import ServerOptimiser
from favano.methods.weights import measured
from favano.methods.world import federation
from favano.quantisation import Codec, quantised
from favano.records import read_file
from favano.records.federation import FEDERATION, INITIAL, TRACE, federation_from_json
from favano.records.folder import MODEL, SPEC
from favano.run.assembly import codec_of
from favano.run.samples import initial_module, load_samples, named_model
from favano.schedule.contact_trace import ContactTrace, load_trace
from favano.specification.config import read_config
from favano.specification.presets import resolve
from favano.specification.spec import Spec, given, make_spec, steps_of
from favano.training import FlatModel, LocalRule, LoopTrainer, Task, check_fit
from favano.types import Buffers, Ints, Vector


@dataclass(frozen=True)
class Divergence:
    """How far a federation's model is from the one that the simulator makes of its trace."""

    largest: float  # difference of two numbers
    numbers: int  # that differ
    equal: bool  # to the bit


def replay(
    trace: ContactTrace,
    method: AnyMethod,  # bound as in the federation
    trainer: LoopTrainer,  # of all clients' data
    initial: Vector,
    *,
    server: ServerOptimiser | None = None,
    robust: Robust | None = None,
    link: Link | None = None,
    buffers: Buffers = "average",
) -> Vector:
    """The model that the simulator makes of a trace."""

    def expected(jobs: Ints) -> Expected:
        return Expected(trace.positive[jobs], trace.mean[jobs])

    rule, layout = trainer.rule, trainer.model.layout
    aggregator: Aggregator[State] = Aggregator(
        method,
        trace.schedule,
        layout,
        trace.rate,
        initial,
        kept=rule.optimiser.kept,
        server=server,
        robust=robust,
        link=link,
        buffers=buffers,
        expected=expected,
    )
    *_, last = PlainLoop(aggregator, trainer).moments()
    return last.server


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
        lived=Messages(trace.message.astype(np.int64), whole),
    )


def divergence(lived: Vector, simulated: Vector) -> Divergence:
    """Compare two models."""
    one, two = (model.detach().cpu().numpy() for model in (lived, simulated))
    same = one.dtype == two.dtype and one.tobytes() == two.tobytes()
    distance = np.abs(one.astype(np.float64) - two)
    return Divergence(float(distance.max(initial=0.0)), int((one != two).sum()), same)


def replay_folder(folder: Path, data_dir: Path | None = None) -> Divergence:
    """Replay what `favano serve` left in a folder, and compare the models."""
    for name in (SPEC, FEDERATION, TRACE, INITIAL, MODEL):
        rule = f"lacks {name}; need the folder of a federation that has ended"
        need((folder / name).is_file(), "trace", folder, rule)
    spec, trace = read_spec(folder / SPEC), load_trace(folder / TRACE)
    record = read_file(folder / FEDERATION, federation_from_json)
    method = measured(spec.method).bind(
        federation(
            given(spec.fleet.clients),
            local_steps=steps_of(spec),
            selected=given(spec.clock.selected),
            tick=record.tick,
            deadline=spec.clock.deadline,
            step_seconds=record.step_seconds,
        )
    )
    trainer = _trainer(spec, trace, method, data_dir)
    initial, final = (_model(trainer.model, folder / name) for name in (INITIAL, MODEL))
    by_server = spec.server
    again = replay(
        trace,
        method,
        trainer,
        initial,
        server=by_server.optimiser,
        robust=by_server.distrust,
        link=link_of(trace, codec_of(spec), trainer.model, spec.run.seed),
        buffers=spec.run.buffers,
    )
    return divergence(final, again)


def read_spec(path: Path) -> Spec:
    """The complete specification in a file."""
    found = read_config(path)
    return resolve(make_spec({**found.shared, **(found.methods[0] if found.methods else {})}))


def _trainer(
    spec: Spec, trace: ContactTrace, method: AnyMethod, data_dir: Path | None
) -> LoopTrainer:
    """Trains the jobs of all clients, each on the part of the data that it said it has."""
    samples, seed, clients = load_samples(spec, data_dir), spec.run.seed, given(spec.fleet.clients)
    parts = deal(samples.traits, clients, given(spec.problem.split), seed)
    known = trace.partitions[np.unique(trace.schedule.client)]
    rule = f"need a part of the data, 0..{clients - 1}, from every client"
    need(bool(((known >= 0) & (known < clients)).all()), "trace", known.tolist(), rule)
    held = [parts[max(0, number)] for number in trace.partitions.tolist()]
    size, order = given(spec.problem.batch_size), spec.problem.batch_order
    batches = BatchStream(held, size, seed, np.arange(clients), order)
    task = Task(samples.features, samples.labels, batches, samples.loss, samples.preprocessing)
    network = initial_module(named_model(spec, samples), seed)
    flat = FlatModel(quantised(network, spec.training.recipe), device="cpu")
    check_fit(flat, task, samples.classes)
    rule_of_steps = LocalRule(
        proximal=spec.training.proximal or 0.0,
        corrected=method.corrects,
        memory=method.memory,
        step=method.step if method.memory else None,
        optimiser=spec.training.local_optimiser,
    )
    return LoopTrainer(flat, task, rule_of_steps)


def _model(flat: FlatModel, path: Path) -> Vector:
    """A flat model from a file."""
    flat.module.load_state_dict(load_file(path))
    return flat.snapshot()
