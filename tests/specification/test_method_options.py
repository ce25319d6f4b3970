"""A key that a method does not look at is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from favano.cli.flags import spec_from
from favano.errors import BadInput
from favano.methods import our_methods
from favano.options import options_of
from favano.planning.comparison import comparison
from favano.planning.planned import check_plans, plan_seed, plan_seeds
from favano.specification.presets import resolve
from favano.specification.spec import make_spec, part_options
from tests.specs import complete

FOREIGN: list[tuple[str, str, object, str]] = [
    ("favano", "server_learning_rate", 0.01, "fedavg"),
    ("fedbuff", "latency", "none", "asyncsgd, fedasync, asyncsgd-adaptive, asyncfeded"),
    ("scaffold", "staleness", "constant", "fedbuff, fedasync"),
    ("aafl", "max_staleness", 0, "fedbuff, fedasync"),
    ("fedavg", "mixing", 0.3, "fedasync"),
    ("quafl", "buffer", 3, "fedbuff"),
    ("favano", "concurrency", 3, "fedbuff"),
]


@pytest.mark.parametrize(("algorithm", "key", "value", "owners"), FOREIGN)
def test_a_key_of_another_method_is_refused(
    algorithm: str, key: str, value: object, owners: str
) -> None:
    with pytest.raises(BadInput, match=f"^{key}={value}: is a key of ") as refused:
        make_spec({"algorithm": algorithm, key: value})
    assert owners in str(refused.value)
    assert str(refused.value).endswith(f"not of {algorithm}")


@pytest.mark.parametrize("algorithm", ["fedasync", "asyncfeded"])
def test_samples_have_no_meaning_where_nothing_is_averaged(algorithm: str) -> None:
    with pytest.raises(BadInput, match=f"^sample_weights=True: has no meaning with {algorithm}: "):
        make_spec({"algorithm": algorithm, "sample_weights": True})


def test_all_other_methods_weigh_by_samples() -> None:
    without = {name for name, kind in our_methods().items() if not hasattr(kind, "sample_weights")}
    assert without == {"fedasync", "asyncfeded"}


def test_the_theorem_is_not_about_weighted_clients() -> None:
    with pytest.raises(BadInput, match="need sample_weights=false"):
        make_spec({"sample_weights": True, "track_bound": True})


@pytest.mark.parametrize(
    ("algorithm", "value", "choices"),
    [("fedbuff", "selected", "none or buffer"), ("favano", "buffer", "none or selected")],
)
def test_a_value_of_another_method_is_refused(algorithm: str, value: str, choices: str) -> None:
    with pytest.raises(BadInput, match=f"^rate_scale={value}: need {choices}$"):
        make_spec({"algorithm": algorithm, "rate_scale": value})


@pytest.mark.parametrize(
    ("algorithm", "key", "value", "owners"),
    [
        ("favano", "deadline", 40.0, "rounds"),
        ("fedbuff", "round_time", "mean", "rounds"),
        ("fedavg", "waiting_time", 2.0, "polls"),
        ("fedbuff", "strict_ties", True, "polls"),
        ("asyncfeded", "step_count", "literal", "polls"),
    ],
)
def test_a_time_that_no_contact_reads_is_refused(
    algorithm: str, key: str, value: object, owners: str
) -> None:
    spec = complete(algorithm=algorithm, **{key: value})
    with pytest.raises(BadInput) as refused:
        plan_seed(spec, 0)
    rule = f"is a key of methods with {owners}, which {algorithm} does not have"
    assert str(refused.value) == f"{key}={value}: {rule}"


@pytest.mark.parametrize(
    ("algorithm", "options", "key", "value"),
    [
        *(
            (name, {}, "selected", 4)
            for name in (
                *("aafl", "asofed", "asyncfeded", "asyncsgd-adaptive", "fedasync", "fedfix"),
            )
        ),
        ("fedbuff", {"buffer_mode": "block"}, "selected", 4),
        ("asyncsgd", {"assignment": "same"}, "selected", 4),
        ("asyncsgd", {"concurrency": 3}, "selected", 4),
        ("asyncsgd", {}, "local_steps", 4),
        ("asyncsgd", {}, "local_steps", (4, 5) * 15),
        ("asyncsgd-adaptive", {}, "local_epochs", 2),
    ],
)
def test_a_number_that_no_contact_depends_on_is_refused(
    algorithm: str, options: dict[str, object], key: str, value: object
) -> None:
    with pytest.raises(BadInput) as refused:
        check_plans([complete(algorithm=algorithm, **options, **{key: value})])
    rule = f"has no effect with {algorithm} and its options; remove it"
    assert str(refused.value) == f"{key}={value}: {rule}"


@pytest.mark.parametrize(
    ("key", "value"), [("proximal", 0.1), ("momentum", 0.9), ("variance", "live")]
)
def test_what_acts_after_the_first_step_is_refused_in_jobs_of_one(key: str, value: object) -> None:
    keys: dict[str, object] = {"horizon": 50, key: value}
    with pytest.raises(BadInput, match=f"^{key}={value}: has no effect in jobs of one step"):
        plan_seeds(complete(algorithm="asyncsgd", **keys))
    with pytest.raises(BadInput, match=f"^{key}={value}: has no effect in jobs of one step"):
        plan_seeds(complete(algorithm="fedavg", local_steps=1, **keys))
    assert plan_seeds(complete(algorithm="asyncsgd", gradients_per_job=2, **keys))


def test_in_a_comparison_a_number_goes_to_those_who_read_it() -> None:
    favano, fedasync = comparison({"selected": 4}, methods("favano", "fedasync"))
    assert (favano.clock.selected, fedasync.clock.selected) == (4, 6)
    plan_seed(fedasync, 0)
    with pytest.raises(BadInput, match=r"^selected=4: has no effect with fedasync"):
        plan_seed(comparison({"selected": 4}, methods("fedasync", "aafl"))[0], 0)


def test_fedbuff_reads_the_times_of_rounds_where_it_makes_them() -> None:
    keys: dict[str, object] = {"algorithm": "fedbuff", "buffer_mode": "reset", "horizon": 100}
    assert plan_seed(complete(**keys, deadline=40.0), 0).schedule.updates > 0


def test_no_option_has_the_name_of_a_key_of_any_run() -> None:
    for kind in our_methods().values():
        assert options_of(kind).keys() & part_options().keys() == set()


@pytest.mark.parametrize("algorithm", list(our_methods()))
def test_a_complete_specification_can_be_given_again(algorithm: str) -> None:
    full = complete(algorithm=algorithm, selected=4)
    assert resolve(make_spec(full.keys)) == full
    assert resolve(make_spec(full.given)) == full


@pytest.mark.parametrize(
    "keys",
    [
        {"algorithm": "fedavg", "deadline": None},  # the default
        {"algorithm": "fedbuff", "waiting_time": 4.0},
        {"algorithm": "fedbuff", "selected": 3, "interaction_time": 2.0},
    ],
)
def test_defaults_and_keys_of_the_setting_pass(keys: dict[str, object]) -> None:
    spec = complete(**keys, horizon=50)
    assert plan_seed(spec, 0).spec.method.name == keys["algorithm"]


def methods(*names: str) -> list[dict[str, object]]:
    return [{"algorithm": name} for name in names]


def test_in_a_comparison_one_method_must_look_at_a_key() -> None:
    favano, fedasync = comparison({"mixing": 0.3}, methods("favano", "fedasync"))
    assert "mixing" not in favano.keys
    assert fedasync.keys["mixing"] == 0.3
    quafl, fedbuff = comparison({"buffer": 3}, methods("quafl", "fedbuff"))
    assert "buffer" not in quafl.keys
    assert fedbuff.keys["buffer"] == 3
    with pytest.raises(BadInput, match=r"^rate_scale=buffer: need none or selected$"):
        comparison({"rate_scale": "buffer"}, methods("quafl", "fedbuff"))
    both = comparison({}, methods("quafl", "fedbuff"), ["fedbuff.rate_scale=buffer"])
    assert [spec.keys["rate_scale"] for spec in both] == ["selected", "buffer"]
    refusal = r"^mixing=0.3: is a key of fedasync, not of favano$"
    with pytest.raises(BadInput, match=refusal):
        comparison({"mixing": 0.3}, methods("favano", "fedavg"))
    with pytest.raises(BadInput, match=refusal):
        comparison({}, methods("favano", "fedasync"), ["favano.mixing=0.3"])


def test_a_file_is_refused_as_flags_are(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('[method]\nname = "fedavg"\nmixing = 0.3\n', encoding="utf-8")
    with pytest.raises(BadInput, match=r"^mixing=0.3: is a key of fedasync, not of fedavg$"):
        spec_from(file, {})


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"algorithm": "fedbuff", "buffer_mode": "block", "concurrency": 3},
         "concurrency=3: requires buffer_mode=concurrency; in mode block all clients are at work"),
        ({"algorithm": "fedbuff", "buffer_mode": "reset", "max_staleness": 3},
         "max_staleness=3: has no effect with buffer_mode=reset; remove it"),
        ({"reweight": "none", "weights": "empirical"},
         "weights=empirical: has no effect with reweight=none, which divides by nothing; "
         "remove it"),
        ({"algorithm": "fedavg", "at_deadline": "take"},
         "at_deadline=take: requires a deadline"),
        ({"algorithm": "aafl", "arrival_weights": "mean", "sample_weights": True},
         "sample_weights=True: has no effect with arrival_weights=mean, which weighs all alike; "
         "remove it"),
        ({"algorithm": "quafl", "server_averaging": False, "rate_scale": "none"},
         "rate_scale=none: has no effect with server_averaging=False, where nothing is scaled; "
         "remove it"),
        ({"step_count": "literal", "interruption": "keep"},
         "interruption=keep: has no effect with step_count=literal, where steps have no duration; "
         "remove it"),
        ({"step_count": "literal", "step_law": "exponential"},
         "step_law=exponential: has no effect with step_count=literal, which does not draw step "
         "times; remove it"),
        ({"algorithm": "fedavg", "round_time": "mean", "step_law": "exponential"},
         "step_law=exponential: has no effect with round_time=mean, which does not draw step "
         "times; remove it"),
        ({"step_law": "trace:x.csv", "fast_mean": 3.0},
         "fast_mean=3.0: has no effect with a trace, which says how fast each client is; "
         "remove it"),
    ],
)  # fmt: skip
def test_a_key_that_another_one_makes_meaningless(keys: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput) as refused:
        make_spec(keys)
    assert str(refused.value) == message
