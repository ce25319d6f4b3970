"""Optimisers and schedules from Python: lanes against the plain loop."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch import Tensor, nn

import favano
from favano.errors import BadInput
from favano.models import build, leaf, transformer
from favano.report import final_table
from favano.results import collect
from favano.run import engines
from favano.run.own_data import own_samples, read_data
from favano.run.runner import run_together
from favano.specification.keys import Keys
from favano.specification.spec import changed, make_spec
from tests.run.cpu_stacks import cpu_stacks

FLEET = favano.Fleet(clients=6)
KEYS: Keys = {"selected": 3, "local_steps": 4, "horizon": 150, "evaluate_every": 25}
EVERY: dict[str, Keys] = {
    "plain": {},
    "momentum": {"momentum": 0.9, "weight_decay": 0.01},
    "nesterov, kept": {"momentum": 0.9, "nesterov": True, "optimiser_state": "kept"},
    "clipped": {"clip": 0.1, "proximal": 0.1},
    "adam": {"optimiser": "adam", "weight_decay": 0.1},
    "adam, kept": {"optimiser": "adam", "optimiser_state": "kept", "clip": 0.5},
    "adamw": {"optimiser": "adamw", "epsilon": 1e-4, "rate_schedule": "cosine", "warm_up": 20},
    "by steps": {"rate_schedule": "linear:0.1", "rate_over": "steps", "rate_length": 20},
    "robust": {"robust": "trimmed:0.4"},
    "server momentum": {"server_optimiser": "momentum", "optimiser": "adam"},
    "server yogi": {"server_optimiser": "yogi", "momentum": 0.5, "optimiser_state": "kept"},
}


def problem() -> favano.Problem:
    """In float64, with batches of two lengths."""
    torch.manual_seed(0)
    x, y = torch.randn(190, 5, dtype=torch.float64), torch.arange(190) % 3
    net = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)).double()
    return favano.Problem(net, train=(x, y), test=(x[:50], y[:50]), split="iid", batch_size=8)


def losses(name: str, engine: str, device: str = "cpu") -> list[float]:
    keys: Keys = {**KEYS, **EVERY[name], "learning_rate": 0.02, "device": device}
    given: Keys = {**keys, "engine": engine}  # type: ignore[typeddict-item]
    return [row.loss for row in favano.simulate("favano-delta", problem(), FLEET, **given).rows]


@pytest.mark.quick("clipped", "server momentum")
@pytest.mark.parametrize("name", EVERY)
def test_lanes_of_a_cpu_equal_the_loop_to_the_bit(name: str) -> None:
    lanes = losses(name, "lanes")
    assert len(lanes) > 5
    assert lanes == losses(name, "loop")
    assert name == "plain" or lanes[-1] != losses("plain", "loop")[-1]


@pytest.mark.gpu
@pytest.mark.parametrize("name", EVERY)
def test_lanes_of_a_gpu_equal_the_loop(name: str) -> None:
    lanes = losses(name, "lanes", "cuda")
    assert lanes == pytest.approx(losses(name, "loop", "cuda"), rel=1e-10, abs=1e-10)
    assert lanes == pytest.approx(losses(name, "loop"), rel=1e-8, abs=1e-8)


class Gru(nn.Module):
    """The next letter by a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.last = nn.Embedding(9, 4), nn.Linear(5, 9)
        self.layer = nn.GRU(4, 5, batch_first=True)

    def forward(self, letters: Tensor) -> Tensor:
        states, _ = self.layer(self.embedding(letters.long()))
        logits: Tensor = self.last(states[:, -1])
        return logits


def losses_of_texts(kind: str, engine: str, device: str) -> dict[str, list[float]]:
    """By optimiser, of runs that share lanes: the next letter, in float64."""
    torch.manual_seed(0)
    network = (Gru() if kind == "gru" else build(kind, input_shape=(4,), classes=9)).double()
    x, y = torch.randint(0, 9, (130, 4)), torch.randint(0, 9, (130,))
    samples = own_samples(read_data(favano.Problem(network, (x, y), (x[:40], y[:40]))), device)
    keys = {"algorithm": "favano-delta", "clients": 6, "split": "iid", "batch_size": 8}
    spec = make_spec({**KEYS, **keys, "learning_rate": 0.02, "horizon": 35, "engine": engine})
    specs = [changed(spec, dict(options)) for options in EVERY.values()]
    results = run_together(specs, samples, network, workers=1, audits=False)
    return {
        name: [row.loss for row in result.rows] for name, result in zip(EVERY, results, strict=True)
    }


@pytest.mark.quick("leaf-lstm-cpu")
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("kind", ["leaf-lstm", "gru", "transformer"])
def test_texts_in_stacked_lanes_equal_the_loop(
    kind: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaf, "_HIDDEN", 6)
    monkeypatch.setattr(transformer, "_WIDTH", 8)
    expected = losses_of_texts(kind, "loop", device)
    if device == "cpu":
        monkeypatch.setattr(engines, "_steps", cpu_stacks)
    actual = losses_of_texts(kind, "lanes", device)
    for name, values in actual.items():
        assert values == pytest.approx(expected[name], rel=1e-9), name
    assert len({values[-1] for values in actual.values()}) == len(EVERY)


def check_together(device: str, tolerance: float) -> None:
    """Four methods with one optimiser, in one pool; each as alone in the plain loop."""
    buffered = favano.FedBuff(buffer=2, buffer_mode="block")
    methods: list[str | favano.FedBuff] = ["fedavg", "favano-delta", buffered, "fedfix"]
    keys: Keys = {**KEYS, **EVERY["adam, kept"], "learning_rate": 0.02, "device": device}
    one_by_one: Keys = {**keys, "engine": "loop"}
    together = favano.compare(methods, problem(), FLEET, **keys)
    for method, result in zip(methods, together.results, strict=True):
        own: Keys = {**one_by_one}
        if method in (buffered, "fedfix"):  # they do not look at it
            del own["selected"]
        alone = favano.simulate(method, problem(), FLEET, **own)
        expected = pytest.approx([row.loss for row in alone.rows], rel=tolerance, abs=tolerance)
        assert [row.loss for row in result.rows] == expected


def test_several_methods_share_lanes() -> None:
    check_together("cpu", 0.0)


@pytest.mark.gpu
def test_several_methods_share_the_lanes_of_a_gpu() -> None:
    check_together("cuda", 1e-10)


def test_methods_without_a_step_say_so() -> None:
    rule = "server=adam: cannot be used with favano, which averages models"
    keys: Keys = {**KEYS, "server_optimiser": "adam"}
    with pytest.raises(BadInput, match=rule):
        favano.simulate("favano", problem(), FLEET, **keys)


def test_state_is_kept_only_where_answers_are_used_in_time() -> None:
    keys: Keys = {"horizon": 150, "momentum": 0.9, "optimiser_state": "kept"}
    with pytest.raises(BadInput, match="optimiser_state=kept: need fresh with fedbuff, whose cl"):
        favano.simulate(favano.FedBuff(buffer=3, buffer_mode="code"), problem(), FLEET, **keys)


def test_a_plan_counts_what_clients_keep_and_leaves_the_audit_out() -> None:
    plan = favano.plan("fedavg", "digits", optimiser="adam", optimiser_state="kept")
    assert plan.client_vectors == 2
    assert plan.audit is not None
    assert plan.audit.left_out == ("the clients' optimiser",)
    assert favano.plan("fedavg", "digits", server_optimiser="adam").audit is None


def test_a_momentum_without_effect_is_refused() -> None:
    keys: Keys = {**KEYS, "momentum": 0.9}
    single: Keys = {**keys, "local_steps": 1}
    rule = "momentum=0.9: has no effect in jobs of one step; need optimiser_state=kept, or remove "
    with pytest.raises(BadInput, match=rule):
        favano.simulate("asyncsgd", problem(), FLEET, momentum=0.9, horizon=150)
    with pytest.raises(BadInput, match=rule):
        favano.simulate("fedavg", problem(), FLEET, **single)
    epochs: Keys = {**keys, "local_epochs": 1}
    del epochs["local_steps"]
    fine: tuple[Keys, ...] = {**single, "optimiser_state": "kept"}, epochs
    for more in fine:
        assert favano.simulate("fedavg", problem(), FLEET, **more).rows


def test_files_and_page_name_the_optimisers(tmp_path: Path) -> None:
    keys: Keys = {**KEYS, "horizon": 70.0}
    plain = favano.simulate("fedavg", problem(), FLEET, **keys)
    plain.save(tmp_path / "plain")
    assert "optimiser" not in (tmp_path / "plain" / "summary.json").read_text()
    assert "Optimiser: " not in plain.report(tmp_path / "page.html").read_text(encoding="utf-8")
    more: Keys = {**keys, "optimiser": "adam", "clip": 1.0, "server_optimiser": "yogi"}
    adam = favano.simulate("fedavg", problem(), FLEET, **more)
    folder, numbers = adam.save(tmp_path / "adam"), "momentum=0.9:epsilon=0.001:beta2=0.99"
    words = f"Adam, gradients clipped at 1, on the server yogi:rate=0.01:{numbers}"
    assert f'"optimiser": "{words}"' in (folder / "summary.json").read_text()
    page = adam.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert f" Optimiser: {words}." in page
    text = io.StringIO()
    Console(file=text, width=200).print(final_table(collect([tmp_path])))
    said = " ".join(text.getvalue().split())
    assert f": {words}; " in said
    assert ": plain SGD" in said


def test_a_server_optimiser_leaves_clients_without_weights(tmp_path: Path) -> None:
    keys: Keys = {**KEYS, "horizon": 70.0}
    favano.simulate("fedavg", problem(), FLEET, **keys).save(tmp_path / "plain")
    assert (tmp_path / "plain" / "participation.json").exists()
    by_server: Keys = {**keys, "server_optimiser": "adam"}
    favano.simulate("fedavg", problem(), FLEET, **by_server).save(tmp_path / "adam")
    assert not (tmp_path / "adam" / "participation.json").exists()
