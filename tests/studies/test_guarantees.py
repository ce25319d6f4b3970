"""Documents of the theory for a specification."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from favano.errors import BadInput
from favano.specification.spec import make_spec
from favano.studies.complexity import complexity_document, complexity_rows
from favano.studies.guarantees import (
    advice_of,
    alpha_document,
    bound_document,
    bounds_of,
    make_case,
    rates_of,
    speed_laws,
    steps_document,
)
from favano.theory import TheoryProblem, estimates_of
from tests.specs import spec_of

PAPER = spec_of(dataset="mnist")


def test_the_papers_constants() -> None:
    document = steps_document(PAPER)
    assert document["fast"] == pytest.approx(
        {"p_positive": 0.998428, "mean": 12.492906, "second_moment": 200.12721,
         "mean_inverse": 0.134833}, abs=1e-6,
    )  # fmt: skip
    case = make_case(PAPER)
    assert case.setting().mean_a == pytest.approx(0.3391, abs=5e-5)
    assert case.rounds(None) == 714
    assert case.rounds(9) == 9


def test_a_trace_has_a_law_for_each_client(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("trace") / "steps.csv"
    path.write_text("client,duration\n0,1\n0,3\n1,8\n2,2\n2,2.5\n")
    laws = speed_laws(spec_of(step_law=f"trace:{path}", clients=3, selected=1))
    assert list(laws) == ["class 0", "class 1", "class 2"]
    assert laws["class 2"].mean < laws["class 0"].mean


def test_recordings_of_one_mean_have_laws_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    path.write_text("client,duration\n0,1\n0,30\n1,15.5\n")
    laws = speed_laws(spec_of(step_law=f"trace:{path}", clients=2, selected=1))
    assert laws["fast"].mean != laws["slow"].mean


def test_documents_are_json_and_complete() -> None:
    case = make_case(PAPER)
    alpha = alpha_document(case)
    bound = bound_document(case, TheoryProblem())
    assert bound["rounds"] == 714
    assert bounds_of(case, TheoryProblem()).run.assembled is None  # 0.5 is far outside the theory
    rates = rates_of(case, TheoryProblem(), rounds=100).document
    assert rates["rounds"] == 100
    for document in (alpha, bound, rates):
        assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_the_best_rate_is_within_the_limits() -> None:
    rates = rates_of(make_case(PAPER), TheoryProblem())
    assert rates.best <= rates.largest == min(each.limit for each in rates.sufficient)
    many = rates_of(make_case(PAPER), TheoryProblem(), rounds=10**9)
    assert many.best < rates.best
    assert many.best == pytest.approx(many.lemma, rel=1)


def test_table_one() -> None:
    rows = {row.method: row for row in complexity_rows({}, TheoryProblem(), 0.1)}
    assert list(rows) == ["fedavg", "fedbuff", "asyncsgd", "quafl", "favano"]
    assert rows["favano"].server_time == rows["quafl"].server_time == (7.0, 0.0)
    assert rows["fedavg"].server_time.error == 0
    assert rows["fedbuff"].server_time.error > 0
    assert rows["asyncsgd"].delays.largest > rows["asyncsgd"].delays.average > 0
    assert rows["fedavg"].time == rows["fedavg"].steps.total * rows["fedavg"].server_time.mean
    small = {"clients": 9, "selected": 3, "local_steps": 4, "buffer": 3}
    document = complexity_document(small, TheoryProblem(), 0.1)
    assert isinstance(document["methods"], dict)
    assert document["methods"].keys() == rows.keys()
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_advice_for_a_specification() -> None:
    advice = advice_of(make_case(spec_of()), estimates_of(TheoryProblem()), 0.5)
    assert 1 <= advice.selected <= 30
    assert advice.time <= advice.present_time


def test_what_the_theorem_says_nothing_about() -> None:
    with pytest.raises(BadInput, match="reweight=none: the theorem needs"):
        make_case(spec_of(reweight="none"))


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"optimiser": "adamw", "momentum": 0.5}, "optimiser=adamw"),
        ({"momentum": 0.9}, "momentum=0.9"),
        ({"momentum": 0.0, "weight_decay": 0.1}, "weight_decay=0.1"),
        ({"clip": 1.0}, "clip=1.0"),
        ({"server_optimiser": "adam"}, "server_optimiser=adam"),
        ({"robust": "median"}, "robust=median"),
        ({"quantise": "luq"}, "quantise=luq"),
    ],
)
def test_steps_of_another_kind_are_refused_as_with_track_bound(
    keys: dict[str, object], named: str
) -> None:
    with pytest.raises(BadInput, match=r"^track_bound=True: need .*since the theorem is") as run:
        spec_of(**keys, track_bound=True)
    rule = str(run.value).partition(": ")[2]
    with pytest.raises(BadInput) as refused:
        make_case(make_spec(keys))
    assert str(refused.value) == f"{named}: {rule}"


def test_methods_without_polls_have_no_law_of_steps() -> None:
    assert steps_document(spec_of(algorithm="quafl")) == steps_document(spec_of())
    for name in ("fedavg", "fedbuff", "fedfix", "asyncfeded"):
        with pytest.raises(BadInput, match=f"^algorithm={name}: does not poll clients"):
            steps_document(spec_of(algorithm=name))


def test_the_theorem_is_not_applied_to_another_method() -> None:
    with pytest.raises(BadInput, match=r"^algorithm=fedavg: the theorem is about favano only$"):
        make_case(spec_of(algorithm="fedavg"))
