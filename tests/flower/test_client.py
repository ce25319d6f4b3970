"""A client makes the steps that the simulator's trainer makes, ends in time, and remembers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

pytest.importorskip("flwr")

from flwr.app import ArrayRecord, Context, RecordDict
from flwr.clientapp import ClientApp
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

import favano
from favano.data import BatchStream
from favano.errors import BadInput
from favano.flower import Client, client_app
from favano.flower.flat_arrays import flat_arrays
from favano.flower.local_training import LocalTraining, to_json
from favano.flower.memory import FileStore
from favano.flower.payload import codec_text, draws, fingerprint, pack, shape_of, unpack
from favano.flower.wire import Call, call_message, read_call, read_reply
from favano.methods import make_method
from favano.preflight.task import check_fit
from favano.quantisation import Codec, Lattice, MinMax, Qsgd, quantised
from favano.specification.parts import TrainingPart
from favano.training import FlatModel, Job, LoopTrainer, Task
from tests.flower.calls import call, data_of, in_a_task, network, parts, samples, sent


@pytest.fixture(autouse=True)
def _task() -> Iterator[None]:
    with in_a_task():
        yield


class Hand:
    """A clock that is set by hand: reading it takes `tick` seconds, sleeping what it takes."""

    def __init__(self, tick: float = 0.0) -> None:
        self.now, self._tick = 100.0, tick

    def __call__(self) -> float:
        self.now += self._tick
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def flat(local: LocalTraining, dtype: torch.dtype = torch.float32) -> FlatModel:
    return FlatModel(quantised(network(), local.training.recipe), device="cpu", dtype=dtype)


def simulated(local: LocalTraining, dtype: torch.dtype, *, corrected: bool) -> LoopTrainer:
    """The simulator's trainer, with the data of all clients."""
    model, (inputs, targets) = flat(local, dtype), samples(dtype)
    batches = BatchStream(parts(), local.batch_size, 7, order=local.batch_order)
    task = Task(inputs, targets, batches)
    check_fit(model, task, 3)
    return LoopTrainer(model, task, local.rule(corrected=corrected))


@pytest.mark.quick("nesterov-torch.float64", "kept-adamw-torch.float64", "luq-torch.float64")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    "local",
    [
        LocalTraining(4),
        LocalTraining(4, "continuous", TrainingPart(proximal=0.5, clip=0.1)),
        LocalTraining(5, "replacement", TrainingPart(momentum=0.9, nesterov=True)),
        LocalTraining(4, training=TrainingPart(momentum=0.9, optimiser_state="kept")),
        LocalTraining(4, training=TrainingPart(optimiser="adam")),
        LocalTraining(4, training=TrainingPart(optimiser="adamw", optimiser_state="kept")),
        LocalTraining(4, method=make_method("asofed", {})),
        LocalTraining(4, training=TrainingPart(optimiser="adam"), method=make_method("asofed", {})),
        LocalTraining(4, training=TrainingPart(quantise="luq")),
    ],
    ids=[
        "sgd",
        "proximal",
        "nesterov",
        "kept-momentum",
        "adam",
        "kept-adamw",
        "asofed",
        "asofed-adam",
        "luq",
    ],
)
def test_jobs_end_as_in_the_simulator_to_the_bit(local: LocalTraining, dtype: torch.dtype) -> None:
    """Three jobs, one after the other, over the wire; the second has a drift correction."""
    client = Client(network, data_of(1, dtype))
    first_step, model, memory, before = 0, flat(local, dtype).snapshot(), torch.empty(0), 0
    for number, steps in enumerate([6, 1, 9]):
        correction = torch.linspace(-0.1, 0.1, 99, dtype=dtype) if number == 1 else None
        oracle = simulated(local, dtype, corrected=correction is not None)
        shape = shape_of(oracle.model)
        memory = memory if len(memory) else model.new_zeros(oracle.width - len(model))
        job = Job(0, 1, first_step, steps, 0.05, before)
        expected = oracle.run(torch.cat([model, memory]), job, correction)
        asked = call(
            pack(model, shape), job=number, first_step=first_step, steps=steps, rate=0.05,
            training=to_json(local), dtype=str(dtype).removeprefix("torch."), after=number - 1,
            correction=None if correction is None else pack(correction, shape.trained),
        )  # fmt: skip
        reply = read_reply(sent(client.answer(sent(call_message(asked, 11)))))
        assert torch.equal(unpack(reply.model, shape), expected[: len(model)])
        assert not torch.equal(unpack(reply.model, shape), model)
        assert (reply.steps, reply.job, reply.client, reply.samples) == (steps, number, 1, 18)
        model, memory = expected[: len(model)], expected[len(model) :]
        first_step += steps
        before += steps if local.training.local_optimiser.kept else 0


def start() -> tuple[bytes, FlatModel]:
    model = flat(LocalTraining(4))
    return pack(model.snapshot(), shape_of(model)), model


@pytest.mark.parametrize(
    ("seconds", "steps"), [(None, 20), (100.0, 20), (10.0, 10), (0.9, 0), (0.0, 0), (3.5, 3)]
)
def test_a_job_ends_in_time_at_the_end_of_a_step(seconds: float | None, steps: int) -> None:
    """Steps take a second; one that would end late is not begun."""
    clock, (model, _) = Hand(), start()
    client = Client(network, data_of(1), pace=1.0, clock=clock, sleep=clock.sleep)
    reply = client.reply(call(model, steps=20, seconds=seconds))
    assert (reply.steps, reply.seconds) == (steps, float(steps))
    whole = client.reply(call(model, steps=steps))
    assert whole.model == reply.model
    assert (reply.model == model) == (steps == 0)
    assert clock.now == 100.0 + 2 * steps


def test_a_client_learns_how_long_its_steps_take() -> None:
    """The first step of a new client may end late; then it knows better."""
    clock, (model, _) = Hand(tick=0.5), start()
    client = Client(network, data_of(1), clock=clock)
    first = client.reply(call(model, steps=4))
    assert first.steps == 4
    assert client.reply(call(model, job=1, seconds=first.step_seconds / 2)).steps == 0


def test_time_begins_when_the_call_came() -> None:
    clock, (model, _) = Hand(), start()
    client = Client(network, data_of(1), pace=1.0, clock=clock, sleep=clock.sleep)
    assert client.reply(call(model, steps=20, seconds=5.0), began=97.0).steps == 2


@pytest.mark.parametrize(
    "data",
    [
        TensorDataset(*data_of(1)),
        DataLoader(TensorDataset(*data_of(1)), batch_size=3, shuffle=True),
        tuple(array.numpy() for array in data_of(1)),
        Subset(TensorDataset(*data_of(1)), range(18)),
    ],
    ids=["data set", "loader", "arrays", "subset"],
)
def test_data_may_be_given_in_many_ways(data: object) -> None:
    model, _ = start()
    reply = Client(network, data).reply(call(model))
    assert reply.model == Client(network, data_of(1)).reply(call(model)).model


def test_metrics_are_those_of_the_end_model_on_the_client_s_data() -> None:
    model, flat_ = start()
    (inputs, targets) = data_of(1)
    client = Client(network, (inputs, targets), metrics={"accuracy": favano.accuracy})
    reply = client.reply(call(model))
    flat_.load(unpack(reply.model, shape_of(flat_)))
    with torch.no_grad():
        output = flat_.module.eval()(inputs)
    right = (output.argmax(1) == targets).double().mean().item()
    assert reply.metrics["accuracy"] == right
    assert reply.metrics["loss"] == pytest.approx(nn.functional.cross_entropy(output, targets))
    assert Client(network, (inputs, targets)).reply(call(model)).metrics == {}


def adam(job: int, after: int, model: bytes) -> Call:
    local = LocalTraining(4, training=TrainingPart(optimiser="adam", optimiser_state="kept"))
    return call(model, job=job, after=after, training=to_json(local), first_step=5 * job)


def test_memory_goes_on_after_the_job_that_was_used_last() -> None:
    """Jobs 1 to 3 were lost, so job 4 goes on after job 0, as if they had never been."""
    model, _ = start()
    first, other = (Client(network, data_of(1)) for _ in range(2))
    for client in (first, other):
        client.reply(adam(0, -1, model))
    for job in (1, 2, 3):
        first.reply(adam(job, 0, model))
    again = first.reply(adam(4, 0, model))
    assert again.model == other.reply(adam(4, 0, model)).model
    assert again.model != Client(network, data_of(1)).reply(adam(4, 0, model)).model


def test_memory_outlasts_the_process_in_a_file(tmp_path: Path) -> None:
    model, _ = start()
    whole = Client(network, data_of(1))
    store = FileStore(tmp_path / "node" / "memory.safetensors")
    for job in range(3):
        expected = whole.reply(adam(job, job - 1, model))
        reply = Client(network, data_of(1), store=store).reply(adam(job, job - 1, model))
        assert reply.model == expected.model
    assert [path.name for path in (tmp_path / "node").iterdir()] == ["memory.safetensors"]


def test_memory_of_another_run_is_not_used(tmp_path: Path) -> None:
    model, _ = start()
    client = Client(network, data_of(1))
    client.reply(adam(0, -1, model))
    other = replace(adam(1, 0, model), run="fedcba9876543210")
    assert client.reply(other).model == Client(network, data_of(1)).reply(other).model


def test_a_file_that_is_no_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    path.write_bytes(b"something else")
    with pytest.raises(BadInput, match="remove it"):
        Client(network, data_of(1), store=FileStore(path))


@pytest.mark.parametrize(
    "codec",
    [Lattice(bits=14, scale=1e-3), MinMax(bits=8), Qsgd(bits=8)],
    ids=lambda codec: codec.name,
)
def test_models_are_coded_both_ways(codec: Codec) -> None:
    """The first model comes in full, the next relative to it; replies relative to their start."""
    model, flat_ = start()
    shape, client = shape_of(flat_), Client(network, data_of(1))
    first = unpack(model, shape)
    name = codec_text(codec)
    client.reply(call(model, codec=name))
    second = first + 0.01
    noise = draws(codec, shape.parameters, seed=7, stream=2**62, message=1)
    data = pack(second, shape, codec, known=first, noise=noise)
    assert len(data) < len(model) / 1.5
    read = unpack(data, shape, codec, key=first, known=first)
    key = fingerprint(first)
    reply = client.reply(call(data, job=1, codec=name, key=key, message=1, first_step=5))
    plain = Client(network, data_of(1)).reply(call(pack(read, shape), job=1, first_step=5))
    end = unpack(plain.model, shape)
    noise = draws(codec, shape.parameters, seed=7, stream=1, message=1)
    assert reply.model == pack(end, shape, codec, known=read, noise=noise)
    asked = call(b"", job=2, codec=name, key=fingerprint(read), message=1, first_step=5)
    again = client.reply(read_call(sent(call_message(asked, 11))))
    assert again.model == reply.model  # from the same model, which was not sent again


def test_a_model_relative_to_one_that_was_forgotten_is_refused() -> None:
    model, _ = start()
    with pytest.raises(BadInput, match=r"key=3: .* it needs one in full"):
        Client(network, data_of(1)).reply(call(model, codec="qsgd:8", key=3))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model": b"1234"}, "need 464"),
        ({"training": "{}"}, "batch_size"),
        ({"dtype": "float64"}, "need inputs of torch.float64"),
        ({"codec": "zip"}, "codec"),
        ({"correction": b"1234"}, "bytes"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(changes: dict[str, object], says: str) -> None:
    model, _ = start()
    with pytest.raises(BadInput, match=says):
        Client(network, data_of(1)).reply(call(**{"model": model, **changes}))  # type: ignore[arg-type]


def test_a_client_app_answers_and_keeps_its_memory_in_the_context() -> None:
    model, _ = start()
    app = client_app(network, lambda context: data_of(int(context.node_config["partition-id"])))
    assert isinstance(app, ClientApp)
    state, whole = RecordDict(), Client(network, data_of(1))
    for job in range(2):
        context = Context(1, 1, {"partition-id": 1}, state, {})
        message = call_message(adam(job, job - 1, model), 11)
        reply = read_reply(sent(app(sent(message), context)))
        assert reply.model == whole.reply(adam(job, job - 1, model)).model
        assert reply.metrics == {"partition": 1.0}


def test_the_global_generator_is_left_alone() -> None:
    model, _ = start()
    before = torch.get_rng_state()
    Client(network, data_of(1)).reply(call(model))
    assert torch.equal(torch.get_rng_state(), before)


def test_arrays_in_another_order_are_refused() -> None:
    """Of a network with buffers of floats: a server puts them where it has its parameters."""
    net = nn.Sequential(network())
    net.register_buffer("centre", torch.zeros(6))
    arrays = ArrayRecord(net.state_dict())
    flat = flat_arrays(arrays)
    with pytest.raises(BadInput, match="model=Sequential: has centre, which a server takes"):
        Client(net, data_of(1)).reply(call(pack(flat.vector(arrays), flat.shape)))
