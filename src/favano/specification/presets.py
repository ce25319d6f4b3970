"""The paper's constants for each data set, and how a specification is completed with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import NamedTuple, TypeVar

from favano.data.natural import OWN as OWN
from favano.errors import require
from favano.options import Options, options_of
from favano.specification.fleet_part import FLOPS_PER_SCORE
from favano.specification.parts import RunPart, TrainingPart
from favano.specification.spec import Spec
from favano.user_classes import is_ours

Part = TypeVar("Part", bound=Options)


class Preset(NamedTuple):
    """What the paper (or we, for other data sets) use on a data set.

    In a natural split the data say how many clients there are, and `clients` is not looked at.
    """

    model: str
    split: str
    clients: int
    selected: int
    local_steps: int
    buffer: int
    learning_rate: float
    batch_size: int
    horizon: float
    evaluate_every: float


PRESETS: Mapping[str, Preset] = {
    "digits": Preset("perceptron", "two-class", 30, 6, 20, 5, 0.5, 32, 3000, 50),
    "mnist": Preset("perceptron", "two-class", 100, 20, 20, 10, 0.5, 128, 5000, 50),
    "cifar10": Preset("resnet20", "two-class", 100, 20, 20, 10, 0.005, 128, 10000, 250),
    "tiny-imagenet": Preset("resnet18", "iid", 100, 20, 20, 10, 0.1, 128, 10000, 250),
    "femnist": Preset("leaf-cnn", "column:writer_id", 100, 30, 5, 10, 0.1, 20, 12000, 400),
    "shakespeare": Preset("leaf-lstm", "column:character_id", 100, 100, 5, 10, 4.0, 10, 12000, 600),
    OWN: Preset(OWN, "iid", 20, 5, 20, 5, 0.05, 32, 2000, 50),
}
_OTHER = PRESETS["mnist"]
_CODEC_BITS = {"none": None, "lattice": 14, "min-max": 8, "qsgd": 8}


def preset_of(dataset: str) -> Preset:
    """The constants of a data set; those of MNIST where it is not one of the paper's."""
    return PRESETS.get(dataset, _OTHER)


def resolve(spec: Spec) -> Spec:
    """The same specification with nothing left open.

    What is filled in is not taken as given: where a complete specification is changed, it follows
    the change. Values that the method suggests come before those of the data set.

    >>> from favano.specification.spec import changed, make_spec
    >>> full = resolve(make_spec({"algorithm": "fedprox"}))
    >>> full.training.proximal, resolve(changed(full, {"algorithm": "fedavg"})).training.proximal
    (0.01, None)
    """
    if spec.as_given is not None:
        return spec
    asked = spec
    values = _usual(asked)
    parts = {
        part: filled(getattr(asked, part), values)
        for part in ("problem", "fleet", "clock", "server", "training", "run", "method")
    }
    full = replace(asked, **parts, as_given=asked)
    training = _with_optimiser(_with_recipe(full.training))
    server = filled(full.server, full.server.numbers)
    full = replace(full, training=training, server=server, run=_with_codec(full.run))
    _check_lanes(full)
    _check_kept(full)
    return full


def _usual(spec: Spec) -> dict[str, object]:
    """What is taken for keys that are not given: the method's, else the data set's."""
    preset, steps = preset_of(spec.problem.dataset), spec.training.local_steps
    clients = spec.fleet.clients or (len(steps) if isinstance(steps, tuple) else preset.clients)
    selected = min(preset.selected, clients)
    usual = {**preset._asdict(), "clients": clients, "selected": selected, **spec.method.suggests}
    if is_ours(spec.method):
        divides = getattr(spec.method, "reweight", "none") != "none"
        usual["weights"] = "empirical" if divides and spec.lawless else "exact"
    if spec.fleet.has_phones:
        usual["flops_per_score"] = FLOPS_PER_SCORE
    return {**usual, "local_steps": None} if spec.training.local_epochs else usual


def chosen_keys(spec: Spec) -> dict[str, object]:
    """What was asked for: keys that are neither at their default nor what is taken otherwise."""
    asked = spec.as_given or spec
    usual = _usual(asked)
    if asked.fleet.has_links:
        usual["interaction_time"] = 0.0
    return {key: value for key, value in asked.given.items() if usual.get(key) != value}


def filled(part: Part, values: Mapping[str, object]) -> Part:
    """The part with its open values filled in."""
    missing = {
        name: values[name]
        for name in options_of(type(part))
        if name in values and getattr(part, name) is None
    }
    return replace(part, **missing)  # type: ignore[type-var]


def _with_recipe(training: TrainingPart) -> TrainingPart:
    return training if training.recipe is None else replace(training, **asdict(training.recipe))


def _with_optimiser(training: TrainingPart) -> TrainingPart:
    optimiser = training.local_optimiser
    return training if optimiser.name == "sgd" else filled(training, asdict(optimiser))


def _with_codec(run: RunPart) -> RunPart:
    bits = _CODEC_BITS[run.codec] if run.codec_bits is None else run.codec_bits
    scale = 1e-4 if run.codec == "lattice" and run.codec_scale is None else run.codec_scale
    return replace(run, codec_bits=bits, codec_scale=scale)


def _check_lanes(spec: Spec) -> None:
    stacked = spec.run.device != "cpu" and spec.problem.batch_order == "epoch"
    lanes = stacked and spec.run.engine == "lanes"
    rule = "requires lanes of a GPU: need device=cuda, batch_order=epoch, engine=lanes"
    require(spec.run.precision != "bf16" or lanes, "precision", spec.run.precision, rule)


def _check_kept(spec: Spec) -> None:
    """Refuse to choose a model on test data, or on what clients train on."""
    best, run = spec.run.keep == "best", spec.run
    rule = "requires holdout=N: the best model is chosen on held-out samples, never on test data"
    require(not best or spec.problem.holdout > 0, "keep", run.keep, rule)
    rule = "requires evaluate_on=test or both, whose scores are those of the held-out samples"
    require(not best or run.evaluate_on != "clients", "keep", run.keep, rule)


def check_named(spec: Spec) -> None:
    """Refuse data, a network or a split that only Python can give."""
    for key, what in (("dataset", "data"), ("model", "networks"), ("split", "splits")):
        value = getattr(spec.problem, key)
        require(value != OWN, key, value, f"own {what} can only be run from Python")
