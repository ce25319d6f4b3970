"""Comparisons: shared keys, keys of one method, variants of one method, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from favano.errors import BadInput
from favano.planning.comparison import DEFAULT, chosen, comparison, keys_for, left_without
from favano.records.folder import folder_name
from favano.specification.config import config_of
from favano.specification.spec import Spec

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_method.py"


def named(*names: str) -> list[dict[str, object]]:
    return [{"algorithm": name} for name in names]


def names_of(specs: list[Spec]) -> list[str]:
    return [spec.name for spec in specs]


def test_files_and_flags() -> None:
    file = config_of(
        {
            "fleet": {"clients": 20},
            "method": [{"name": "favano"}, {"name": "quafl", "rate_scale": "none"}],
        }
    )
    specs = comparison(file.shared, chosen(file.methods, []), ["quafl.dampening=true"])
    assert names_of(specs) == ["favano", "quafl"]
    assert [spec.fleet.clients for spec in specs] == [20, 20]
    assert [spec.keys["rate_scale"] for spec in specs] == ["none", "none"]
    assert [spec.keys.get("dampening") for spec in specs] == [None, True]
    (alone,) = comparison(file.shared, chosen(file.methods, named("quafl")))
    assert (alone.name, alone.keys["rate_scale"]) == ("quafl", "none")
    other = chosen(file.methods, named("fedavg", "quafl"))
    assert names_of(comparison(file.shared, other)) == ["fedavg", "quafl"]


def test_a_method_in_a_file_is_set_by_its_printed_name_its_place_or_its_label() -> None:
    place = f"{EXAMPLE}:Ca2fl"
    methods = named("fedbuff", place)
    for name in ("ca2fl", place):
        specs = comparison({}, methods, [f"{name}.buffer=3"])
        assert names_of(specs) == ["fedbuff", "ca2fl"]
        assert [spec.keys["buffer"] for spec in specs] == [5, 3]
    labelled = named("fedbuff", place)
    labelled[1]["label"] = "mine"
    _, mine = comparison({}, labelled, ["mine.buffer=3"])
    assert mine.keys["buffer"] == 3
    with pytest.raises(BadInput, match=r"^set=ca2fl: not compared; need one of fedbuff, mine$"):
        comparison({}, labelled, ["ca2fl.buffer=3"])
    ours, other = comparison({}, named("fedbuff", "fedbuff"), ["fedbuff.buffer=3"])
    assert (ours.keys["buffer"], other.keys["buffer"]) == (3, 5)  # the first of two


def test_the_default_are_the_papers_four() -> None:
    assert names_of(comparison({}, named(*DEFAULT))) == ["favano", "fedavg", "quafl", "fedbuff"]


@pytest.mark.parametrize(
    ("names", "settings", "message"),
    [
        (DEFAULT, ["fedbuff.nonsense=3"], "nonsense=3: unknown key"),
        (DEFAULT, ["fedbuff.bufer=3"], r"bufer=3: unknown key; did you mean buffer\?$"),
        (DEFAULT, ["fedbuff.model=resnet20"], "set=model: must be the same for all methods"),
        (DEFAULT, ["fedbuff.quantise=luq"], "set=quantise: must be the same for all methods"),
        (["favano"], ["x=1"], "set=x=1: need METHOD.KEY=VALUE"),
        (["favano"], ["favano.clients"], "set=favano.clients: need METHOD.KEY=VALUE"),
        (["favano"], ["quafl.dampening=true"], "set=quafl: not compared; need one of favano$"),
        (["favano", "sgd"], [], "algorithm=sgd: unknown; "),
        (["fedavg", "fedavg"], [], "algorithms=fedavg: is named twice; give each variant a label$"),
        (["favano"], ["favano.split=own"], "split=own: own splits can only be run from Python"),
        (DEFAULT, ["fedbuff.split=column:who"], "set=split: must be the same for all methods"),
        (["favano"], ["favano.dataset=own"], "dataset=own: own data can only be run from Python"),
    ],
)
def test_refused(names: list[str], settings: list[str], message: str) -> None:
    with pytest.raises(BadInput, match=f"^{message}"):
        comparison({}, named(*names), settings)


def test_variants_of_one_method_are_named_by_what_sets_them_apart() -> None:
    specs = comparison({}, [
        {"algorithm": "fedbuff"},
        {"algorithm": "fedbuff", "buffer": 3},
        {"algorithm": "fedbuff", "buffer": 3, "buffer_mode": "block"},
    ])  # fmt: skip
    assert names_of(specs) == [
        "fedbuff",
        "FedBuff (buffer=3)",
        "FedBuff (buffer=3, buffer_mode=block)",
    ]
    assert [spec.method.name for spec in specs] == ["fedbuff"] * 3
    assert [spec.keys["buffer"] for spec in specs] == [5, 3, 3]
    assert len({folder_name(spec.name) for spec in specs}) == 3


def test_what_all_variants_share_is_not_in_their_names() -> None:
    shared = {"algorithm": "fedbuff", "buffer": 3}
    specs = comparison({}, [shared, {**shared, "buffer_mode": "block"}])
    assert names_of(specs) == ["fedbuff", "FedBuff (buffer_mode=block)"]


def test_two_variants_that_change_the_same_need_labels() -> None:
    twice: list[dict[str, object]] = [{"algorithm": "fedbuff", "buffer": 3}] * 2
    with pytest.raises(BadInput, match=r"^algorithms=fedbuff: is named twice; give each "):
        comparison({}, twice)


def test_variants_with_labels() -> None:
    specs = comparison({"clients": 20}, [
        {"algorithm": "favano", "label": "FAVANO"},
        {"algorithm": "favano", "label": "small steps", "learning_rate": 0.1},
    ])  # fmt: skip
    assert names_of(specs) == ["FAVANO", "small steps"]
    assert [spec.training.learning_rate for spec in specs] == [0.5, 0.1]
    assert [spec.given["label"] for spec in specs] == ["FAVANO", "small steps"]
    assert [spec.keys["algorithm"] for spec in specs] == ["favano", "favano"]


def test_a_setting_names_a_label_which_may_hold_dots_and_equal_signs_may_follow() -> None:
    both = [
        {"algorithm": "fedbuff", "label": "Z = 0.5 n"},
        {"algorithm": "fedbuff", "label": "v1.2.3"},
    ]
    specs = comparison({}, both, ["v1.2.3.buffer=7", "v1.2.3.staleness=polynomial:0.25"])
    assert [spec.keys["buffer"] for spec in specs] == [5, 7]
    assert specs[1].keys["staleness"] == "polynomial:0.25"
    (spec,) = comparison({}, both[1:], ["v1.2.3.server-learning-rate=0.5"])
    assert spec.keys["server_learning_rate"] == 0.5


def test_a_label_may_hold_an_equal_sign() -> None:
    both = [{"algorithm": "fedbuff", "label": "Z=5"}, {"algorithm": "fedbuff", "label": "Z=3"}]
    specs = comparison({}, both, ["Z=3.buffer=3"])
    assert [spec.keys["buffer"] for spec in specs] == [5, 3]


def test_with_labels_the_name_of_the_method_is_nobodys() -> None:
    both = [{"algorithm": "fedbuff", "label": "A"}, {"algorithm": "fedbuff", "label": "B"}]
    with pytest.raises(BadInput, match=r"^set=fedbuff: not compared; need one of A, B$"):
        comparison({}, both, ["fedbuff.buffer=3"])


def test_times_go_to_the_methods_that_read_them() -> None:
    shared = {"waiting_time": 2.0, "deadline": 40.0, "interaction_time": 1.0}
    specs = comparison(shared, named("favano", "fedavg", "fedbuff"))
    times = [
        (spec.clock.waiting_time, spec.clock.deadline, spec.clock.interaction_time)
        for spec in specs
    ]
    assert times == [(2.0, None, 1.0), (4.0, 40.0, 1.0), (4.0, None, 1.0)]


def test_a_mode_of_fedbuff_reads_the_times_of_rounds() -> None:
    variants = [
        {"algorithm": "fedbuff", "buffer_mode": "reset"},
        {"algorithm": "fedbuff", "buffer_mode": "block"},
    ]
    reset, block = comparison({"deadline": 40.0}, variants)
    assert (reset.clock.deadline, block.clock.deadline) == (40.0, None)


def test_some_methods_of_a_file_leave_the_keys_of_its_others() -> None:
    listed = [
        {"algorithm": "favano"},
        {"algorithm": "fedbuff", "buffer_mode": "reset"},
        {"algorithm": "fedavg"},
    ]
    shared = {"clients": 20, "waiting_time": 2.0, "deadline": 40.0, "dampening": True}
    left = keys_for(shared, listed[1:2], listed)
    assert left == {"clients": 20, "deadline": 40.0, "dampening": True}  # which nobody knows
    assert keys_for(shared, listed[:1], listed).keys() == {"clients", "waiting_time", "dampening"}
    assert keys_for(shared, named("quafl"), listed).keys() == {
        "clients",
        "waiting_time",
        "dampening",
    }
    assert keys_for(shared, listed, listed) == shared


def test_a_time_that_nobody_reads_is_kept_and_refused_where_the_run_is_planned() -> None:
    from favano.planning.planned import check_plans

    specs = comparison({"deadline": 40.0, "horizon": 50.0}, named("favano", "quafl"))
    with pytest.raises(BadInput, match=r"^deadline=40.0: is a key of methods with rounds, which f"):
        check_plans(specs[:1])


@pytest.mark.parametrize("labels", [("a/b", "a b"), ("A", "a"), ("..", "run")])
def test_labels_that_would_share_a_folder(labels: tuple[str, str]) -> None:
    both = [{"algorithm": "fedbuff", "label": label, "buffer": len(label)} for label in labels]
    with pytest.raises(BadInput, match=rf"label={labels[1]}: would have the same folder as "):
        comparison({}, both)


@pytest.mark.parametrize("label", ["report.html", "Resume.JSON", "runs", "spec.toml", "/runs/"])
def test_a_label_whose_folder_would_be_taken_for_something_else(label: str) -> None:
    with pytest.raises(BadInput, match=rf"^label={label}: its folder would be named .*, which is "):
        comparison({}, [{"algorithm": "favano", "label": label}])


def test_a_label_that_no_file_system_takes() -> None:
    with pytest.raises(BadInput, match=r"label=x+\.*: need 200 bytes at most"):
        comparison({}, [{"algorithm": "favano", "label": 201 * "x"}])


@pytest.mark.parametrize(
    "method",
    [
        {"algorithm": "asyncsgd", "assignment": "same", "concurrency": 50},
        {"algorithm": "fedbuff", "buffer": 45, "buffer_mode": "reset"},
        {"algorithm": "favano", "weights": "given", "given_weights": 60 * [0.9]},
    ],
    ids=lambda method: method["algorithm"],
)
def test_methods_are_looked_at_with_the_clients_there_are(method: dict[str, object]) -> None:
    """Not with those of the default fleet, which are fewer."""
    (spec,) = comparison({"clients": 60, "selected": 5, "interaction_time": 2.0}, [method])
    assert spec.fleet.clients == 60
    assert spec.clock.interaction_time == 2.0


def test_a_method_without_meaning_for_a_key_is_named() -> None:
    """In a comparison the others take it; alone it is refused."""
    both = [{"algorithm": "favano"}, {"algorithm": "fedasync", "label": "mixed"}]
    specs = comparison({"sample_weights": True}, both)
    assert [getattr(spec.method, "sample_weights", None) for spec in specs] == [True, None]
    (words,) = left_without({"sample_weights": True}, [spec.method for spec in specs])
    assert words.startswith("mixed runs without sample_weights, which has no meaning there: it mix")
    assert left_without({"sample_weights": False}, [spec.method for spec in specs]) == []


def test_a_number_that_lists_several_values_makes_variants() -> None:
    """Of the methods that have it; what `--set` says of a method holds for all of its variants."""
    both: list[dict[str, object]] = [{"algorithm": "favano"}, {"algorithm": "fedbuff"}]
    shared = {"clients": 20, "learning_rate": "0.1,0.5", "buffer": "2,3"}
    specs = comparison(shared, both, ["fedbuff.buffer_mode=block", "favano.seeds=2"])
    rates = [(spec.name, spec.training.learning_rate, spec.run.seeds) for spec in specs]
    assert rates == [
        ("FAVANO (learning_rate=0.1)", 0.1, 2),
        ("FAVANO (learning_rate=0.5)", 0.5, 2),
        ("FedBuff (learning_rate=0.1, buffer=2)", 0.1, 1),
        ("FedBuff (learning_rate=0.1, buffer=3)", 0.1, 1),
        ("FedBuff (learning_rate=0.5, buffer=2)", 0.5, 1),
        ("FedBuff (learning_rate=0.5, buffer=3)", 0.5, 1),
    ]
    modes = {
        (spec.method.given.get("buffer"), spec.method.given.get("buffer_mode")) for spec in specs
    }
    assert modes == {(None, None), (2, "block"), (3, "block")}


def test_variants_by_a_setting_by_a_file_and_of_a_label() -> None:
    labelled: list[dict[str, object]] = [
        {"algorithm": "favano", "label": "ours"},
        {"algorithm": "fedbuff", "server_learning_rate": [0.1, 1.0]},
    ]
    specs = comparison({"learning_rate": 0.2}, labelled, ["ours.learning_rate=0.1,0.5"])
    assert [(spec.name, spec.training.learning_rate) for spec in specs] == [
        ("ours (learning_rate=0.1)", 0.1),
        ("ours (learning_rate=0.5)", 0.5),
        ("FedBuff (server_learning_rate=0.1)", 0.2),
        ("FedBuff (server_learning_rate=1.0)", 0.2),
    ]


def test_a_comparison_without_lists_is_what_it_was() -> None:
    (spec,) = comparison({"learning_rate": "0.1"}, [{"algorithm": "favano"}])
    assert (spec.name, spec.method.label) == ("favano", "")
    (each,) = comparison({"local_steps": ["2", "3"], "clients": 2, "selected": 1,
                          "split": "iid"}, [{"algorithm": "favano"}])  # fmt: skip
    assert each.training.local_steps == (2, 3)


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"seeds": "1,2"}, "seeds=1,2: is the same for all methods that are compared; need one"),
        ({"seed": [1, 2]}, "seed=[1, 2]: is the same for all methods that are compared; need one"),
        ({"holdout": "100,200"}, "set=holdout: must be the same for all methods"),
        ({"learning_rate": "0.1,0.1"}, "algorithms=FAVANO (learning_rate=0.1): is named twice"),
        ({"learning_rate": "0.1,b"}, "learning_rate=b: need a valid number"),
        ({"local_steps": ["5", "10"]}, "local_steps=5,10: is a number for each client; give"),
        ({"mixing": "0.1,0.2"}, "mixing=0.1,0.2: "),
        ({"split": "iid,two-class"}, "split=iid,two-class: "),
    ],
)
def test_lists_that_are_not_variants_are_refused(keys: dict[str, object], sentence: str) -> None:
    with pytest.raises(BadInput) as refused:
        comparison(keys, [{"algorithm": "favano"}])
    assert str(refused.value).startswith(sentence)
