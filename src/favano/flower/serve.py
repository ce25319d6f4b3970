"""A federation in one command: SuperLink, server loop, status page and result folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import tomli_w
import torch
from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp import Grid
from safetensors.torch import save
from torch import nn

from favano.data import Traits
from favano.flower.local_training import LocalTraining
from favano.flower.partitioning import Partitioning
from favano.flower.payload import codec_text
from favano.flower.private import claimed_run
from favano.flower.rounds import AsyncResult
from favano.flower.status import status_page
from favano.flower.strategy import AsyncStrategy
from favano.flower.superlink import SuperLink, running
from favano.metrics import Evaluator
from favano.planning.planned import federation_steps
from favano.quantisation import quantised
from favano.records.federation import FEDERATION, FederationRecord, federation_to_json
from favano.records.folder import MODEL, SPEC, write_together
from favano.run.assembly import codec_of
from favano.run.data import load_data
from favano.run.samples import Samples, initial_module, load_samples, named_model
from favano.screening import NormGate
from favano.specification.config import spec_tables, stored_keys
from favano.specification.federation_keys import check_keys
from favano.specification.spec import Spec, required
from favano.training import FlatModel
from favano.types import Vector


@dataclass(frozen=True)
class Serving:
    """What a federation has besides a specification.

    Args:
        rounds: updates of the model.
        tick: seconds between two ticks.
        grace: seconds that a tick waits for client updates that are due.
        step_seconds: a guess of the mean duration of a step.
        patience: seconds that a client update may be late before its client is given up.
        evaluate_every: rounds between two evaluations.
        folder: for everything that is written.
        resume: go on with the federation in the folder.
        status_host: address of the status page.
        status_port: its port; 0: any that is free.
        data_dir: with the files of a data set by name.
        influence: no client moves the model further than so many times the median of the others;
            None: as far as it says.
        norm: of a contribution at most, after its weight; None: any.
        norm_quantile: refuse contributions three times as long as this quantile of the last ones.
    """

    rounds: int
    tick: float | None
    folder: Path
    grace: float = 0.0
    step_seconds: float = 1.0
    patience: float = 600.0
    evaluate_every: int = 1
    resume: bool = False
    status_host: str = "127.0.0.1"
    status_port: int = 0
    data_dir: Path | None = None
    influence: float | None = None
    norm: float | None = None
    norm_quantile: float | None = None


def strategy_of(
    spec: Spec,
    serving: Serving,
    say: Callable[[str], None],
    operator: Path | None = None,
    traits: Traits | None = None,
) -> AsyncStrategy:
    """The strategy of a specification; an operator's key signs its calls.

    With local epochs, `traits` of the data say how many steps the longest job has.
    """
    check_keys(spec)
    problem = spec.problem
    return AsyncStrategy(
        spec.method,
        clients=required(spec.fleet.clients),
        selected=required(spec.clock.selected),
        selection=spec.clock.selection,
        local_steps=federation_steps(spec, traits),
        learning_rate=required(spec.training.learning_rate),
        policy=spec.policy,
        local=LocalTraining(required(problem.batch_size), problem.batch_order, spec.training),
        tick=serving.tick,
        deadline=spec.clock.deadline,
        grace=serving.grace,
        seed=spec.run.seed,
        step_seconds=serving.step_seconds,
        server=spec.server.chain,
        codec=codec_text(codec_of(spec)),
        buffers=spec.run.buffers,
        influence=serving.influence,
        norm=NormGate(serving.norm, quantile=serving.norm_quantile),
        deal=Partitioning(
            problem.dataset, required(problem.split), required(spec.fleet.clients), spec.run.seed
        ),
        evaluate_every=serving.evaluate_every,
        folder=serving.folder,
        resume=serving.resume,
        live=True,
        operator=operator,
        say=say,
    )


def serve(spec: Spec, serving: Serving, link: SuperLink, say: Callable[[str], None]) -> AsyncResult:
    """Run a federation from beginning to end, or from where it was."""
    epochs = spec.training.local_epochs is not None
    traits = load_data(spec.problem, serving.data_dir).traits if epochs else None
    strategy = strategy_of(spec, serving, say, link.operator, traits)
    samples = load_samples(spec, serving.data_dir)
    network = initial_module(named_model(spec, samples), spec.run.seed)
    judge = judge_of(spec, samples, network)

    def measure(number: int, arrays: ArrayRecord) -> MetricRecord:
        numbers = judge.measure(_loaded(judge.model, arrays)).tolist()
        metrics = dict(zip(("loss", *samples.metrics), numbers, strict=True))
        words = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        say(f"round {number}: {words}")
        strategy.metrics = metrics
        return MetricRecord(metrics)

    arrays = ArrayRecord(network.state_dict())
    with (
        strategy.alone(arrays),
        running(link, say),
        status_page(serving.status_host, serving.status_port, lambda: strategy.status) as port,
    ):
        write_terms(spec, serving)
        say(f"nodes join at {link.address}")
        say(f"status at http://{serving.status_host}:{port}/")
        if serving.resume:
            link.stop_runs()
        link.submit()
        with _claimed(link) as grid:
            result = strategy.start(
                grid, arrays, serving.rounds, serving.patience, evaluate_fn=measure
            )
        write_scored(serving.folder, judge, result.arrays)
    return result


def judge_of(spec: Spec, samples: Samples, network: nn.Module) -> Evaluator:
    """Scores the models of a federation on the server's test data."""
    return Evaluator(
        FlatModel(quantised(network, spec.training.recipe), device="cpu"),
        samples.test_features,
        samples.test_labels,
        samples.loss,
        samples.calibration() if spec.run.buffers == "local" else None,
        metrics=samples.metrics,
    )


def write_scored(folder: Path, judge: Evaluator, arrays: ArrayRecord) -> None:
    """Write the last model as it was scored: with estimates of statistics that clients keep."""
    state = judge.state_dict(_loaded(judge.model, arrays))
    write_together(folder, {MODEL: save(state)})


def _loaded(flat: FlatModel, arrays: ArrayRecord) -> Vector:
    """The flat model of these arrays."""
    state = {name: torch.from_numpy(array.numpy()) for name, array in arrays.items()}
    flat.module.load_state_dict(state)
    return flat.snapshot()


def write_terms(spec: Spec, serving: Serving) -> None:
    """Write what a replay needs to know, besides the trace and the models."""
    record = FederationRecord(
        serving.rounds, serving.tick, serving.grace, serving.step_seconds, serving.influence
    )
    texts = {
        SPEC: tomli_w.dumps(spec_tables(stored_keys(spec))),
        FEDERATION: federation_to_json(record),
    }
    write_together(serving.folder, texts)


@contextmanager
def _claimed(link: SuperLink) -> Iterator[Grid]:
    """The grid of the run that was submitted."""
    for _ in range(100):
        with claimed_run(link.door) as run:
            if run is not None:
                yield run.grid
                return
        time.sleep(0.1)
    raise RuntimeError("Flower did not hand out the run that was submitted")
