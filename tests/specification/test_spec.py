"""Specifications: what is refused, by name and rule, and how open keys are filled."""

from __future__ import annotations

import pytest

from favano.errors import BadInput
from favano.quantisation import Recipe
from favano.specification.presets import PRESETS, resolve
from favano.specification.spec import make_spec
from tests.specs import spec_of


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"selected": 30, "clients": 20}, r"selected=30: need 1..clients \(20\)"),
        ({"concurrency": 30, "clients": 20}, r"concurrency=30: need 1..clients \(20\)"),
        ({"local_steps": 0}, r"local_steps=0: need greater than or equal to 1"),
        ({"clients": "many"}, r"clients=many: need a valid integer"),
        ({"algorithm": "fedsgd"}, r"algorithm=fedsgd: need one of favano, favano-delta, fedavg"),
        ({"split": "two-clas"}, r"split=two-clas: "),
        ({"split": "shards:0"}, r"split=shards:0: "),
        ({"staleness": "old"}, r"staleness=old: need constant, polynomial:A"),
        ({"reweight": "maybe"}, r"reweight=maybe: need stochastic, deterministic or none"),
        ({"fast_fraction": 1.2}, r"fast_fraction=1.2: need less than or equal to 1"),
        ({"horizon": 0}, r"horizon=0: need greater than 0"),
        ({"learning_rate": "nan"}, r"learning_rate=nan: need a finite number"),
        ({"slected": 3}, r"slected=3: unknown key; did you mean selected\? known: algorithm, data"),
        ({"weights": "given"}, r"weights=given: goes with given_weights"),
        ({"given_weights": [1.0]}, r"weights=exact: goes with given_weights"),
        ({"codec": "zip"}, r"codec=zip: need none, lattice, min-max or qsgd"),
        ({"codec": "lattice", "codec_bits": 0}, r"codec_bits=0: need greater than or equal to 1"),
        ({"codec": "min-max", "codec_bits": 33}, r"codec_bits=33: need less than or equal to 32"),
        ({"codec": "qsgd", "codec_bits": 1}, r"codec_bits=1: need 2..32 for codec=qsgd"),
        ({"codec": "qsgd", "algorithm": "asyncfeded"}, r"codec=qsgd: need none with asyncfeded"),
        ({"codec_bits": 8}, r"codec_bits=8: goes with a codec"),
        ({"codec_scale": 0.1}, r"codec_scale=0.1: goes with codec=lattice"),
        ({"codec": "qsgd", "codec_scale": 0.1}, r"codec_scale=0.1: goes with codec=lattice"),
        ({"codec": "lattice", "codec_scale": 0}, r"codec_scale=0: need greater than 0"),
        ({"codec": "min-max", "codec_dither": True}, r"codec_dither=True: goes with codec=lattice"),
        ({"quantise": "int8"}, r"quantise=int8: need none or luq"),
        ({"weight_bits": 3}, r"weight_bits=3: goes with quantise=luq"),
        ({"evaluate_with": "full"}, r"evaluate_with=full: goes with quantise=luq"),
        ({"quantise": "luq", "weight_bits": "5"}, r"weight_bits=5: need one of 2, 3, 4, 32"),
        ({"quantise": "luq", "gradient_levels": 9}, r"gradient_levels=9: need 7 or 8"),
        ({"quantise": "luq", "gradient_samples": 0}, r"gradient_samples=0: need greater than or"),
        ({"quantise": "luq", "quantiser_grid": "min"}, r"quantiser_grid=min: need sawb or relea"),
        ({"quantise": "luq", "track_bound": True}, r"track_bound=True: need quantise=none"),
        ({"quantise": "luq", "precision": "bf16"}, r"precision=bf16: need tf32 or float32"),
    ],
)
def test_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        make_spec(values)


def test_the_papers_constants() -> None:
    mnist = resolve(spec_of(dataset="mnist"))
    chosen = (mnist.clients, mnist.selected, mnist.local_steps, mnist.buffer, mnist.batch_size)
    assert chosen == (100, 20, 20, 10, 128)
    assert (mnist.learning_rate, mnist.horizon, mnist.model) == (0.5, 5000, "perceptron")
    assert resolve(spec_of(dataset="cifar10")).learning_rate == 0.005
    assert resolve(spec_of(dataset="tiny-imagenet")).split == "iid"
    times = (mnist.waiting_time, mnist.interaction_time, mnist.fast_mean, mnist.slow_mean)
    assert times == (4, 3, 2, 16)


@pytest.mark.parametrize("dataset", [*PRESETS, "some/folder"])
@pytest.mark.parametrize("algorithm", ["favano", "quafl", "asyncsgd", "asyncsgd-adaptive"])
def test_nothing_stays_open(dataset: str, algorithm: str) -> None:
    spec = resolve(spec_of(dataset=dataset, algorithm=algorithm))
    without = {"deadline", "max_staleness", "codec_bits", "codec_scale"}
    without |= set(Recipe.__dataclass_fields__)
    without |= {"proximal", "most_local_steps"}  # methods that have no use for them
    assert {k for k, v in spec.model_dump().items() if v is None} == without


def test_defaults_by_algorithm() -> None:
    assert resolve(spec_of(algorithm="quafl")).rate_scale == "selected"
    assert resolve(spec_of(algorithm="favano")).rate_scale == "none"
    plain = resolve(spec_of(algorithm="asyncsgd", clients=50, selected=10))
    assert (plain.concurrency, plain.assignment, plain.delays) == (10, "uniform", "none")
    assert plain.server_learning_rate == 0.1
    adaptive = resolve(spec_of(algorithm="asyncsgd-adaptive", clients=50, selected=10))
    assert (adaptive.concurrency, adaptive.assignment, adaptive.delays) == (50, "same", "scale")


def test_everybody_is_at_work_where_clients_get_the_next_job_themselves() -> None:
    """Those not at work would never be trained."""
    keys: dict[str, object] = {"algorithm": "asyncsgd", "clients": 50, "assignment": "same"}
    same = resolve(make_spec({**keys, "selected": 10}))
    assert (same.concurrency, same.server_learning_rate) == (50, 1 / 50)
    few = resolve(make_spec({**keys, "selected": 10, "concurrency": 20}))
    assert (few.concurrency, few.server_learning_rate) == (20, 1 / 20)
    assert resolve(spec_of(algorithm="fedbuff", clients=50, selected=10)).concurrency == 10


def test_defaults_by_codec() -> None:
    lattice = resolve(spec_of(codec="lattice"))
    assert (lattice.codec_bits, lattice.codec_scale) == (14, 1e-4)
    for codec in ("min-max", "qsgd"):
        other = resolve(make_spec({"codec": codec}))
        assert (other.codec_bits, other.codec_scale) == (8, None)
    assert resolve(spec_of(codec="lattice", codec_bits=5)).codec_bits == 5
    assert resolve(resolve(spec_of())) == resolve(spec_of())


def test_defaults_of_few_bits() -> None:
    spec = resolve(make_spec({"quantise": "luq", "activation_bits": "4"}))
    assert spec.training.recipe == Recipe(activation_bits=4)
    assert (
        spec.training.weight_bits,
        spec.training.gradient_levels,
        spec.training.evaluate_with,
    ) == (3, 7, "quantised")
    assert resolve(spec_of()).recipe is None


def test_asyncfeded_steps_as_published() -> None:
    """lambda = epsilon, whatever the number of clients."""
    assert resolve(spec_of(algorithm="asyncfeded")).server_learning_rate == 1.0


def test_given_keys_are_kept() -> None:
    spec = resolve(spec_of(dataset="mnist", clients=40, selected=8, learning_rate=0.1, horizon=70))
    assert (
        spec.fleet.clients,
        spec.clock.selected,
        spec.training.learning_rate,
        spec.run.horizon,
    ) == (40, 8, 0.1, 70)


def test_a_preset_that_does_not_fit_is_refused() -> None:
    with pytest.raises(BadInput, match=r"selected=20: need 1..clients \(10\)"):
        resolve(spec_of(dataset="mnist", clients=10))


def test_fractions_may_be_written_as_such() -> None:
    assert make_spec({"fast_fraction": "1/9"}).fast_fraction == pytest.approx(1 / 9)
