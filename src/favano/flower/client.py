"""The client: it trains a model on its own data when it is called, and replies.

It makes the steps that the simulator's trainer would make for the same job: the same mini-batches
in the same order, the same optimiser, the same draws. A step is begun only if it will probably end
in time, so that a reply is not late; a step that is begun is finished.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import torch
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

from favano.data import BatchStream, Preprocessing
from favano.errors import BadInput, require
from favano.flower.flat_arrays import check_order
from favano.flower.limits import Limits
from favano.flower.local_training import LocalTraining, from_json
from favano.flower.memory import NodeMemory, NoStore, Remembered, StateStore, Store
from favano.flower.payload import Shape, draws, dtype_of, pack, read_codec, shape_of, unpack
from favano.flower.signed_calls import check_operator
from favano.flower.stopwatch import TrainingStopwatch
from favano.flower.wire import Call, Reply, read_call, reply_message
from favano.metrics.evaluation import Evaluator
from favano.metrics.metric import Metric, as_metrics
from favano.preflight.task import check_task
from favano.quantisation import Codec, quantised
from favano.run.own_data import read_source
from favano.run.samples import check_device
from favano.run.targets import as_targets
from favano.training import FlatModel, Job, LoopTrainer, Loss, Task
from favano.training.loop import mean_loss
from favano.types import Stack, Vector

if TYPE_CHECKING:
    from favano.metrics.metric import Function
    from favano.run.problem import Source

Model: TypeAlias = nn.Module | Callable[[], nn.Module]
Data: TypeAlias = "Source | DataLoader[Any]"


class _Prepared(NamedTuple):
    """A network and data that are ready for the calls of one run."""

    trainer: LoopTrainer
    shape: Shape


class _Trained(NamedTuple):
    """What a job ended with."""

    model: Vector
    steps: int
    seconds: float
    loss: float | None  # mean of its steps, if asked for and finite


class Client:
    """A network and data of one client, which stay loaded between calls.

    Args:
        model: your network, or a function that makes it; its weights come with each call.
        data: a pair (samples, targets) of tensors or arrays, a data set, or a loader, of which
            only the data set is used: the server says how batches are made.
        loss: as in `favano.Problem`; cross entropy by default.
        metrics: functions of outputs and targets by name: every reply has their values on the
            client's own data, and the loss; None: it has none, which saves the time.
        device: cpu, cuda or cuda:N.
        store: where optimisers and methods with a memory keep it; by default they begin anew
            when the process does.
        pace: seconds that a step takes at least, for trials with clients of different speeds.
        preprocessing: of raw images, batch by batch, as for the named data sets.
        notes: numbers that every reply carries among its metrics.
        limits: what a server may ask for.
    """

    def __init__(
        self,
        model: Model,
        data: Data,
        *,
        loss: Loss | None = None,
        metrics: Mapping[str, Metric | Function] | None = None,
        device: str = "cpu",
        store: Store | None = None,
        pace: float = 0.0,
        preprocessing: Preprocessing | None = None,
        notes: Mapping[str, float] | None = None,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        require(pace >= 0, "pace", pace, "need a number >= 0")
        self._model, self._loss = model, loss or functional.cross_entropy
        self._metrics = None if metrics is None else as_metrics(metrics)
        self._device = check_device(device)
        self._inputs, self._targets, self._classes = _samples(data, loss)
        self._store = store or NoStore()
        self._memory = NodeMemory.from_bytes(self._store.read())
        self._preprocessing, self._notes = preprocessing, notes or {}
        self._limits = limits or Limits()
        self._pace, self._clock, self._sleep = pace, clock, sleep
        self._prepared: tuple[object, _Prepared] | None = None
        self._step_seconds = 0.0  # of the last steps

    def answer(self, message: Message, began: float | None = None) -> Message:
        """Train as a message asks, and reply; the time to train begins now, or began then."""
        return reply_message(self.reply(read_call(message), began), message)

    def reply(self, call: Call, began: float | None = None) -> Reply:
        """Train as a call asks."""
        began = self._clock() if began is None else began
        local = from_json(call.training)
        call = replace(call, steps=local.job_steps(call.steps, len(self._inputs)))
        self._limits.check(call, local, len(self._inputs))
        trainer, shape = self._ready(call, local)
        least = self._limits.least_steps(call, trainer.task.batches)
        codec = read_codec(call.codec)
        start = self._start_model(call, shape, codec)
        end, steps, seconds, loss = self._train(call, trainer, start, began, least)
        return Reply(
            run=call.run,
            client=call.client,
            job=call.job,
            version=call.version,
            steps=steps,
            seconds=seconds,
            samples=len(self._inputs),
            model=pack(end, shape, codec, known=start, noise=_noise(call, shape, codec)),
            metrics={**self._notes, **self._measured(trainer, end)},
            loss=loss,
        )

    def _train(
        self, call: Call, trainer: LoopTrainer, start: Vector, began: float, least: int
    ) -> _Trained:
        """Make the steps of a call, and keep what later calls need."""
        before = self._before(call, start, trainer.width - len(start))
        made = before.steps if trainer.rule.optimiser.kept else 0
        job = Job(0, 0, call.first_step, call.steps, call.rate, made)
        until = None if call.seconds is None else began + call.seconds
        watch = TrainingStopwatch(
            until, self._step_seconds, self._pace, self._clock, self._sleep, least=least
        )
        given = torch.cat([start, before.vectors]).to(self._device)
        losses, correction = list[Tensor]() if call.loss else None, self._correction(call, trainer)
        end = trainer.run(given, job, correction, watch.more, losses).cpu()
        seconds = watch.stop()
        self._step_seconds = watch.step_seconds
        model, vectors = end[: len(start)], end[len(start) :]
        if call.codec != "none" or len(vectors):
            new = Remembered(start, vectors.clone(), before.steps + watch.steps)
            self._memory = self._memory.with_job(call.run, call.job, new, call.after)
            self._store.write(self._memory.to_bytes())
        loss = mean_loss(losses or ())
        return _Trained(model, watch.steps, seconds, loss if isfinite(loss) else None)

    def _correction(self, call: Call, trainer: LoopTrainer) -> Vector | None:
        if call.correction is None:
            return None
        return unpack(call.correction, shape_of(trainer.model).trained).to(self._device)

    def _ready(self, call: Call, local: LocalTraining) -> _Prepared:
        """Network and data for this call; those of the last one if they fit."""
        key = (call.training, call.seed, call.client, call.dtype, call.correction is None)
        if self._prepared is None or self._prepared[0] != key:
            self._prepared = key, self._prepare(call, local)
        return self._prepared[1]

    def _prepare(self, call: Call, local: LocalTraining) -> _Prepared:
        dtype, inputs = dtype_of(call.dtype), self._inputs.to(self._device)
        fits = not inputs.is_floating_point() or inputs.dtype == dtype
        require(fits, "data", inputs.dtype, f"need inputs of {dtype}, as the server's model")
        module = self._model if isinstance(self._model, nn.Module) else self._model()
        network = quantised(module, local.training.recipe)
        flat = FlatModel(network, self._loss, device=self._device, dtype=dtype)
        own, unknown = flat.objective.loss_parameters, "which the server does not know"
        advice = f"has parameters of its own, {unknown}; put them in the network"
        require(not own, "loss", type(self._loss).__name__, advice)
        everything, stream = [np.arange(len(inputs))], np.array([call.client])
        batches = BatchStream(everything, local.batch_size, call.seed, stream, local.batch_order)
        targets = self._targets.to(self._device)
        task = Task(inputs, targets, batches, flat.loss, self._preprocessing)
        check_task(flat, task, self._classes if self._loss is functional.cross_entropy else 0)
        check_order(flat)
        rule = local.rule(corrected=call.correction is not None)
        return _Prepared(LoopTrainer(flat, task, rule), shape_of(flat))

    def _start_model(self, call: Call, shape: Shape, codec: Codec | None) -> Vector:
        if call.key < 0:
            return unpack(call.model, shape)
        known = self._memory.start(call.run, call.key)
        if known is None:
            rule = "is of a model that this client does not remember; it needs one in full"
            raise BadInput("key", call.key, rule)
        if not call.model:  # the same model again
            return known.clone()
        return unpack(call.model, shape, codec, key=known, known=known)

    def _before(self, call: Call, start: Vector, size: int) -> Remembered:
        """What the client goes on with: its memory after the job that was used last, or zeros."""
        known = self._memory.of(call.run, call.after)
        if known is None or len(known.vectors) != size:
            return Remembered(start, start.new_zeros(size), 0)
        return known

    def _measured(self, trainer: LoopTrainer, model: Vector) -> dict[str, float]:
        """Loss and metrics on the client's own data, if asked for."""
        if self._metrics is None:
            return {}
        flat, task = trainer.model, trainer.task
        inputs, targets = task.samples(np.arange(len(task.labels)), flat.vector.dtype)
        judge = Evaluator(flat, inputs, targets, task.loss, metrics=self._metrics)
        values = judge.measure(model.to(self._device)).tolist()
        return dict(zip(("loss", *self._metrics), values, strict=True))


def client_app(
    model: Model,
    data: Data | Callable[[Context], Data],
    *,
    loss: Loss | None = None,
    metrics: Mapping[str, Metric | Function] | None = None,
    device: str = "cpu",
) -> ClientApp:
    """A ClientApp that trains when it is called.

        app = favano.flower.client_app(Net, lambda context: my_data(context.node_config))

    Arguments are those of `Client`; `data` may be a function of Flower's context. What a client
    keeps from job to job is in the context. Some keys of a SuperNode's configuration are used here:
    replies carry `partition-id`, `pace` is the least time of a step, and `operator`, `calls` and
    those of `Limits` say which calls are answered.
    """
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        config = context.node_config
        check_operator(message, context)
        part = config.get("partition-id")
        client = Client(
            model,
            data(context) if callable(data) else data,
            loss=loss,
            metrics=metrics,
            device=device,
            store=StateStore(context.state),
            pace=float(config.get("pace", 0.0)),
            notes={"partition": part} if isinstance(part, int) else None,
            limits=Limits.from_words(config),
        )
        return client.answer(message)

    return app


def _noise(call: Call, shape: Shape, codec: Codec | None) -> Stack | None:
    """The draws of the reply's codec."""
    if codec is None:
        return None
    place = {"seed": call.seed, "stream": call.client, "message": call.message}
    return draws(codec, shape.parameters, **place)


class _Samples(NamedTuple):
    inputs: Tensor
    targets: Tensor
    classes: int


def _samples(data: Data, loss: Loss | None) -> _Samples:
    """The client's samples."""
    inputs, given = read_source("data", data.dataset if isinstance(data, DataLoader) else data)
    targets, _, classes = as_targets(given, given, inputs.dtype, loss)
    return _Samples(inputs, targets, classes)
