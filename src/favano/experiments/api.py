"""The same from Python: one call with your own network and tensors, or with neither."""

from __future__ import annotations

import sys
from pathlib import Path

from torch import nn
from torch.nn import functional

from favano.errors import need
from favano.experiments.method_keys import applies
from favano.experiments.presets import OWN, Preset, resolve
from favano.experiments.progress import Progress
from favano.experiments.result import Interrupted, Result
from favano.experiments.runner import run
from favano.experiments.samples import (
    ModelFactory,
    Pair,
    load_samples,
    named_model,
    own_samples,
)
from favano.experiments.spec import Spec
from favano.training import Loss


def simulate(
    spec: Spec,
    *,
    model: nn.Module | ModelFactory | None = None,
    train: Pair | None = None,
    test: Pair | None = None,
    loss: Loss = functional.cross_entropy,
    data_dir: Path | None = None,
    progress: Progress | None = None,
) -> Result:
    """Run a specification and return its history and final models.

    Args:
        spec: what to run; open keys take the paper's constants for the data set. With your own data
            they take neutral values, which are printed.
        model: your network: a module, whose weights are then the initial ones of every seed, or a
            function that makes one, called once a seed; by default the one the data set is
            trained with in the paper.
        train: your samples and labels 0..classes-1; by default the data set of the specification.
        test: the same for evaluation.
        loss: of a batch of outputs and labels.
        data_dir: where the Parquet files of a named data set lie.
        progress: hears how far the run is.

    Ctrl-C raises `Interrupted`, a `KeyboardInterrupt` whose `result` is what was measured.
    """
    need((train is None) == (test is None), "test", "None", "goes with train: give both or neither")
    if train is not None and test is not None:
        need(model is not None, "model", "None", "need a network for your own data")
        spec = _completed(_with_own(_with_own(spec, "model"), "dataset"))
        for key in ("normalise", "holdout", "data_fraction"):
            unset = getattr(spec, key) == Spec.model_fields[key].default
            need(unset, key, getattr(spec, key), "is for data sets by name; prepare your own data")
        samples = own_samples(train, test, spec.device, loss)
    else:
        need(spec.dataset != OWN, "dataset", OWN, "need train and test, your own data")
        spec = resolve(spec if model is None else _with_own(spec, "model"))
        samples = load_samples(spec, data_dir)
    result = run(spec, samples, model or named_model(spec, samples), progress=progress)
    if result.interrupted:
        raise Interrupted(result)
    if result.error is not None:
        raise result.error
    return result


def _with_own(spec: Spec, key: str) -> Spec:
    """The specification of a run with the caller's data or network; another name is refused."""
    what = "own data were" if key == "dataset" else "a network of your own was"
    value = getattr(spec, key)
    unnamed = value in (None, OWN) or key not in spec.model_fields_set
    need(unnamed, key, value, f"{what} given; leave it out")
    return spec.model_copy(update={key: OWN})


def _completed(spec: Spec) -> Spec:
    """Nothing left open; what was is printed, since nobody chose it for these data."""
    full = resolve(spec)
    taken = [
        f"{key}={getattr(full, key)}"
        for key in Preset._fields
        if getattr(spec, key) is None and applies(key, getattr(full, key), spec.algorithm)
    ]
    if taken:
        print(f"favano: own data; not given, so taken: {', '.join(taken)}", file=sys.stderr)
    return full
