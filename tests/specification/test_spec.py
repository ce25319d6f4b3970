"""Specifications: what is refused, by name and rule, and how open keys are filled."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from favano.errors import BadInput
from favano.methods import ClientUpdates, Method, ModelState, our_methods
from favano.options import option, options_of
from favano.planning.planned import bind_method
from favano.policies import Buffered, Rounds
from favano.quantisation import Recipe
from favano.specification.flags import flags_of
from favano.specification.presets import PRESETS, resolve
from favano.specification.spec import Spec, make_spec, part_options
from tests.specs import complete


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"selected": 30, "clients": 20}, r"selected=30: need 1..clients \(20\)"),
        (
            {"algorithm": "fedbuff", "concurrency": 30, "clients": 20},
            r"concurrency=30: need 1..clients \(20\)",
        ),
        ({"local_steps": 0}, r"local_steps=0: need greater than or equal to 1"),
        ({"clients": "many"}, r"clients=many: need a valid integer"),
        (
            {"algorithm": "fedsgd"},
            r"algorithm=fedsgd: unknown; did you mean fedavg\?$",
        ),
        ({"split": "two-clas"}, r"split=two-clas: "),
        ({"split": "shards:0"}, r"split=shards:0: "),
        (
            {"algorithm": "fedbuff", "staleness": "old"},
            r"staleness=old: need constant, polynomial:A",
        ),
        ({"reweight": "maybe"}, r"reweight=maybe: need stochastic, deterministic or none"),
        ({"fast_fraction": 1.2}, r"fast_fraction=1.2: need less than or equal to 1"),
        ({"horizon": 0}, r"horizon=0: need greater than 0"),
        ({"learning_rate": "nan"}, r"learning_rate=nan: need a finite number"),
        ({"slected": 3}, r"slected=3: unknown key; did you mean selected\?$"),
        ({"weights": "given"}, r"weights=given: requires given_weights"),
        ({"given_weights": [1.0]}, r"^given_weights=\[1.0\]: requires weights=given$"),
        ({"codec": "zip"}, r"codec=zip: need none, lattice, min-max or qsgd"),
        ({"codec": "lattice", "codec_bits": 0}, r"codec_bits=0: need greater than or equal to 1"),
        ({"codec": "min-max", "codec_bits": 33}, r"codec_bits=33: need less than or equal to 32"),
        ({"codec": "qsgd", "codec_bits": 1}, r"codec_bits=1: need 2..32 for codec=qsgd"),
        ({"codec_bits": 8}, r"codec_bits=8: requires a codec"),
        ({"codec_scale": 0.1}, r"codec_scale=0.1: requires codec=lattice"),
        ({"codec": "qsgd", "codec_scale": 0.1}, r"codec_scale=0.1: requires codec=lattice"),
        ({"codec": "lattice", "codec_scale": 0}, r"codec_scale=0: need greater than 0"),
        ({"codec": "min-max", "codec_dither": True}, r"codec_dither=True: requires codec=lattice"),
        ({"quantise": "int8"}, r"quantise=int8: need none or luq"),
        ({"weight_bits": 3}, r"weight_bits=3: requires quantise=luq"),
        ({"evaluate_with": "full"}, r"evaluate_with=full: requires quantise=luq"),
        ({"quantise": "luq", "weight_bits": "5"}, r"weight_bits=5: need one of 2, 3, 4, 32"),
        ({"quantise": "luq", "gradient_levels": 9}, r"gradient_levels=9: need 7 or 8"),
        ({"quantise": "luq", "gradient_samples": 0}, r"gradient_samples=0: need greater than or"),
        ({"quantise": "luq", "quantiser_grid": "min"}, r"quantiser_grid=min: need sawb or relea"),
        ({"quantise": "luq", "track_bound": True}, r"track_bound=True: need quantise=none"),
        ({"quantise": "luq", "precision": "bf16"}, r"precision=bf16: requires lanes of a GPU"),
        ({"device": "cuda", "precision": "bf16", "engine": "loop"}, r"precision=bf16: requires"),
        ({"engine": "pool"}, r"engine=pool: need lanes or loop"),
        ({"optimiser": "rmsprop"}, r"optimiser=rmsprop: need sgd, adam or adamw"),
        ({"beta2": 0.9}, r"beta2=0.9: requires optimiser=adam or adamw"),
        ({"epsilon": 1.0, "momentum": 0.9}, r"epsilon=1.0: requires optimiser=adam or adamw"),
        ({"momentum": 1.0}, r"momentum=1.0: need less than 1"),
        ({"nesterov": True}, r"nesterov=True: requires optimiser=sgd and a momentum"),
        ({"optimiser": "adam", "nesterov": True}, r"nesterov=True: requires optimiser=sgd and"),
        ({"clip": 0}, r"clip=0: need greater than 0"),
        ({"optimiser_state": "kept"}, r"optimiser_state=kept: requires a momentum, optimiser=ad"),
        ({"clip": 1, "optimiser_state": "kept"}, r"optimiser_state=kept: requires a momentum"),
        (
            {"momentum": 0.9, "track_bound": True},
            r"track_bound=True: need plain SGD and no serv",
        ),
        ({"algorithm": "scaffold", "momentum": 0.9}, r"momentum=0.9: need plain steps with scaf"),
        ({"algorithm": "scaffold", "optimiser": "adam"}, r"optimiser=adam: need plain steps wit"),
        ({"rate_schedule": "sine"}, r"rate_schedule=sine: need constant, linear\[:END\]"),
        ({"rate_length": 5}, r"rate_length=5.0: requires a rate_schedule"),
        ({"rate_over": "steps"}, r"rate_over=steps: requires a rate_schedule or a warm_up"),
        ({"rate_over": "steps", "rate_schedule": "linear"}, r"rate_over=steps: need rate_length"),
        ({"rate_decay": True, "rate_schedule": "linear"}, r"rate_decay=True: is a schedule of it"),
        ({"server_momentum": 0.9}, r"server_momentum=0.9: requires server_optimiser=momentum or"),
        (
            {"server_optimiser": "adagrad", "server_beta2": 0.9},
            r"server_beta2=0.9: requires server_optimiser=adam or yogi",
        ),
        ({"server_optimiser": "sgd"}, r"server_optimiser=sgd: need none, momentum, adagrad, ada"),
    ],
)
def test_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=f"^{message}"):
        resolve(make_spec(values))


def test_the_papers_constants() -> None:
    mnist = complete(dataset="mnist", algorithm="fedbuff")
    names = ("clients", "selected", "local_steps", "buffer", "batch_size")
    assert [mnist.keys[name] for name in names] == [100, 20, 20, 10, 128]
    assert [mnist.keys[name] for name in ("learning_rate", "horizon", "model")] == [
        0.5,
        5000,
        "perceptron",
    ]
    assert complete(dataset="cifar10").training.learning_rate == 0.005
    assert complete(dataset="tiny-imagenet").problem.split == "iid"
    times = ("waiting_time", "interaction_time", "fast_mean", "slow_mean")
    assert [mnist.keys[name] for name in times] == [4, 3, 2, 16]


@pytest.mark.parametrize("dataset", [*PRESETS, "some/folder"])
@pytest.mark.parametrize("algorithm", list(our_methods()))
def test_nothing_stays_open(dataset: str, algorithm: str) -> None:
    spec = complete(dataset=dataset, algorithm=algorithm)
    without = {"mean", "deadline", "codec_bits", "codec_scale", *Recipe.__dataclass_fields__}
    without |= {
        "local_epochs",
        "rate_length",
        "momentum",
        "beta2",
        "epsilon",
        "weight_decay",
        "clip",
    }
    without |= {
        "server",
        "server_optimiser_rate",
        "server_momentum",
        "server_epsilon",
        "server_beta2",
    }
    without |= {
        "fleet",
        "flops_per_second",
        "flops_per_score",
        "server_link",
        "timeout",
        "faults",
        "joules_per_step",
        "watts",
        "joules_per_byte",
        "group",
    }
    if "proximal" not in spec.method.suggests:
        without |= {"proximal"}
    parts = {key: value for key, value in spec.keys.items() if key in part_options()}
    assert {key for key, value in parts.items() if value is None} == without


def test_numbers_of_an_optimiser_are_filled_in() -> None:
    """Those that are given stay, also a zero."""
    adam = complete(optimiser="adamw", beta2=0.0).training
    assert (adam.momentum, adam.beta2, adam.epsilon, adam.weight_decay) == (0.9, 0.0, 1e-8, 0.01)
    server = complete(algorithm="fedavg", server_optimiser="yogi", server_beta2=0.0).server
    assert (server.server_optimiser_rate, server.server_beta2) == (0.01, 0.0)
    plain = complete(algorithm="fedavg", server_optimiser="momentum", momentum=0.5)
    assert (plain.server.server_momentum, plain.server.server_epsilon) == (0.9, None)
    assert (plain.training.momentum, plain.training.weight_decay) == (0.5, None)


def test_options_that_stay_open_are_found_by_the_method() -> None:
    """What they stand for depends on the run, which the method sees when it is bound."""
    open_keys = {
        name: {
            key
            for key, declared in options_of(kind).items()
            if complete(algorithm=name).keys[key] is None
        }
        for name, kind in our_methods().items()
    }
    assert {name: keys for name, keys in open_keys.items() if keys} == {
        "fedbuff": {"check_in_rate", "concurrency", "max_staleness"},
        "asyncsgd": {"concurrency", "server_learning_rate"},
        "asyncsgd-adaptive": {"concurrency", "server_learning_rate"},
        "fedasync": {"concurrency", "max_staleness"},
        "asyncfeded": {"most_local_steps"},
        "asofed": {"concurrency"},
    }


def at_work(**keys: object) -> tuple[object, object]:
    """Clients at work, and the step of the server on one of them."""
    method = bind_method(complete(**keys), 0)
    policy = method.policy()
    assert isinstance(policy, Buffered)
    first, zero = np.zeros(1, dtype=np.int64), torch.zeros(1, 1)
    updates = ClientUpdates(first, first + 1, first, np.ones(1), 0, zero + 1, zero)
    model = method.aggregate(method.init(torch.zeros(1)), updates).model
    return policy.concurrency, -float(model[0])


def test_defaults_by_algorithm() -> None:
    assert complete(algorithm="quafl").keys["rate_scale"] == "selected"
    assert complete(algorithm="favano").keys["rate_scale"] == "none"
    keys: dict[str, object] = {"clients": 50, "selected": 10}
    plain = complete(algorithm="asyncsgd", **keys)
    assert (plain.keys["assignment"], plain.keys["delays"]) == ("uniform", "none")
    assert at_work(algorithm="asyncsgd", **keys) == (10, pytest.approx(0.1))
    adaptive = complete(algorithm="asyncsgd-adaptive", **keys)
    assert (adaptive.keys["assignment"], adaptive.keys["delays"]) == ("same", "scale")
    assert at_work(algorithm="asyncsgd-adaptive", **keys) == (50, pytest.approx(1 / 50))


def test_everybody_is_at_work_where_clients_get_the_next_job_themselves() -> None:
    """Those not at work would never be trained."""
    keys: dict[str, object] = {"algorithm": "asyncsgd", "clients": 50, "selected": 10}
    keys |= {"assignment": "same"}
    assert at_work(**keys) == (50, pytest.approx(1 / 50))
    assert at_work(**keys, concurrency=20) == (20, pytest.approx(1 / 20))
    assert at_work(algorithm="fedbuff", clients=50, selected=10)[0] == 10


def test_defaults_by_codec() -> None:
    lattice = complete(codec="lattice")
    assert (lattice.run.codec_bits, lattice.run.codec_scale) == (14, 1e-4)
    for codec in ("min-max", "qsgd"):
        other = resolve(make_spec({"codec": codec}))
        assert (other.run.codec_bits, other.run.codec_scale) == (8, None)
    assert complete(codec="lattice", codec_bits=5).run.codec_bits == 5
    assert resolve(complete()) == complete()


def test_defaults_of_few_bits() -> None:
    spec = resolve(make_spec({"quantise": "luq", "activation_bits": "4"}))
    assert spec.training.recipe == Recipe(activation_bits=4)
    assert (
        spec.training.weight_bits,
        spec.training.gradient_levels,
        spec.training.evaluate_with,
    ) == (3, 7, "quantised")
    assert complete().training.recipe is None


def test_asyncfeded_steps_as_published() -> None:
    """lambda = epsilon, whatever the number of clients."""
    assert complete(algorithm="asyncfeded").keys["server_learning_rate"] == 1.0


def test_given_keys_are_kept() -> None:
    spec = complete(dataset="mnist", clients=40, selected=8, learning_rate=0.1, horizon=70)
    assert (
        spec.fleet.clients,
        spec.clock.selected,
        spec.training.learning_rate,
        spec.run.horizon,
    ) == (40, 8, 0.1, 70)


def test_a_preset_selects_all_clients_at_most() -> None:
    """Methods that do not look at it need not be given a number that fits."""
    full = complete(dataset="mnist", clients=10)
    assert full.clock.selected == 10
    assert resolve(make_spec(full.keys)) == full


def test_fractions_may_be_written_as_such() -> None:
    assert make_spec({"fast_fraction": "1/9"}).fleet.fast_fraction == pytest.approx(1 / 9)


class Clashing(Method[ModelState]):
    """Has an option of its own that any run has."""

    momentum: float = option(0.5, "how fast")

    def policy(self) -> Rounds:
        return self.context.rounds()

    def aggregate(self, state: ModelState, updates: ClientUpdates) -> ModelState:
        return state


def test_options_of_a_method_have_names_of_their_own() -> None:
    """A file could not tell them apart."""
    rule = "algorithm=clashing: has options that are keys of any run: momentum; rename them"
    with pytest.raises(BadInput, match=rule):
        Spec(method=Clashing())  # type: ignore[arg-type]


@pytest.mark.parametrize(("clients", "selected"), [(1, 1), (29, 29), (30, 30), (31, 30)])
def test_few_clients_of_a_natural_split_are_all_selected(clients: int, selected: int) -> None:
    """The data may have fewer than the preset selects; what is given stays."""
    natural = complete(dataset="femnist", clients=clients)
    assert natural.clock.selected == selected
    given = complete(dataset="femnist", clients=clients, selected=1)
    assert given.clock.selected == 1


def test_flags_give_the_interaction_time_that_links_would_change() -> None:
    asked = make_spec({"link": "home", "interaction_time": 3.0})
    assert flags_of(asked) == [
        "--algorithm",
        "favano",
        "--link",
        "home",
        "--interaction-time",
        "3.0",
    ]
    assert "--interaction-time" not in flags_of(make_spec({"interaction_time": 3.0}))
