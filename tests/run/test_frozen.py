"""Frozen parameters: one copy for all, and no part of what is sent, kept or written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import favano
from favano.errors import BadInput
from favano.run import checkpoints
from favano.training import FlatModel

X = torch.randn(200, 6, generator=torch.Generator().manual_seed(0))
Y = (X.sum(1) > 0).long()
FLEET = favano.Fleet(clients=5)
KEYS: dict[str, Any] = {"selected": 2, "learning_rate": 0.1, "horizon": 60.0}


class Adapted(nn.Module):
    """A frozen layer and a correction of rank 2, which is trained: 20 of 42 numbers and a head."""

    def __init__(self, kind: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.base = nn.Linear(6, 5).to(kind).requires_grad_(False)
        self.down, self.up = nn.Linear(6, 2, bias=False), nn.Linear(2, 5, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        fixed = self.base(inputs.to(self.base.weight.dtype)).to(inputs.dtype)
        output: Tensor = fixed + self.up(self.down(inputs))
        return output


def problem(net: object, **more: object) -> favano.Problem:
    return favano.Problem(net, (X, Y), (X, Y), split="iid", batch_size=8, **more)  # type: ignore[arg-type]


def test_a_flat_model_holds_what_is_trained_and_shares_the_rest() -> None:
    net = Adapted()
    first, second = (FlatModel(net, device="cpu") for _ in range(2))
    assert (first.layout.parameters, first.layout.bits) == (22, 32 * 22)
    for name, parameter in net.named_parameters():
        shared = parameter.data_ptr() == first.module.get_parameter(name).data_ptr()
        assert shared == name.startswith("base")
    assert first.frozen["base.weight"].data_ptr() == second.frozen["base.weight"].data_ptr()
    assert {*first.state_dict(first.snapshot())} == {"down.weight", "up.weight"}


def test_another_device_or_type_leaves_the_given_network_alone() -> None:
    net = Adapted()
    flat = FlatModel(net, device="cpu", dtype=torch.float64)
    assert flat.frozen["base.weight"].dtype == torch.float64
    assert net.base.weight.dtype == torch.float32


def test_a_base_in_half_precision_keeps_its_type() -> None:
    net = Adapted(torch.bfloat16)
    flat = FlatModel(net, device="cpu")
    assert (flat.vector.dtype, flat.layout.parameters) == (torch.float32, 22)
    assert flat.frozen["base.weight"].dtype == torch.bfloat16
    before = net.base.weight.clone()
    loop = favano.simulate("favano", problem(net), FLEET, engine="loop", **KEYS)
    lanes = favano.simulate("favano", problem(net), FLEET, engine="lanes", **KEYS)
    assert loop.rows == lanes.rows
    assert loop.rows[-1].loss < loop.rows[0].loss
    assert torch.equal(net.base.weight, before)


def test_adapters_are_saved_and_loaded(tmp_path: Path) -> None:
    net = Adapted()
    result = favano.simulate("favano", problem(net), FLEET, seeds=2, **KEYS)
    with pytest.raises(BadInput, match=r"^seed=None: need one of 0, 1$"):
        result.save_adapter(tmp_path / "a.safetensors")
    file = result.save_adapter(tmp_path / "a.safetensors", seed=1)
    with pytest.raises(BadInput, match=r"is there already; choose another, or remove it$"):
        result.save_adapter(file, seed=0)
    base = net.base.weight.clone()
    favano.load_adapter(net, file)
    assert torch.equal(net.up.weight, result.models[1]["up.weight"])
    assert not torch.equal(net.up.weight, result.models[0]["up.weight"])
    assert torch.equal(net.base.weight, base)
    assert net.base.weight.numel() * 4 > sum(t.nbytes for t in result.models[1].values()) // 2


def test_an_adapter_of_another_network_is_refused(tmp_path: Path) -> None:
    net = Adapted()
    result = favano.simulate("favano", problem(net), FLEET, **KEYS)
    file, before = result.save_adapter(tmp_path / "a.safetensors"), net.up.weight.clone()
    with pytest.raises(BadInput, match=r"holds down.weight, which Linear does not have$"):
        favano.load_adapter(nn.Linear(6, 5), file)
    net.requires_grad_(True)
    with pytest.raises(BadInput, match=r"does not hold base.weight, which Adapted trains$"):
        favano.load_adapter(net, file)
    assert torch.equal(net.up.weight, before)
    with pytest.raises(BadInput, match=r"is no safetensors file that can be read$"):
        favano.load_adapter(net, tmp_path / "b.safetensors")


def test_a_run_with_frozen_parameters_is_resumed_and_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "_EVERY", 0.0)
    monkeypatch.setattr(checkpoints, "SHARE", 1e9)
    net, kept = Adapted(), tmp_path / "checkpoints"
    keys = {**KEYS, "evaluate_every": 5.0}
    whole = favano.simulate("favano", problem(net), FLEET, **keys)

    def stop(row: Mapping[str, object]) -> None:
        if float(str(row["time"])) > 30:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match=r"enough"):
        favano.simulate("favano", problem(net), FLEET, checkpoints=kept, on_evaluate=stop, **keys)
    file = max(kept.rglob("seed-0.*"))
    assert file.stat().st_size < 2 * (2 + 5) * 22 * 4 + 20_000
    again = favano.simulate("favano", problem(net), FLEET, checkpoints=kept, **keys)
    assert again.steps_before > 0
    assert again.rows == whole.rows
    whole.save(tmp_path / "run")
    verdicts = favano.verify(tmp_path / "run", problem(net))
    assert [verdict.outcome for verdict in verdicts] == ["proved", "proved"]
    with torch.no_grad():
        net.base.weight += 1
    assert not all(verdict.right for verdict in favano.verify(tmp_path / "run", problem(net)))


def test_a_function_must_freeze_the_same_numbers_every_time() -> None:
    """Otherwise nobody could put an adapter back to its base."""
    rule = (
        "^model=Adapted: has another frozen parameter base.weight for seed 1, and all seeds of a "
        "call share it; make it once, outside of the function$"
    )
    with pytest.raises(BadInput, match=rule):
        favano.simulate("favano", problem(Adapted), FLEET, **KEYS)
    base = nn.Linear(6, 5).requires_grad_(False)

    def made() -> nn.Module:
        net = Adapted()
        net.base = base
        return net

    result = favano.simulate("favano", problem(made), FLEET, seeds=2, **KEYS)
    assert not torch.equal(*(model["down.weight"] for model in result.models.values()))


class Drifting(Adapted):
    def forward(self, inputs: Tensor) -> Tensor:
        if self.training:
            self.base.weight.mul_(0.5)
        return super().forward(inputs)


def test_a_network_that_changes_a_frozen_parameter_is_refused() -> None:
    rule = "changes its parameter base.weight in training, which is frozen"
    with pytest.raises(BadInput, match=rule):
        favano.simulate("favano", problem(Drifting()), FLEET, **KEYS)
