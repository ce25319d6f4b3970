"""Networks and losses as people write them: the numbers of a simulation by hand, or a refusal."""

from __future__ import annotations

from contextlib import nullcontext
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import favano
from favano.data import BatchStream
from favano.errors import BadInput
from favano.rng import Stream, word
from favano.run import engines
from favano.training import gradient_trace
from favano.training.dropout import KeyedDropout
from tests.run.cpu_stacks import cpu_stacks
from tests.run.zoo import DATA, ZOO, Entry, Loss

ENTRIES = pytest.mark.parametrize("entry", ZOO, ids=[e.name for e in ZOO])
PARTS = [list(range(8)), list(range(8, 16))]  # of two clients: a batch each
ORDER = BatchStream([np.array(part) for part in PARTS], 8, seed=0)  # masks are by place
TEST = slice(16, 24)
STEPS, RATE = 3, 0.2
FLEET = favano.Fleet(clients=2)


def made(entry: Entry) -> tuple[nn.Module, Loss]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        net = entry.make()
        return net, entry.loss(net)


def simulated(entry: Entry, engine: Literal["loop", "lanes"], device: str = "cpu") -> favano.Result:
    """FedAvg with two clients."""
    (x, y), (net, loss) = DATA[entry.data], made(entry)
    problem = favano.Problem(
        net,
        train=(x[:16].clone(), y[:16].clone()),
        test=(x[TEST].clone(), y[TEST].clone()),
        split=PARTS,
        batch_size=8,
        loss=loss,
        metrics={},
    )
    data = [*problem.train, *problem.test]  # type: ignore[misc]
    before = [deepcopy(item) for item in (*data, net.state_dict())]
    state = torch.get_rng_state()
    keys: dict[str, Any] = {"learning_rate": RATE, "local_steps": STEPS, **entry.keys}
    result = favano.simulate(
        "fedavg",
        problem,
        FLEET,
        selected=2,
        horizon=150.0,
        engine=engine,
        device=device,
        precision="float32",
        evaluate_every=50.0,
        **keys,
    )
    for now, then in zip((*data, net.state_dict()), before, strict=True):
        assert same(now, then), "what is the caller's was changed"
    assert all(parameter.grad is None for parameter in net.parameters())
    assert torch.equal(torch.get_rng_state(), state)
    return result


def same(value: Any, other: Any) -> bool:
    if isinstance(value, Tensor):
        return torch.equal(value, other)
    return list(value) == list(other) and all(same(value[name], other[name]) for name in value)


def by_hand(entry: Entry, rounds: int) -> tuple[dict[str, Tensor], float]:
    """The same in plain PyTorch: the final model, and its loss on the test set."""
    x, y = DATA[entry.data]
    server: dict[str, Tensor] | None = None
    for number in range(rounds):
        ends = []
        for client in range(len(PARTS)):
            net, loss, whole = loaded(entry, server)
            optimiser = optimiser_of(entry, whole)
            for step in range(number * STEPS, (number + 1) * STEPS):
                optimiser.zero_grad()
                part = torch.from_numpy(ORDER.indices(client, step, 1))
                key = torch.tensor(word(0, Stream.LUQ, client, step))
                with KeyedDropout(key) if entry.drops else nullcontext():
                    value = loss(net.train()(x[part].clone()), y[part].clone())
                torch.autograd.backward(value)
                optimiser.step()
            ends.append(deepcopy(whole.state_dict()))
        server = {name: averaged([end[name] for end in ends]) for name in ends[0]}
    net, loss, whole = loaded(entry, server)
    value = loss(net.eval()(x[TEST].clone()).detach(), y[TEST].clone())
    return dict(whole.state_dict()), float(value.detach())


def loaded(entry: Entry, server: dict[str, Tensor] | None) -> tuple[nn.Module, Loss, nn.ModuleDict]:
    """A network, its loss, and both together where the loss is a module, or a method of one."""
    net, loss = made(entry)
    owner = getattr(loss, "__self__", loss)
    parts = {"net": net, "loss": owner} if isinstance(owner, nn.Module) else {"net": net}
    whole = nn.ModuleDict(parts)
    if server is not None:
        whole.load_state_dict(server)
    return net, loss, whole


def averaged(ends: list[Tensor]) -> Tensor:
    both = torch.stack(ends)
    return both.mean(0) if both.is_floating_point() or both.is_complex() else both.amax(0)


def wide(values: Tensor) -> Tensor:
    return values.to(torch.complex128 if values.is_complex() else torch.float64)


def optimiser_of(entry: Entry, net: nn.Module) -> torch.optim.Optimizer:
    keys = dict(entry.keys)
    rate = float(str(keys.pop("learning_rate", RATE)))
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    kind = kinds[str(keys.pop("optimiser", "sgd"))]
    trained = [parameter for parameter in net.parameters() if parameter.requires_grad]
    return kind(trained, lr=rate, **keys)  # type: ignore[no-any-return]


def forced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trace whatever can be traced."""
    monkeypatch.setattr(gradient_trace, "FEWEST", 0)
    monkeypatch.setattr(gradient_trace, "FEWEST_EACH", 0)
    monkeypatch.setattr(gradient_trace.GradientTrace, "_is_heavy", lambda *_: False)
    monkeypatch.setattr(gradient_trace.GradientTrace, "_pays", lambda *_: True)


@pytest.mark.quick(
    "layer norm",
    "max pooling",
    "attention with dropout",
    "float64 buffer",
    "momentum",
    "max norm by .data",
    "a penalty over a global network",
    "a loss with a teacher",
    "a hook that holds the network",
    "layers used in turns, adam",
)
@ENTRIES
def test_zoo(entry: Entry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if entry.refusal:
        engines: tuple[Literal["loop", "lanes"], ...] = ("loop", "lanes")
        for engine in engines:
            with pytest.raises(BadInput, match=f"^(model|loss)=.*: {entry.refusal}") as refused:
                simulated(entry, engine)
            assert len(str(refused.value).splitlines()) == 1
        return
    loop = simulated(entry, "loop")
    rounds = loop.runs[0].server_steps
    assert rounds > 2
    model, loss = by_hand(entry, rounds)
    net = made(entry)[0]
    frozen = {f"net.{name}" for name, p in net.named_parameters() if not p.requires_grad}
    names = {name for name in model if name[0] == "n"}
    assert {f"net.{name}" for name in loop.models[0]} == names - frozen
    for part, state in (("net", loop.models[0]), ("loss", loop.losses.get(0, {}))):
        for name, value in state.items():
            hand = model[f"{part}.{name}"]
            assert value.dtype == hand.dtype
            assert torch.allclose(wide(value), wide(hand), rtol=1e-4, atol=3e-6), (part, name)
    assert loop.runs[0].loss == pytest.approx(loss, rel=1e-4)
    lanes = simulated(entry, "lanes")
    forced(monkeypatch)
    traced = simulated(entry, "lanes")
    for other in (lanes, traced):
        assert other.rows == loop.rows
        assert same(other.models[0], loop.models[0])
        assert same(other.losses, loop.losses)
    net.load_state_dict(loop.models[0], strict=not frozen)


TRAINED = [entry for entry in ZOO if not entry.refusal]


@pytest.mark.quick(
    "prelu", "rnn", "label smoothing", "a method of the network", "layers used in turns, momentum"
)
@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("entry", TRAINED, ids=[entry.name for entry in TRAINED])
def test_zoo_in_stacks(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU: the numbers of the loop, or a refusal of what cannot be trained many at once."""
    loop = simulated(entry, "loop")
    monkeypatch.setattr(engines, "_steps", cpu_stacks)
    check_many_at_once(entry, loop, "cpu")


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("entry", TRAINED, ids=[entry.name for entry in TRAINED])
def test_zoo_on_a_gpu(entry: Entry) -> None:
    check_many_at_once(entry, simulated(entry, "loop"), "cuda")


def check_many_at_once(entry: Entry, loop: favano.Result, device: str) -> None:
    if entry.one_by_one:
        sentence = f": cannot be trained in lanes of a GPU, many models at once; {entry.one_by_one}"
        if device == "cuda":  # where a loss may be refused for what it does on the host
            sentence = "; use engine=loop$|: cannot take outputs "
        with pytest.raises(BadInput, match=sentence):
            simulated(entry, "lanes", device)
        return
    stacks = simulated(entry, "lanes", device)
    for mine, other in ((stacks.models, loop.models), (stacks.losses, loop.losses)):
        for name, value in mine.get(0, {}).items():
            assert torch.allclose(value, other[0][name], rtol=1e-4, atol=1e-5), name
    assert stacks.runs[0].loss == pytest.approx(loop.runs[0].loss, rel=1e-4)
