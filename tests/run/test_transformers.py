"""Networks as Hugging Face has them: inputs by name, outputs with logits or a loss, masks."""

from __future__ import annotations

import ast
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import favano
from favano.errors import BadInput
from favano.run import engines
from favano.run.fitting import shifted
from tests.run.cpu_stacks import cpu_stacks
from tests.run.lookalikes import (
    LENGTH,
    TOKENS,
    CausalLM,
    Classifier,
    LossAlone,
    PeftModel,
    Smoothed,
    texts,
)

FLEET = favano.Fleet(clients=5)
DATA = texts()
INPUTS = {key: DATA[key] for key in ("input_ids", "attention_mask")}
KEYS: dict[str, Any] = {"selected": 2, "learning_rate": 0.5, "horizon": 120, "local_steps": 4}


def made(kind: type[CausalLM] = CausalLM) -> CausalLM:
    torch.manual_seed(0)
    return kind()


def simulated(problem: favano.Problem, **keys: Any) -> favano.Result:
    return favano.simulate("favano", problem, FLEET, **{**KEYS, **keys})


def own_loss(network: nn.Module, state: Mapping[str, Tensor]) -> float:
    """What the network itself says of the data."""
    network.load_state_dict(state, strict=False)
    with torch.no_grad():
        return float(network.eval()(**DATA).loss)


def test_adapters_of_a_language_model(tmp_path: Path) -> None:
    """By the public names alone."""
    network = PeftModel(made())
    data = texts()
    problem = favano.Problem(network, train=data, test=data, batch_size=16)
    result = favano.simulate(
        "favano",
        problem,
        favano.Fleet(clients=5),
        selected=2,
        local_steps=4,
        learning_rate=0.5,
        horizon=120,
    )
    file = result.save_adapter(tmp_path / "adapter.safetensors")
    favano.load_adapter(network, file)
    assert all("lora" in name for name in result.models[0])
    assert result.final("loss")[0] < result.rows[0].loss
    assert result.rows[-1].bits_up % (32 * 4 * 2 * 8) == 0
    assert float(network.eval()(**data).loss.detach()) == pytest.approx(result.final("loss")[0])


def test_tasks_fit_in_thirty_lines() -> None:
    for file, name in (
        (__file__, "test_adapters_of_a_language_model"),
        (Path(__file__).with_name("test_frames.py"), "test_a_frame_is_a_regression_per_site"),
    ):
        tree = ast.parse(Path(file).read_text())
        (task,) = (node for node in tree.body if getattr(node, "name", "") == name)
        assert isinstance(task, ast.FunctionDef)
        assert task.end_lineno is not None
        assert task.end_lineno - task.lineno < 30


@pytest.mark.parametrize("batch", [16, 7])
def test_the_loss_is_the_networks_own(batch: int, caplog: pytest.LogCaptureFixture) -> None:
    """The mean over all labels that count, in whatever batches it is taken."""
    problem = favano.Problem(made(), DATA, DATA, batch_size=batch)
    with caplog.at_level(logging.WARNING, logger="favano"):
        result = simulated(problem)
    said = "cross entropy of each label with the output at the place before"
    assert sum(said in record.message for record in caplog.records) == 1
    assert result.final("loss")[0] == pytest.approx(own_loss(made(), result.models[0]), rel=1e-5)


def test_accuracy_is_that_of_the_next_token() -> None:
    network = made()
    result = simulated(favano.Problem(network, DATA, DATA), horizon=400)
    network.load_state_dict(result.models[0])
    logits = network.eval()(**INPUTS).logits
    later = shifted(DATA["labels"])
    right = (logits.argmax(-1) == later)[later != -100]
    assert 0.3 < result.accuracy[0] == pytest.approx(float(right.float().mean()))


@pytest.mark.quick("Smoothed")
@pytest.mark.parametrize("kind", [CausalLM, Classifier, Smoothed])
def test_loop_lanes_and_stacks_agree(kind: type[CausalLM], monkeypatch: pytest.MonkeyPatch) -> None:
    labels = DATA["input_ids"][:, 0] % 3 if kind is Classifier else DATA["labels"]
    problem = favano.Problem(PeftModel(made(kind)), (INPUTS, labels), (INPUTS, labels), split="iid")
    loop, lanes = (simulated(problem, engine=engine) for engine in ("loop", "lanes"))
    assert loop.rows == lanes.rows
    assert len(loop.metrics) == (kind is not Smoothed)
    monkeypatch.setattr(engines, "_steps", cpu_stacks)
    stacks = simulated(problem)
    for name, value in loop.models[0].items():
        assert torch.allclose(value, stacks.models[0][name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [Smoothed, LossAlone])
def test_a_loss_that_favano_does_not_know_is_that_of_the_network(kind: type[CausalLM]) -> None:
    whole = {key: part[DATA["attention_mask"].all(1)] for key, part in DATA.items()}
    result = simulated(favano.Problem(made(kind), whole, whole))
    network = made(kind)
    network.load_state_dict(result.models[0])
    assert result.metrics == ()
    assert result.final("loss")[0] < result.rows[0].loss
    own = float(network.eval()(**whole).loss.detach())
    assert result.final("loss")[0] == pytest.approx(own, rel=1e-5)
    tokens = whole["input_ids"], whole["labels"]
    alone = favano.Problem(made(kind), tokens, tokens)
    if kind is LossAlone:
        with pytest.raises(
            BadInput, match=r"is given labels by name, and must be given its inputs"
        ):
            simulated(alone)
        return
    assert len(simulated(alone).rows) == len(result.rows)
    metrics = {"accuracy": favano.accuracy}
    with pytest.raises(BadInput, match=r"^metrics=accuracy: need outputs, but "):
        simulated(favano.Problem(made(kind), whole, whole, metrics=metrics))


def test_a_loss_that_was_chosen_is_not_replaced() -> None:
    """It gets logits with classes as dimension 1, and labels as they are."""

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        assert (logits.shape[1:], labels.shape[1:]) == ((TOKENS, LENGTH), (LENGTH,))
        return functional.cross_entropy(logits, labels)

    problem = favano.Problem(made(), DATA, DATA, loss=loss, metrics={"nll": loss})
    result = simulated(problem, engine="loop", horizon=30)
    network = made()
    network.load_state_dict(result.models[0])
    expected = loss(network(**INPUTS).logits.movedim(-1, 1), DATA["labels"])
    assert result.final("loss")[0] == pytest.approx(float(expected.detach()), rel=1e-4)


class Sum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, points: Tensor, weights: Tensor) -> Tensor:
        output: Tensor = self.layer(points * weights[:, None])
        return output


class OfMapping(Sum):
    def forward(self, batch: Mapping[str, Tensor]) -> Tensor:  # type: ignore[override]
        return super().forward(batch["points"], batch["weights"])


def test_dictionaries_and_tuples_of_tensors() -> None:
    points = torch.randn(120, 3, generator=torch.Generator().manual_seed(0))
    weights, label = torch.linspace(0.5, 2, 120), (points.sum(1) > 0).long()
    named = {"points": points, "weights": weights}
    rows = []
    for kind, inputs in ((Sum, named), (Sum, (points, weights)), (OfMapping, named)):
        torch.manual_seed(0)
        parts = torch.split(torch.arange(120), 40)
        by_client = [(_rows(inputs, part), label[part]) for part in parts]
        problem = favano.Problem(kind(), train=by_client, test=(inputs, label))
        rows.append(favano.simulate("fedavg", problem, selected=2, horizon=60).rows)
        assert len(rows[0]) > 1
    plain = [[row._replace(digest="", model_digest="") for row in each] for each in rows]
    assert plain[0] == plain[1] == plain[2]


def _rows(inputs: Any, part: Tensor) -> Any:
    if isinstance(inputs, dict):
        return {key: value[part] for key, value in inputs.items()}
    return tuple(value[part] for value in inputs)


def test_labels_of_minus_100_count_nowhere() -> None:
    """As if the samples were not there, in loss and accuracy, one label per sample."""
    x = torch.randn(100, 4, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > 0).long()
    bad = y.where(torch.arange(100) != 2, -100)
    with pytest.raises(BadInput, match=r"^test=sample 2: has no label but -100: nothing can be "):
        simulated(favano.Problem(nn.Linear(4, 2), (x, y), (x, bad), split="iid"))
    both = torch.stack([y, y.where(torch.arange(100) % 2 == 0, -100)], 1)
    net = nn.Sequential(nn.Linear(4, 4), nn.Unflatten(1, (2, 2)))
    result = simulated(favano.Problem(net, (x, both), (x, both), split="iid"))
    net.load_state_dict(result.models[0])
    output = net(x)
    expected = functional.cross_entropy(output, both)
    assert result.final("loss")[0] == pytest.approx(float(expected.detach()), rel=1e-4)
    right = (output.argmax(1) == both)[both != -100].float().mean()
    assert result.accuracy[0] == pytest.approx(float(right))
    with pytest.raises(BadInput, match=r"^train=-1: need labels from 0 on$"):
        simulated(favano.Problem(nn.Linear(4, 2), (x, y - 1), (x, y), split="iid"))


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({**DATA, "token_type_ids": DATA["input_ids"]}, None),
        ({"input_ids": DATA["input_ids"], "labels": DATA["labels"][:9]}, "^train=200, 9: need equ"),
        (({"input_ids": DATA["input_ids"], "x": torch.zeros(9)}, DATA["labels"]),
         "^train=9 and 200: need as many rows in each of input_ids, x$"),
        ({key: DATA[key] for key in ("input_ids", "attention_mask")}, None),
    ],
)  # fmt: skip
def test_inputs_that_do_not_fit(data: Any, sentence: str | None) -> None:
    problem = favano.Problem(made(), data, data)
    if sentence is None and "labels" in data:  # CausalLM takes any names
        assert simulated(problem, horizon=10).rows
        return
    with pytest.raises(BadInput, match=sentence or "^train="):
        simulated(problem)


@pytest.mark.slow
def test_runs_are_verified(tmp_path: Path) -> None:
    problem = favano.Problem(PeftModel(made()), DATA, DATA)
    simulated(problem, horizon=40).save(tmp_path / "run")
    verdicts = favano.verify(tmp_path / "run", problem)
    assert [verdict.outcome for verdict in verdicts] == ["proved", "proved"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of other packages
def test_transformers_and_peft_themselves(tmp_path: Path) -> None:
    """Where they are installed; no network and no hub is needed."""
    transformers = pytest.importorskip(
        "transformers", reason="needs pip install favano[huggingface]"
    )
    peft = pytest.importorskip("peft", reason="needs pip install favano[huggingface]")
    torch.manual_seed(0)
    sizes = {"vocab_size": TOKENS, "n_positions": LENGTH, "n_embd": 32, "n_layer": 2, "n_head": 2}
    plain = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes))
    lora = peft.LoraConfig(r=4, target_modules=["c_attn"], task_type="CAUSAL_LM")
    network = peft.get_peft_model(plain, lora)
    trained = sum(p.numel() for p in network.parameters() if p.requires_grad)
    problem = favano.Problem(network, DATA, DATA, batch_size=16)
    loop, lanes = (simulated(problem, engine=engine) for engine in ("loop", "lanes"))
    assert loop.rows == lanes.rows
    assert loop.rows[-1].bits_up % (32 * trained) == 0
    favano.load_adapter(network, loop.save_adapter(tmp_path / "adapter.safetensors"))
    own = float(network.eval()(**DATA).loss.detach())
    assert loop.final("loss")[0] == pytest.approx(own, rel=1e-4)
    config = transformers.BertConfig(
        vocab_size=TOKENS, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=LENGTH, num_labels=3,
    )  # fmt: skip
    pair = INPUTS, DATA["input_ids"][:, 0] % 3
    problem = favano.Problem(transformers.BertForSequenceClassification(config), pair, pair)
    assert simulated(problem, learning_rate=0.1).final("loss")[0] < 1.2
