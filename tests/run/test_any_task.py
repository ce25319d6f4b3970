"""Tasks of one's own, with the public interface alone: any targets, any loss, any metrics."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import favano
from favano.errors import BadInput
from favano.report import sentence
from favano.report.cells import columns
from favano.report.curves import measures
from favano.results import collect
from favano.run import engines
from favano.specification.keys import Keys
from tests.run.cpu_stacks import cpu_stacks

FLEET = favano.Fleet(clients=6)
KEYS: Keys = {"selected": 3, "local_steps": 4, "learning_rate": 0.1, "horizon": 105.0}
EVERY: Keys = {**KEYS, "evaluate_every": 35.0}
FASTER: Keys = {**EVERY, "learning_rate": 1.0}
LOOP: Keys = {**EVERY, "engine": "loop"}
X = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
Y = X @ torch.tensor([1.0, -2.0, 0.5, 3.0])
CLASSES = (Y > 0).long()


def regression(**changes: object) -> favano.Problem:
    given = {
        "train": (X[:240], Y[:240, None]),
        "test": (X[240:], Y[240:, None]),
        "loss": functional.mse_loss,
        "split": "iid",
        "batch_size": 16,
    }
    given["model"] = lambda: nn.Linear(4, 1)
    return favano.Problem(**{**given, **changes})  # type: ignore[arg-type]


def rounded(values: list[object]) -> list[float]:
    return [round(float(str(value)), 6) for value in values]


def test_regression(tmp_path: Path) -> None:
    mae = favano.Metric(functional.l1_loss, best="low", unit="kW")
    result = favano.simulate("favano", regression(metrics={"mae": mae}), FLEET, **EVERY)
    assert list(result.history)[5:9] == ["bits_down", "loss", "mae", "variance"]
    assert result.history["mae"] == [row.metrics["mae"] for row in result.rows]
    assert result.final() == result.final("mae") == [result.rows[-1].metrics["mae"]]
    assert result.final("loss")[0] < result.rows[0].loss / 2
    model = result.models[0]
    error = (X[240:] @ model["weight"].T + model["bias"] - Y[240:, None]).abs().mean()
    assert result.final("mae") == pytest.approx([float(error)], rel=1e-5)
    result.save(tmp_path / "mine")
    document = json.loads((tmp_path / "mine" / "summary.json").read_text())
    assert document["metrics"] == [{"name": "mae", "best": "low", "unit": "kW"}]
    assert document["runs"][0]["mae"] == result.final()[0]
    assert "accuracy" not in (tmp_path / "mine" / "history.csv").read_text()
    assert favano.load(tmp_path / "mine").history == result.history


def test_targets_of_numpy_are_numbers_like_the_inputs() -> None:
    given = regression(train=(X[:240], Y[:240, None].double().numpy()))
    same = favano.simulate("favano", given, FLEET, **EVERY)
    assert same.rows == favano.simulate("favano", regression(), FLEET, **EVERY).rows


def test_a_column_of_numpy_is_as_any_other() -> None:
    """Its stride is 0 in the dimension of one, which PyTorch does not take everywhere."""
    given = regression(train=(X[:240].numpy(), Y[:240].numpy()[:, None]))
    same = favano.simulate("favano", given, FLEET, **EVERY)
    assert same.rows == favano.simulate("favano", regression(), FLEET, **EVERY).rows


def test_data_are_digested_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise ZeroDivisionError

    trained: list[object] = []
    monkeypatch.setattr("favano.run.samples.data_digest", fail)
    monkeypatch.setattr("favano.run.runner.engine", lambda *runs: trained.append(runs))
    with pytest.raises(ZeroDivisionError):
        favano.simulate("favano", regression(), FLEET, **EVERY)
    assert not trained


def test_without_metrics_the_loss_leads() -> None:
    result = favano.simulate("favano", regression(), FLEET, **EVERY)
    assert list(result.history)[6:8] == ["loss", "variance"]
    assert result.final() == result.final("loss")
    assert str(favano.Comparison([result])).startswith("favano: loss ")


def test_without_metrics_the_loss_leads_over_clients_too(tmp_path: Path) -> None:
    keys: Keys = {**EVERY, "evaluate_on": "both"}
    result = favano.simulate("favano", regression(), FLEET, **keys)
    assert list(result.history)[6:9] == ["loss", "loss_clients", "loss_worst"]
    assert result.final() == result.final("loss") < result.final("loss_worst")
    assert result.client_scores is not None
    assert result.client_scores.metric == "loss"
    result.save(tmp_path / "mine")
    results = collect([tmp_path / "mine"])
    assert list(columns(results))[:3] == ["loss", "loss_clients", "loss_worst"]
    assert "FAVANO reaches loss " in sentence(results)
    assert next(iter(measures(results[0].metrics))) == "loss"


class Recurrent(nn.Module):
    """Logits of the next token, (N, tokens, T)."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.layer = nn.Embedding(5, 6), nn.LSTM(6, 8, batch_first=True)
        self.logits = nn.Linear(8, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        output: Tensor = self.logits(self.layer(self.embedding(tokens))[0])
        return output.transpose(1, 2)


def texts() -> Tensor:
    """Sequences that count up modulo five."""
    return (torch.arange(9) + torch.arange(200)[:, None]) % 5


def test_the_next_token_of_a_sequence() -> None:
    text = texts()
    train, test = (text[:160, :-1], text[:160, 1:]), (text[160:, :-1], text[160:, 1:])
    metrics = {"perplexity": favano.perplexity, "accuracy": favano.accuracy}
    problem = favano.Problem(Recurrent, train, test, split="iid", batch_size=8, metrics=metrics)
    result = favano.simulate("favano", problem, FLEET, **FASTER)
    last = result.rows[-1]
    assert last.metrics["perplexity"] == pytest.approx(math.exp(last.loss))
    assert last.metrics["perplexity"] < 0.8 * result.rows[0].metrics["perplexity"]
    network = Recurrent().eval()
    network.load_state_dict(result.models[0])
    hits = network(test[0]).argmax(dim=1) == test[1]
    assert result.accuracy == pytest.approx([float(hits.double().mean())])


def f1(output: Tensor, target: Tensor) -> float:
    """F1 of class 1: no mean over samples."""
    chosen = output.argmax(dim=1).numpy()
    both = int((chosen & target.numpy()).sum())
    return 2 * both / max(1, int(chosen.sum() + target.numpy().sum()))


def test_a_metric_of_all_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It sees the whole test set at once, however large the batches are."""
    sizes: list[int] = []

    def noted(output: Tensor, target: Tensor) -> float:
        sizes.append(len(output))
        return f1(output, target)

    monkeypatch.setattr("favano.metrics.evaluation._NUMBERS", 7 * 4)
    problem = favano.Problem(
        lambda: nn.Linear(4, 2), train=(X[:240], CLASSES[:240]), test=(X[240:], CLASSES[240:]),
        split="iid", batch_size=16, metrics={"f1": favano.Metric(noted, whole=True)},
    )  # fmt: skip
    result = favano.simulate("favano", problem, FLEET, **EVERY)
    assert set(sizes) == {60, 40}  # the test set, and the samples of a client
    model = result.models[0]
    output = X[240:] @ model["weight"].T + model["bias"]
    assert result.final() == pytest.approx([f1(output, CLASSES[240:])])


def test_a_plain_function_is_a_metric_and_loop_and_lanes_agree() -> None:
    def largest(output: Tensor, target: Tensor) -> Tensor:
        return (output - target).abs().amax(dim=1)

    problem = regression(metrics={"error": largest, "share": lambda o, t: (o > t).float().mean()})
    lanes = favano.simulate("fedbuff", problem, FLEET, **EVERY)
    loop = favano.simulate("fedbuff", problem, FLEET, **LOOP)
    assert rounded(lanes.history["error"]) == rounded(loop.history["error"])
    assert rounded(lanes.history["share"]) == rounded(loop.history["share"])


def test_classification_files_are_as_before(tmp_path: Path) -> None:
    problem = favano.Problem(
        lambda: nn.Linear(4, 2), train=(X[:240], CLASSES[:240]), test=(X[240:], CLASSES[240:]),
        split="two-class", batch_size=16,
    )  # fmt: skip
    favano.simulate("favano", problem, FLEET, **EVERY).save(tmp_path / "mine")
    with (tmp_path / "mine" / "history.csv").open() as file:
        header = next(csv.reader(file))
    assert header == [
        "seed", "time", "server_step", "local_steps", "bits_up", "bits_down", "loss", "accuracy",
        "variance", "potential", "contributed_steps", "model_digest", "digest",
    ]  # fmt: skip
    assert "metrics" not in json.loads((tmp_path / "mine" / "summary.json").read_text())


def vector_loss(output: Tensor, target: Tensor) -> Tensor:
    return (output - target).square().mean(dim=1)


def broken(output: Tensor, target: Tensor) -> Tensor:
    raise RuntimeError("no such thing\nat all")


def run(fleet: favano.Fleet | None = FLEET, **changes: object) -> Callable[[], object]:
    keys: Keys = EVERY if fleet else {**EVERY, "selected": 1}
    return lambda: favano.simulate("favano", regression(**changes), fleet, **keys)


def on_clients(metrics: object) -> Callable[[], object]:
    keys: Keys = {**EVERY, "evaluate_on": "clients"}
    return lambda: favano.simulate("favano", regression(metrics=metrics), FLEET, **keys)


class Pair(nn.Linear):
    """Gives more than its outputs."""

    def __init__(self) -> None:
        super().__init__(4, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs), inputs  # type: ignore[return-value]


class Silent(Pair):
    """Fails without a message."""

    def forward(self, inputs: Tensor) -> Tensor:
        assert inputs.ndim > 2
        return inputs


LATE = torch.where(torch.arange(240) == 200, 7, CLASSES[:240])  # a label of no class
LATE_TEXTS = texts() + 5 * (torch.arange(200)[:, None] == 150)  # tokens that are not embedded


REFUSED: list[tuple[Callable[[], object], str]] = [
    (run(loss=vector_loss), "loss=vector_loss: returns a tensor of shape (16,), need a tensor"),
    (run(loss=broken), "loss=broken: cannot take outputs of shape (1,) and targets of shape (1,):"),
    (run(loss=lambda o, t: t.mean()), "loss=<lambda>: has no gradient"),
    (run(loss=lambda o, t: 3.0), "loss=<lambda>: returns 3.0, need a tensor with one number"),
    (run(train=(X[:240], Y[:240]), test=(X[240:], Y[240:]),
         loss=lambda o, t: (o.squeeze(1) - t).square().mean()),
     "loss=<lambda>: would pair every output with every target: outputs of shape (1,) and"),
    (run(split="two-class"), "split=two-class: deals out by class; targets that are not one class"),
    (run(test=(X[240:], Y[240:])),
     "test=floats of shape (): need targets like those of train, floats of shape (1,)"),
    (run(metrics={"mae": broken}), "metrics=mae: raises RuntimeError: no such thing"),
    (run(metrics={"mae": lambda o, t: "high"}), "metrics=mae: returns str, need a number"),
    (run(metrics={"mae": lambda o, t: (o - t).T}),
     "metrics=mae: returns a tensor of shape (1, 2) for 2 samples, need one number, or one per"),
    (run(metrics={"mae": favano.Metric(lambda o, t: o - t, whole=True)}),
     "metrics=mae: returns a tensor of shape (60, 1) for 60 samples, need one number"),
    (run(metrics={"time": broken}), "metrics=time: is another column; choose another name"),
    (run(metrics={"mae": 3}), "metrics=mae: need names with functions, as "),
    (run(metrics=[broken]), "metrics=list: need names with functions, as "),
    (lambda: favano.Metric(broken, best="lower"), "best=lower: need high or low"),  # type: ignore[arg-type]
    (lambda: favano.Metric(3), "metric=3: need a function of outputs and targets"),  # type: ignore[arg-type]
    (run(metrics={"accuracy": favano.accuracy}), "metrics=accuracy: raises ValueError: needs cl"),
    (run(metrics={"mae": favano.Metric(functional.l1_loss, then=lambda mean: 1 / 0)}),
     "metrics=mae, then: raises ZeroDivisionError: division by zero"),
    (run(metrics={"mae": favano.Metric(functional.l1_loss, then=lambda mean: torch.ones(2))}),
     "metrics=mae, then: returns a tensor of shape (2,) for 2 samples, need one number"),
    (lambda: favano.Metric(broken, then=3), "then=3: need a function of the mean"),  # type: ignore[arg-type]
    (run(metrics={"a\nb": broken}), "metrics='a\\nb': need a text in one line as name"),
    (run(metrics={"loss_worst": broken}), "metrics=loss_worst: is another column; choose another"),
    (run(data_dir="there"), "data_dir=there: is for data sets by name; prepare your own data"),
    (run(metrics={"mean_model_loss": broken}), "metrics=mean_model_loss: is another column; choos"),
    (on_clients({"mae": functional.l1_loss, "mae_worst": functional.l1_loss}),
     "metrics=mae_worst: is the name of a column that evaluate_on=clients adds; choose another"),
    (run(loss=nn.MSELoss(reduction="sum")), "loss=MSELoss: returns the sum over a batch, need the"),
    (run(model=Pair), "model=Pair: gives tuple, need one tensor with an output for each sample"),
    (run(model=Silent), "model=Silent: cannot take a batch of inputs of shape (4,): Asser"),
    (run(model=lambda: nn.MultiheadAttention(4, 3)),
     "model=<lambda>: cannot be made: AssertionError: embed_dim must be divisible by num_heads"),
    (run(train=(X[:240], LATE), test=(X[240:], CLASSES[240:]), loss=nn.CrossEntropyLoss(),
         metrics={}, model=lambda: nn.Linear(4, 2)),
     "loss=CrossEntropyLoss: cannot take targets of train from 0 to 7: IndexError: Target 7 is "),
    (run(train=(texts(), texts()[:, 0]), test=(LATE_TEXTS, texts()[:, 0]), loss=None,
         model=lambda: nn.Sequential(nn.Embedding(5, 2), nn.Flatten(), nn.Linear(18, 5))),
     "model=Sequential: cannot take inputs of test from 0 to 9: IndexError: index out of range"),
    (run(train=(X[:33], Y[:33, None]), split=[range(16), range(16, 33)], fleet=None,
         model=lambda: nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 1))),
     "model=Sequential: cannot train on a batch of one sample, which a client has: ValueError: "),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[text[:40] for _, text in REFUSED])
def test_refused_before_training(
    call: Callable[[], object], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("favano.run.runner.engine", lambda *given: pytest.fail("training began"))
    with pytest.raises(BadInput, match="^" + re.escape(message)) as refused:
        call()
    assert "\n" not in str(refused.value)


def test_own_metrics_on_named_data() -> None:
    problem = favano.Problem(
        dataset="digits", metrics={"perplexity": favano.perplexity}, split="iid", batch_size=16
    )
    result = favano.simulate("favano", problem, FLEET, **EVERY)
    assert result.final() == pytest.approx(np.exp(result.final("loss")).tolist())


def test_evaluation_per_client(tmp_path: Path) -> None:
    ways: list[Keys] = [
        {**EVERY, "seeds": 2, "evaluate_on": "test"},
        {**EVERY, "seeds": 2, "evaluate_on": "clients"},
        {**EVERY, "seeds": 2, "evaluate_on": "both"},
    ]
    problem = favano.Problem(
        lambda: nn.Linear(4, 2), train=(X[:240], CLASSES[:240]), test=(X[240:], CLASSES[240:]),
        split="shards:1", batch_size=16,
    )  # fmt: skip
    test, clients, both = (favano.simulate("favano", problem, FLEET, **keys) for keys in ways)
    assert list(both.history)[7:10] == ["accuracy", "accuracy_clients", "accuracy_worst"]
    assert both.history["accuracy"] == test.history["accuracy"]
    assert both.history["accuracy_clients"] == clients.history["accuracy"]
    assert both.history["accuracy_worst"] == clients.history["accuracy_worst"]
    means, worst = clients.final(), clients.final("accuracy_worst")
    assert all(low < mean for low, mean in zip(worst, means, strict=True))
    both.save(tmp_path / "mine")
    (read,) = favano.load(tmp_path / "mine").results
    assert read.final("accuracy_worst") == worst
    assert [metric.unit for metric in read.metrics] == ["%", "%", "%"]


def test_local_buffers_are_estimated_before_clients_are_scored() -> None:
    network = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 2))
    problem = favano.Problem(
        network, train=(X[:240], CLASSES[:240]), test=(X[240:], CLASSES[240:]), split="iid",
        batch_size=16,
    )  # fmt: skip
    keys: Keys = {**EVERY, "evaluate_on": "both", "buffers": "local"}
    result = favano.simulate("favano", problem, FLEET, **keys)
    assert result.final("accuracy_clients")[0] > 0.5


class Attending(nn.Module):
    """A causal layer of attention, which knows the place of each token."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.places = nn.Embedding(5, 8), nn.Embedding(8, 8)
        self.all, self.logits = nn.Linear(8, 24), nn.Linear(8, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        embedded = self.embedding(tokens) + self.places(torch.arange(tokens.shape[1]))
        query, key, value = self.all(embedded).chunk(3, dim=-1)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        output: Tensor = self.logits(embedded + mixed)
        return output.transpose(1, 2)


def sequences(model: Callable[[], nn.Module]) -> favano.Problem:
    text = texts()
    train, test = (text[:160, :-1], text[:160, 1:]), (text[160:, :-1], text[160:, 1:])

    def sure(output: Tensor, target: Tensor) -> float:  # not for `vmap`
        return float(output.softmax(dim=1).max())

    metrics = {
        "perplexity": favano.perplexity,
        "accuracy": favano.accuracy,
        "sure": favano.Metric(sure),
    }
    return favano.Problem(model, train, test, split="iid", batch_size=7, metrics=metrics)


STACKED = {
    "regression": regression(
        metrics={
            "mae": favano.Metric(functional.l1_loss, best="low"),
            "largest": favano.Metric(lambda o, t: (o - t).abs().max(), best="low", whole=True),
        }
    ),
    "attention": sequences(Attending),
    "recurrent": sequences(Recurrent),
}


@pytest.mark.quick("regression")
@pytest.mark.parametrize("name", STACKED)
def test_stacks_of_models_agree_with_the_loop(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are of several lengths, and many models are scored at once where that is possible."""
    keys: Keys = {**FASTER, "learning_rate": 0.1, "seeds": 2}
    loop = favano.simulate("favano", STACKED[name], FLEET, **keys)
    monkeypatch.setattr(engines, "_steps", cpu_stacks)
    lanes = favano.simulate("favano", STACKED[name], FLEET, **keys)
    assert loop.metrics == lanes.metrics
    for metric in (*loop.rows[0].metrics, "loss", "variance"):
        actual, expected = (
            [float(str(value)) for value in result.history[metric]] for result in (lanes, loop)
        )
        assert actual == pytest.approx(expected, rel=2e-3, abs=1e-6)


def test_clients_are_scored_on_their_own_test_samples() -> None:
    """Client 0 trains on one half-space and client 1 on the other; both are tested on the first."""
    high, low = X[Y > 1][:60], X[Y < -1][:60]
    ones, zeros = torch.ones(60, dtype=torch.long), torch.zeros(60, dtype=torch.long)
    problem = favano.Problem(
        lambda: nn.Linear(4, 2), train=[(high, ones), (low, zeros)], batch_size=16,
        test=[(high[:20], ones[:20]), (high[20:40], zeros[:20])],
    )  # fmt: skip
    keys: Keys = {**EVERY, "selected": 1, "evaluate_on": "both", "learning_rate": 1.0}
    result = favano.simulate("favano", problem, favano.Fleet(clients=2), **keys)
    assert result.client_scores is not None
    own, other = result.client_scores.score
    assert own > 0.9
    assert other < 0.1
    assert result.final("accuracy_clients") == pytest.approx([(own + other) / 2])
    assert result.final("accuracy_worst") == pytest.approx([other])


def test_booleans_and_complex_numbers_are_targets() -> None:
    """Several labels per sample, as 0 and 1; and what only the loss understands."""
    many = torch.stack([Y > 0, X[:, 0] > 0], dim=1)
    labels = regression(
        train=(X[:240], many[:240]), test=(X[240:], many[240:]), model=lambda: nn.Linear(4, 2),
        loss=functional.binary_cross_entropy_with_logits,
    )  # fmt: skip
    losses = favano.simulate("favano", labels, FLEET, **FASTER).history["loss"]
    assert float(str(losses[-1])) < 0.8 * float(str(losses[0]))
    turned = torch.polar(torch.ones(300), X[:, 0])[:, None]

    def distance(angle: Tensor, target: Tensor) -> Tensor:
        return (torch.polar(torch.ones_like(angle), angle) - target).abs().mean()

    angles = regression(train=(X[:240], turned[:240]), test=(X[240:], turned[240:]), loss=distance)
    losses = favano.simulate("favano", angles, FLEET, **FASTER).history["loss"]
    assert float(str(losses[-1])) < 0.8 * float(str(losses[0]))
