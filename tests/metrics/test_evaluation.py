"""Scores in batches equal scores in one piece, in evaluation mode."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from favano.metrics import Evaluator, Score, evaluation
from favano.quantisation import Recipe, quantised
from favano.training import FlatModel


def test_batches_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 3))
    flat = FlatModel(module, device="cpu")
    features, labels = torch.randn(50, 4), torch.randint(0, 3, (50,))
    evaluate = Evaluator(flat, features, labels, functional.cross_entropy)
    vector = flat.snapshot()
    whole = evaluate(vector)
    monkeypatch.setattr(evaluation, "_NUMBERS", 7 * features[0].numel())
    parts = evaluate(vector)
    assert parts == pytest.approx(whole)
    output = module.eval()(features).detach()
    assert whole.loss == pytest.approx(float(functional.cross_entropy(output, labels)), rel=1e-5)
    assert whole.accuracy == pytest.approx(float((output.argmax(1) == labels).float().mean()))
    assert torch.equal(flat.snapshot(), vector)  # buffers did not move


def test_quantised_models_are_scored_as_they_are_trained_or_in_full() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    features, labels = torch.randn(50, 4), torch.randint(0, 3, (50,))

    def score(recipe: Recipe | None) -> Score:
        flat = FlatModel(quantised(module, recipe), device="cpu")
        return Evaluator(flat, features, labels, functional.cross_entropy)(flat.snapshot())

    plain, few = score(None), score(Recipe())
    assert score(Recipe(evaluate_with="full")) == plain
    assert few.loss != plain.loss
    rounded = quantised(module, Recipe()).eval()(features).detach()
    assert few.loss == pytest.approx(float(functional.cross_entropy(rounded, labels)), rel=1e-5)
