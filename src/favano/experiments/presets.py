"""The paper's constants for each data set, and how a specification is completed with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import NamedTuple

from favano.errors import need
from favano.experiments.method_keys import OWNERS, check_keys, check_options
from favano.experiments.spec import Spec


class Preset(NamedTuple):
    """What the paper (or we, for digits and own data) use on a data set."""

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


OWN = "own"  # the data set, or the network, that was given from Python
PRESETS: Mapping[str, Preset] = {
    "digits": Preset("perceptron", "two-class", 30, 6, 20, 5, 0.5, 32, 3000, 50),
    "mnist": Preset("perceptron", "two-class", 100, 20, 20, 10, 0.5, 128, 5000, 50),
    "cifar10": Preset("resnet20", "two-class", 100, 20, 20, 10, 0.005, 128, 10000, 250),
    "tiny-imagenet": Preset("resnet18", "iid", 100, 20, 20, 10, 0.1, 128, 10000, 250),
    OWN: Preset(OWN, "iid", 20, 5, 20, 5, 0.05, 32, 2000, 50),
}
_OTHER = PRESETS["mnist"]
_ALL_AT_WORK = ("asyncsgd-adaptive", "fedasync")
_LOCAL_STEPS = {"asyncfeded": 10}  # of the first jobs
_PROXIMAL = {"fedasync": 0.005, "fedprox": 0.01}
_CODEC_BITS = {"none": None, "lattice": 14, "min-max": 8, "qsgd": 8}


def resolve(spec: Spec) -> Spec:
    """The same specification with nothing left open; keys of other methods are refused.

    What is filled in is not taken as given: where a complete specification is changed and completed
    again, it follows the change.

    >>> resolve(resolve(Spec(algorithm="fedbuff")).model_copy(update={"selected": 3})).concurrency
    3
    """
    given = {key: getattr(spec, key) for key in spec.model_fields_set}
    setting = {key: value for key, value in given.items() if key not in OWNERS}
    asked, defaults = Spec.model_construct(**given), _complete(Spec.model_construct(**setting))
    check_keys(asked, defaults)
    check_options(asked, defaults)
    return Spec.model_construct(set(given), **dict(_complete(asked)))


def check_named(spec: Spec) -> None:
    """Refuse data or a network that only Python can give."""
    for key in ("dataset", "model"):
        what = "data" if key == "dataset" else "networks"
        value = getattr(spec, key)
        need(value != OWN, key, value, f"own {what} can only be run from Python")


def _complete(spec: Spec) -> Spec:
    preset = PRESETS.get(spec.dataset, _OTHER)
    if spec.algorithm in _LOCAL_STEPS:
        preset = preset._replace(local_steps=_LOCAL_STEPS[spec.algorithm])
    open_keys = {name: value for name, value in preset._asdict().items() if _open(spec, name)}
    full = spec.model_copy(update=open_keys)
    assert full.clients is not None
    assert full.selected is not None
    for name in ("selected", "concurrency"):
        value = getattr(full, name)
        rule = f"need 1..clients ({full.clients})"
        need(value is None or value <= full.clients, name, value, rule)
    adaptive = full.algorithm == "asyncsgd-adaptive"
    # A client that gets the next job itself never makes way for one that is not at work.
    same = full.algorithm == "asyncsgd" and full.assignment == "same"
    everyone = same or full.algorithm in _ALL_AT_WORK
    concurrency = full.clients if everyone else full.selected
    by_algorithm: dict[str, object] = {
        "concurrency": concurrency,
        "assignment": "same" if adaptive else "uniform",
        "delays": "scale" if adaptive else "none",
        "rate_scale": "selected" if full.algorithm == "quafl" else "none",
        "server_learning_rate": 1.0,
        "proximal": _PROXIMAL.get(full.algorithm),
        "codec_bits": _CODEC_BITS[full.codec],
        "codec_scale": 1e-4 if full.codec == "lattice" else None,
    }
    if full.algorithm.startswith("asyncsgd"):
        by_algorithm["server_learning_rate"] = 1.0 / (full.concurrency or concurrency)
    if full.algorithm == "asyncfeded":
        # The server learning rate, lambda / epsilon, is 1 as published. With all n at work,
        # eta = a / (gamma + 1) and gamma ~ n eta settle at eta ~ sqrt(a / n), so that a = 1 hardly
        # learns on the embedded data; a = 2 / n gives eta ~ 1 / n, one mean of all clients for
        # each time round, and does (docs/readings.md).
        by_algorithm["most_local_steps"] = 10 * (full.local_steps or 1)
    lanes = full.device != "cpu" and full.batch_order == "epoch"
    rule = "goes with lanes of a GPU: need device=cuda, batch_order=epoch, and not asyncfeded"
    on_lanes = lanes and full.algorithm != "asyncfeded"
    need(full.precision != "bf16" or on_lanes, "precision", full.precision, rule)
    if full.recipe is not None:
        by_algorithm |= asdict(full.recipe)
    update = {name: value for name, value in by_algorithm.items() if _open(full, name)}
    return full.model_copy(update=update)


def _open(spec: Spec, name: str) -> bool:
    return getattr(spec, name) is None
