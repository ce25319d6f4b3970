"""Whoever trains a specification trains the same: run, plan, pilot and bench."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Literal, Unpack

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

import favano
from favano.cli.app import app
from favano.engine import PlainLoop, ServerVersion
from favano.errors import BadInput
from favano.planning.planned import plan_seeds
from favano.quantisation import message_bits
from favano.run.assembly import codec_of
from favano.run.runner import run
from favano.run.samples import load_samples, named_model
from favano.specification.keys import Keys
from favano.specification.presets import resolve
from favano.specification.spec import make_spec
from favano.studies import bench, pilot

KEYS: dict[str, object] = {
    "algorithm": "fedavg", "clients": 8, "selected": 3, "local_steps": 3, "horizon": 400.0,
    "split": "dirichlet:0.5", "sample_weights": True,
}  # fmt: skip


def planned_weights(*more: str) -> list[float]:
    keys = {name: value for name, value in KEYS.items() if name != "sample_weights"}
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in keys.items()]
    done = CliRunner().invoke(app, ["plan", *flags, *more, "--json"])
    assert done.exit_code == 0, done.output
    return [client["effective_weight"] for client in json.loads(done.output)["clients"]]


def test_plan_weighs_clients_by_their_samples_as_run_does() -> None:
    planned = planned_weights("--sample-weights")
    spec = resolve(make_spec(KEYS))
    samples = load_samples(spec)
    result = run(spec, samples, named_model(spec, samples))
    assert result.audit is not None
    assert planned == pytest.approx(result.audit.weight, abs=1e-12)
    assert np.abs(np.array(planned) - planned_weights()).max() > 0.01


def test_without_data_there_are_no_weights_by_samples() -> None:
    """The schedule needs none; who trains the model depends on them."""
    (planned,) = plan_seeds(resolve(make_spec(KEYS)))
    assert planned.schedule.updates > 0
    with pytest.raises(BadInput, match=r"^sample_weights=True: needs the data"):
        _ = planned.weights


@pytest.mark.parametrize("part", ["pilot", "bench"])
def test_pilot_and_plain_loop_train_what_a_run_trains(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With sample weights, a proximal term and a codec: the same server models."""
    extra = {"proximal": 0.5, "codec": "qsgd", "codec_bits": 4, "evaluate_every": 400.0}
    spec = resolve(make_spec({**KEYS, **extra, "horizon": 200.0}))
    samples = load_samples(spec)
    model = named_model(spec, samples)
    seen: list[ServerVersion] = []

    def watched(self: PlainLoop) -> Iterator[ServerVersion]:
        for event in events(self):
            seen.append(event)
            yield event

    events = PlainLoop.events
    monkeypatch.setattr(PlainLoop, "events", watched)
    if part == "pilot":
        pilot.pilot(spec, samples, model)
    else:
        bench._plain(samples, model, 1, spec)
    assert seen[-1].version == len(seen) - 2 > 0
    result = run(spec, samples, model, workers=1)
    final = torch.cat([value.flatten() for value in result.models[0].values()])
    assert torch.equal(seen[-1].server[: len(final)], final)


class Adapted(nn.Module):
    """A layer that is frozen, with statistics, and a correction of low rank that is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 40).requires_grad_(False)
        self.norm = nn.BatchNorm1d(40, affine=False)
        self.down, self.up = nn.Linear(6, 1, bias=False), nn.Linear(1, 40, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.norm(self.layer(inputs)) + self.up(self.down(inputs))
        return output


@pytest.mark.quick("fedavg-none")
@pytest.mark.parametrize("codec", ["none", "lattice", "min-max"])
@pytest.mark.parametrize("method", ["fedavg", "scaffold"])
def test_bits_are_those_of_what_is_trained(
    method: str, codec: Literal["none", "lattice", "min-max"]
) -> None:
    """46 of 326 parameters, and 80 statistics; SCAFFOLD sends as many corrections."""
    x = torch.randn(120, 6, generator=torch.Generator().manual_seed(0))
    both, net = (x, torch.arange(120) % 2), Adapted()
    given = favano.Problem(net, both, both, split="iid", batch_size=8)
    keys: Keys = {
        "selected": 4,
        "local_steps": 2,
        "learning_rate": 0.1,
        "horizon": 60.0,
        "codec": codec,
    }
    result = favano.simulate(method, given, favano.Fleet(clients=4), **keys)
    sent, rounds = 46 + 80 + (46 if method == "scaffold" else 0), result.rows[-1].server_step
    if codec == "none":
        assert result.rows[-1].bits_up == 32 * sent * 4 * rounds
        assert result.rows[0].bits_down == 32 * sent * 4
    elif method == "fedavg":
        packed = message_bits(codec_of(result.spec), (6, 40)) + 32 * 80  # type: ignore[arg-type]
        assert result.rows[-1].bits_up == packed * 4 * rounds
    frozen = {"layer.weight", "layer.bias"}
    assert {*net.state_dict()} - {*result.models[0]} == frozen


def test_buffers_per_client_need_buffers() -> None:
    pair = torch.randn(40, 3), torch.arange(40) % 2
    keys: Keys = {"selected": 2, "local_steps": 2, "horizon": 20.0, "buffers": "local"}
    fleet = favano.Fleet(clients=4)
    plain = favano.Problem(nn.Linear(3, 2), train=pair, test=pair, split="iid")
    rule = "^buffers=local: has no effect on Linear, which has no buffers; remove it$"
    with pytest.raises(BadInput, match=rule):
        favano.simulate("favano", plain, fleet, **keys)
    normed = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    problem = favano.Problem(normed, train=pair, test=pair, split="iid")
    assert favano.simulate("favano", problem, fleet, **keys).status == "complete"


def masked() -> nn.Module:
    """A network with another mask for each seed."""
    net = nn.Linear(6, 2)
    net.register_buffer("mask", torch.where(torch.rand(32) < 0.5, 0.0, -torch.inf))
    return net


def test_seeds_of_one_call_share_the_constants_of_a_network() -> None:
    x = torch.randn(120, 6, generator=torch.Generator().manual_seed(0))
    both = (x, torch.arange(120) % 2)
    given = favano.Problem(masked, both, both, split="iid", batch_size=8)

    def simulate(**more: Unpack[Keys]) -> favano.Result:
        keys: Keys = {"selected": 4, "local_steps": 2, "learning_rate": 0.1, "horizon": 60.0}
        all_keys: Keys = {**keys, **more}
        return favano.simulate("fedavg", given, favano.Fleet(clients=4), **all_keys)

    with pytest.raises(BadInput, match="model=Linear: has another buffer mask for seed 1"):
        simulate(seeds=2)
    masks = [simulate(seed=seed).models[seed]["mask"] for seed in (0, 1)]
    assert not torch.equal(*masks)
