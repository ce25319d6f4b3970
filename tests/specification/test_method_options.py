"""A key that a method does not look at is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from favano.errors import BadInput
from favano.methods import our_methods
from favano.planning.comparison import comparison
from favano.run.result_folder import read_spec
from favano.specification.presets import resolve
from favano.specification.spec import Spec, make_spec
from tests.MISSING import OWNERS

FOREIGN: list[tuple[str, str, object, str]] = [
    ("favano", "server_learning_rate", 0.01, "fedavg"),
    ("fedbuff", "latency", "none", "asyncsgd, asyncsgd-adaptive, fedasync, asyncfeded"),
    ("fedbuff", "rate_scale", "selected", "favano, quafl"),
    ("favano", "rate_scale", "buffer", "fedbuff"),
    ("scaffold", "sample_weights", True, "fedavg, fedprox, fednova, aafl, fedfix"),
    ("aafl", "max_staleness", 0, "fedbuff, fedasync"),
    ("fedavg", "mixing", 0.3, "fedasync"),
    ("favano", "deadline", 40.0, "fedavg, fedprox, fednova, scaffold"),
    ("quafl", "buffer", 3, "fedbuff"),
    ("favano", "concurrency", 3, "fedbuff"),
]


@pytest.mark.parametrize(("algorithm", "key", "value", "owners"), FOREIGN)
def test_a_key_of_another_method_is_refused(
    algorithm: str, key: str, value: object, owners: str
) -> None:
    spec = make_spec({"algorithm": algorithm, key: value})
    with pytest.raises(BadInput, match=f"^{key}={value}: is a key of ") as refused:
        resolve(spec)
    assert owners in str(refused.value)
    assert str(refused.value).endswith(f"not of {algorithm}")


def test_every_key_names_methods_that_there_are() -> None:
    assert {key for key in OWNERS if key not in Spec.model_fields} == set()
    assert {name for owners in OWNERS.values() for name in owners} <= set(our_methods())


@pytest.mark.parametrize("algorithm", list(our_methods()))
def test_a_complete_specification_can_be_given_again(algorithm: str) -> None:
    """It holds keys of other methods, at the values that would be filled in anyway."""
    full = resolve(make_spec({"algorithm": algorithm, "selected": 4}))
    assert resolve(make_spec(full.model_dump())) == full


@pytest.mark.parametrize(
    "keys",
    [
        {"algorithm": "fedavg", "mixing": 0.6},  # the default
        {"algorithm": "favano", "server_learning_rate": 1.0},
        {"algorithm": "fedbuff", "selected": 3, "waiting_time": 2.0, "strict_ties": True},
    ],
)
def test_defaults_and_keys_of_the_setting_pass(keys: dict[str, object]) -> None:
    assert resolve(make_spec(keys)).algorithm == keys["algorithm"]


def test_in_a_comparison_one_method_must_look_at_a_key() -> None:
    favano, fedasync = comparison({"mixing": 0.3}, "favano,fedasync", [])
    assert (favano.mixing, fedasync.mixing) == (0.6, 0.3)
    quafl, fedbuff = comparison({"rate_scale": "buffer"}, "quafl,fedbuff", [])
    assert (quafl.rate_scale, fedbuff.rate_scale) == ("selected", "buffer")
    with pytest.raises(BadInput, match=r"^mixing=0.3: is a key of fedasync, not of favano$"):
        comparison({"mixing": 0.3}, "favano,fedavg", [])
    with pytest.raises(BadInput, match=r"^mixing=0.3: is a key of fedasync, not of favano$"):
        comparison({}, "favano,fedasync", ["favano.mixing=0.3"])


def test_a_file_is_refused_as_flags_are(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('algorithm = "fedavg"\nmixing = 0.3\n', encoding="utf-8")
    with pytest.raises(BadInput, match=r"^mixing=0.3: is a key of fedasync, not of fedavg$"):
        resolve(read_spec(file))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"algorithm": "fedbuff", "buffer_mode": "block", "concurrency": 3},
         "concurrency=3: goes with buffer_mode=concurrency; in mode block all clients are at work"),
        ({"algorithm": "fedbuff", "buffer_mode": "reset", "max_staleness": 3},
         "max_staleness=3: has no effect with buffer_mode=reset; leave it out"),
        ({"reweight": "none", "weights": "empirical"},
         "weights=empirical: has no effect with reweight=none, which divides by nothing; "
         "leave it out"),
        ({"algorithm": "fedavg", "at_deadline": "take"},
         "at_deadline=take: goes with a deadline"),
        ({"algorithm": "aafl", "arrival_weights": "mean", "sample_weights": True},
         "sample_weights=True: has no effect with arrival_weights=mean, which weighs all alike; "
         "leave it out"),
        ({"step_law": "trace:x.csv", "fast_mean": 3.0},
         "fast_mean=3.0: has no effect with a trace, which says how fast each client is; "
         "leave it out"),
    ],
)  # fmt: skip
def test_a_key_that_another_one_makes_meaningless(keys: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput) as refused:
        resolve(make_spec(keys))
    assert str(refused.value) == message
