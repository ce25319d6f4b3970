"""Scores in batches equal scores in one piece, in evaluation mode."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from favano.metrics import Evaluator, Metric, accuracy, evaluation, perplexity
from favano.models.norm import BatchNorm2d
from favano.quantisation import Recipe, quantised
from favano.training import FlatModel


def test_batches_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 3))
    flat = FlatModel(module, device="cpu")
    features, labels = torch.randn(50, 4), torch.randint(0, 3, (50,))
    evaluate = Evaluator(flat, features, labels, functional.cross_entropy)
    vector = flat.snapshot()
    whole = evaluate.measure(vector).tolist()
    monkeypatch.setattr(evaluation, "_NUMBERS", 7 * features[0].numel())
    parts = evaluate.measure(vector).tolist()
    assert parts == pytest.approx(whole)
    output = module.eval()(features).detach()
    assert whole[0] == pytest.approx(float(functional.cross_entropy(output, labels)), rel=1e-5)
    assert whole[1] == pytest.approx(float((output.argmax(1) == labels).float().mean()))
    assert torch.equal(flat.snapshot(), vector)  # buffers did not move


def convolution() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 4)
    )


def scored(device: str, dtype: torch.dtype, calibration: bool = False) -> tuple[Evaluator, Tensor]:
    """An evaluator, and models that differ in their weights and in their buffers."""
    generator = torch.Generator().manual_seed(1)
    flat = FlatModel(convolution(), device=device, dtype=dtype)
    features = torch.randn(30, 1, 6, 6, generator=generator, dtype=dtype).to(device)
    labels = torch.randint(0, 4, (30,), generator=generator).to(device)
    noise = torch.rand(5, flat.layout.size, generator=generator, dtype=dtype).to(device)
    given = features[:10] if calibration else None
    evaluate = Evaluator(flat, features, labels, functional.cross_entropy, given)
    return evaluate, flat.snapshot() + 0.3 * noise


@pytest.mark.parametrize(("together", "calls"), [(1 << 28, [5]), (2 * 30 * 48, [2, 2, 1])])
def test_many_models_at_once_score_as_one_by_one(
    together: int, calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In float64, with BatchNorm, in one piece or in several; a convolution makes 48 numbers."""
    evaluate, models = scored("cpu", torch.float64)
    pieces, at_once = [], Evaluator._measure_together

    def together_and_noted(self: Evaluator, vectors: Tensor) -> Tensor:
        pieces.append(len(vectors))
        return at_once(self, vectors)

    monkeypatch.setattr(Evaluator, "_measure_together", together_and_noted)
    monkeypatch.setattr(evaluation, "_ACTIVATIONS", together)
    expected = torch.stack([evaluate.measure(model) for model in models])
    assert len(set(expected[:, 0].tolist())) == 5
    assert torch.allclose(evaluate.measure_all(models), expected, rtol=1e-12, atol=1e-12)
    assert pieces == calls


def test_large_test_sets_and_calibrated_models_are_scored_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A model by itself keeps the device busy; or its buffers are estimated first."""

    def never(self: Evaluator, vectors: Tensor) -> Tensor:
        raise AssertionError

    monkeypatch.setattr(Evaluator, "_measure_together", never)
    evaluate, models = scored("cpu", torch.float64, calibration=True)
    expected = torch.stack([evaluate.measure(model) for model in models])
    assert torch.equal(evaluate.measure_all(models), expected)
    monkeypatch.setattr(evaluation, "_NUMBERS", 29 * 36)
    evaluate, models = scored("cpu", torch.float64)
    expected = torch.stack([evaluate.measure(model) for model in models])
    assert torch.equal(evaluate.measure_all(models), expected)


@pytest.mark.gpu
def test_many_models_at_once_score_as_one_by_one_on_cuda() -> None:
    evaluate, models = scored("cuda", torch.float64)
    expected = torch.stack([evaluate.measure(model) for model in models])
    for _ in range(4):  # before the graph is captured, and with it
        for number in (5, 3, 4):
            scores = evaluate.measure_all(models[:number])
            assert torch.allclose(scores, expected[:number], rtol=1e-10, atol=1e-10)


def test_quantised_models_are_scored_as_they_are_trained_or_in_full() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    features, labels = torch.randn(50, 4), torch.randint(0, 3, (50,))

    def score(recipe: Recipe | None) -> list[float]:
        flat = FlatModel(quantised(module, recipe), device="cpu")
        return (
            Evaluator(flat, features, labels, functional.cross_entropy)
            .measure(flat.snapshot())
            .tolist()
        )

    plain, few = score(None), score(Recipe())
    assert score(Recipe(evaluate_with="full")) == plain
    assert few[0] != plain[0]
    rounded = quantised(module, Recipe()).eval()(features).detach()
    assert few[0] == pytest.approx(float(functional.cross_entropy(rounded, labels)), rel=1e-5)


def test_what_cannot_be_scored_at_once_is_scored_one_by_one() -> None:
    """Recurrent layers have no rule for many models; a metric may look at single values."""

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.last = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 2)

        def forward(self, inputs: Tensor) -> Tensor:
            logits: Tensor = self.last(self.layer(inputs)[0][:, -1])
            return logits

    def largest(output: Tensor, target: Tensor) -> float:
        return float(output.max())

    generator = torch.Generator().manual_seed(0)
    features = torch.randn(9, 5, 3, generator=generator)
    labels = torch.randint(0, 2, (9,), generator=generator)
    plain = nn.Sequential(nn.Flatten(), nn.Linear(15, 2))
    cases: list[tuple[nn.Module, dict[str, Metric]]] = [
        (Recurrent(), {"accuracy": accuracy}),
        (plain, {"largest": Metric(largest)}),
        (plain, {"largest": Metric(largest, whole=True), "perplexity": perplexity}),
    ]
    for module, metrics in cases:
        flat = FlatModel(module, device="cpu")
        evaluate = Evaluator(flat, features, labels, functional.cross_entropy, metrics=metrics)
        noise = torch.rand(3, flat.layout.size, generator=generator)
        models = flat.snapshot() + 0.3 * noise
        expected = torch.stack([evaluate.measure(model) for model in models])
        assert torch.allclose(evaluate.measure_all(models), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.gpu
def test_own_metrics_of_many_models_on_cuda() -> None:
    """Ours are in the captured graph; one of the user's may make tensors of its own."""

    def shifted(output: Tensor, target: Tensor) -> Tensor:
        return output.mean() + torch.tensor(1.0, device=output.device)

    plain, models = scored("cuda", torch.float64)
    for metrics in (
        {"perplexity": perplexity, "accuracy": accuracy},
        {"shifted": Metric(shifted), "largest": Metric(lambda o, t: float(o.max()), whole=True)},
    ):
        evaluate = replace(plain, metrics=metrics)
        expected = torch.stack([evaluate.measure(model) for model in models])
        for _ in range(4):  # the graph is captured after a few calls
            scores = evaluate.measure_all(models)
            assert torch.allclose(scores, expected, rtol=1e-10, atol=1e-10)


def test_batches_of_texts_are_small() -> None:
    """A network makes many numbers of each character: a batch must fit into memory."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Embedding(9, 2), nn.Flatten(), nn.Linear(160, 9))
    seen: list[int] = []
    network.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
    texts, labels = torch.randint(0, 9, (2000, 80)), torch.randint(0, 9, (2000,))
    flat = FlatModel(network, device="cpu")
    Evaluator(flat, texts, labels, functional.cross_entropy).measure(flat.snapshot())
    assert seen[3:] == [819, 819, 362]  # the first find out how much memory a sample takes


def test_many_numbers_per_sample_are_one_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss of three numbers per sample, in batches of 4, 4 and 2, and many models at once."""
    torch.manual_seed(0)
    flat = FlatModel(nn.Linear(4, 3), device="cpu", dtype=torch.float64)
    features, targets = (torch.randn(10, width, dtype=torch.float64) for width in (4, 3))

    def loss(output: Tensor, targets: Tensor) -> Tensor:
        return (output - targets) ** 2

    metrics = {"mse": Metric(loss, best="low")}
    evaluate = Evaluator(flat, features, targets, loss, metrics=metrics)
    mean = float(loss(flat.module(features).detach(), targets).mean())
    monkeypatch.setattr(evaluation, "_NUMBERS", 4 * features[0].numel())
    assert evaluate.measure(flat.snapshot()).tolist() == pytest.approx([mean, mean])
    monkeypatch.undo()
    together = evaluate.measure_all(flat.snapshot()[None])
    assert together[0].tolist() == pytest.approx([mean, mean])
