"""The audit of a run: what the paper argues, and where it is written down."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from favano.data import Traits
from favano.planning.audit import audit
from favano.planning.planned import plan_seed
from favano.records import AuditRecord, finite
from favano.results import write_result
from favano.run.runner import run
from favano.run.samples import load_samples, named_model
from favano.specification.presets import resolve
from favano.specification.spec import make_spec
from tests.specs import spec_of


def audited(**keys: object) -> AuditRecord:
    return audit_of(3, keys)


def audit_of(seed: int, keys: dict[str, object]) -> AuditRecord:
    base = {"clients": 60, "fast_fraction": "1/3", "horizon": 7000.0}
    if keys.get("algorithm", "favano") in ("favano", "favano-delta", "fedavg", "quafl"):
        base["selected"] = 12  # others do not look at it
    given = {key: value for key, value in {**base, **keys}.items() if value is not None}
    spec = resolve(make_spec(given))
    planned = plan_seed(spec, seed)
    return audit(planned, planned.weights)


@pytest.mark.parametrize(
    "keys",
    [
        {"algorithm": "favano"},
        {"algorithm": "favano", "reweight": "deterministic"},
        {"algorithm": "favano-delta"},
        {"algorithm": "fedavg", "local_steps": 2},
    ],
)
def test_who_favours_nobody(keys: dict[str, object]) -> None:
    record = audited(**keys)
    assert record.verdict.startswith("shows no significant bias")
    fast, slow = record.speeds
    assert fast.low <= fast.fair <= fast.high
    assert fast.weight + slow.weight == pytest.approx(1)


@pytest.mark.quick("fedbuff code")
@pytest.mark.parametrize(
    "keys",
    [
        {"algorithm": "fedbuff", "buffer_mode": "block"},
        {"algorithm": "fedbuff", "buffer_mode": "code"},
        {"algorithm": "asyncsgd", "assignment": "same", "horizon": 700.0},
        {"algorithm": "quafl"},
        {"algorithm": "favano", "reweight": "none"},
    ],
    ids=lambda keys: " ".join(map(str, keys.values())),
)
def test_who_favours_fast_clients(keys: dict[str, object]) -> None:
    record = audited(**keys)
    assert record.verdict.startswith("favours fast clients")
    fast, slow = record.speeds
    assert fast.low > fast.fair
    assert slow.high < slow.fair


def test_the_record() -> None:
    record = audited()
    assert record.fair == pytest.approx(1 / 60)
    assert len(record.weight) == len(record.mean_step_time) == 60
    assert sum(record.weight) == pytest.approx(1)
    slow = [w for w, time in zip(record.weight, record.mean_step_time, strict=True) if time > 2]
    assert sum(slow) == pytest.approx(record.speeds[1].weight)
    assert [share.clients for share in record.speeds] == [20, 40]
    assert record.seed == 3


def test_clients_that_never_answer_are_counted() -> None:
    """FedAsync's clients go on with the new model: those not at work from the start never are."""
    record = audited(algorithm="fedasync", concurrency=10, horizon=700.0)
    assert record.verdict.endswith("; 50 of 60 clients never answered")
    assert sum(weight > 0 for weight in record.weight) == 10
    assert "never" not in audited().verdict


def phones(path: Path, clients: int) -> str:
    """A trace of clients whose speeds all differ, by a factor of ten at most."""
    lines = [f"{i},{10 ** (i / clients) * wave:.4f}" for i in range(clients) for wave in (0.8, 1.2)]
    path.write_text("\n".join(["client,duration", *lines]))
    return f"trace:{path}"


def test_many_speeds_are_judged_by_tenths(tmp_path: Path) -> None:
    """FedBuff hears more of the fast; every client being a class of its own, nobody saw it."""
    keys: dict[str, object] = {"algorithm": "fedbuff", "buffer_mode": "block", "clients": 100}
    keys |= {"step_law": phones(tmp_path / "fleet.csv", 100), "horizon": 2000.0}
    record = audited(**keys, fast_fraction=None)
    assert [share.clients for share in record.speeds] == [10] * 10
    assert sum(share.weight for share in record.speeds) == pytest.approx(1)
    fastest = sum(record.weight[:10])
    assert record.speeds[0].weight == pytest.approx(fastest)
    assert fastest > 0.15
    said = f"favours the fastest tenth: {100 * fastest:.1f} % of the model ["
    assert record.verdict.startswith(said)
    fair = audited(
        **{**keys, "algorithm": "favano", "buffer_mode": None, "selected": 20}, fast_fraction=None
    )
    assert fair.verdict.startswith("shows no significant bias: the fastest tenth has ")


def test_nothing_is_judged_if_most_clients_never_answered(tmp_path: Path) -> None:
    law = phones(tmp_path / "fleet.csv", 100)
    keys: dict[str, object] = {"algorithm": "fedbuff", "clients": 100, "step_law": law}
    record = audited(**keys, selected=5, horizon=600.0, fast_fraction=None)
    silent = sum(weight == 0 for weight in record.weight)
    assert silent > 50
    assert record.verdict.startswith("shows too little to judge: the ")
    assert record.verdict.endswith(f"; {silent} of 100 clients never answered")


def test_clients_that_are_never_heard_may_still_be_heard_in_other_schedules() -> None:
    """FedBuff that starts anew with every update: ten fast clients of 20 are always first."""
    record = audited(algorithm="fedbuff", buffer_mode="reset", horizon=3000.0)
    fast, slow = record.speeds
    assert (fast.weight, slow.weight) == (1.0, 0.0)
    assert fast.low < 1.0
    assert slow.high == pytest.approx(1 - fast.low)
    assert record.verdict.startswith("favours fast clients: 100.0 % of the model [9")


def test_no_update_no_verdict() -> None:
    assert audited(horizon=5.0).verdict == "made no update"


def test_server_steps_without_an_answer_are_said() -> None:
    audit = audited(algorithm="fedavg", deadline=0.5, horizon=300.0)
    assert audit.verdict == "made 86 server steps without a client update: no client was in time"


def test_models_that_grow_beyond_all_numbers_have_no_shares() -> None:
    audit = audited(algorithm="fedprox", learning_rate=1e25, horizon=900.0)
    assert audit.verdict == "has no shares: its models grow beyond all numbers"


def test_every_result_folder_has_it(tmp_path: Path) -> None:
    spec = resolve(spec_of(clients=10, selected=3, local_steps=2, horizon=70, seeds=2, seed=4))
    samples = load_samples(spec)
    result = run(spec, samples, named_model(spec, samples), workers=1)
    write_result(tmp_path / "r", result, "favano run")
    summary = json.loads((tmp_path / "r" / "summary.json").read_text())
    assert summary["audit"] == finite(result.audit)
    assert summary["audit"]["seed"] == 4
    assert len(summary["audit"]["weight"]) == 10


def test_without_single_clients_the_shares_are_the_same() -> None:
    spec = resolve(spec_of(clients=20, selected=4))
    planned = plan_seed(spec, 0)
    whole, short = (audit(planned, planned.weigh(most)) for most in (20, 7))
    assert (short.weight, short.mean_step_time) == ((), ())
    for mine, theirs in zip(short.speeds, whole.speeds, strict=True):
        for key in ("weight", "low", "high"):
            assert getattr(mine, key) == pytest.approx(getattr(theirs, key), abs=1e-12)


def test_a_model_of_the_newest_answers_has_wide_intervals() -> None:
    """FedAsync without regard to staleness: other seeds' shares lie within, or nearly always."""
    keys: dict[str, object] = {"algorithm": "fedasync", "staleness": "constant", "clients": 20}
    keys |= {"horizon": 700.0}
    shares = [audit_of(seed, keys).speeds[0] for seed in range(12)]
    mean = sum(share.weight for share in shares) / 12
    assert sum(share.low <= mean <= share.high for share in shares) >= 11
    assert sum(share.high - share.low for share in shares) / 12 > 0.1


def test_what_the_audit_does_not_know_is_said() -> None:
    assert audited().left_out == ()
    compressed = audited(codec="qsgd", quantise="luq")
    assert compressed.left_out == ("compression of messages", "low-precision training")
    assert compressed.verdict.endswith("left out: compression of messages, low-precision training")
    optimised = audited(optimiser="adam")
    assert optimised.left_out == ("the clients' optimiser",)
    assert audited(clip=1.0).left_out == optimised.left_out
    assert audited(momentum=0.5).left_out == ()
    assert audited(momentum=0.5, optimiser_state="kept").left_out == optimised.left_out


def test_a_selection_says_what_it_does() -> None:
    """FAVANO weighs clients of any speed alike, so that their weights are their selections."""
    record = audited(selection="weighted:4,1", fast_fraction="1/2")
    fast = record.speeds[0]
    assert "selected by weighted, fast clients send 7" in record.verdict
    assert "each client's message is unbiased, but clients count as often as" in record.verdict
    contacts = float(record.verdict.partition("send ")[2].partition("%")[0]) / 100
    assert 0.7 < contacts < 0.8  # not 0.8: nobody is selected twice
    assert fast.low < contacts < fast.high
    assert "selected by" not in audited().verdict
    empirical = audited(selection="least-recent", weights="empirical").verdict
    assert "unbiased up to estimates" in empirical


def test_samples_may_count_twice() -> None:
    traits = load_samples(resolve(spec_of(dataset="digits")), None).traits
    keys = {"algorithm": "fedavg", "clients": 20, "selected": 4, "selection": "samples"}
    for twice in (True, False):
        spec = resolve(make_spec({**keys, "sample_weights": twice, "horizon": 3000}))
        planned = plan_seed(spec, 0, traits)
        words = audit(planned, planned.weights).verdict
        assert ("samples count twice" in words) is twice
        assert ("samples count by the selection alone" in words) is not twice


SIZES = np.where(np.arange(24) % 3 == 0, 40, 10)  # samples of 24 clients
LARGE = SIZES == 40


def by_samples(**keys: object) -> AuditRecord:
    traits = Traits(int(SIZES.sum()), owners={"who": np.repeat(np.arange(24), SIZES)})
    spec = resolve(make_spec({"clients": 24, "split": "column:who", "horizon": 20_000.0, **keys}))
    planned = plan_seed(spec, 0, traits)
    return audit(planned, planned.weights)


@pytest.mark.quick("favano-delta")
@pytest.mark.parametrize(
    "keys",
    [
        {"algorithm": "favano"},
        {"algorithm": "favano-delta"},
        {"algorithm": "asyncsgd", "horizon": 4000.0},
    ],
    ids=lambda keys: keys["algorithm"],
)
def test_samples_count_in_proportion(keys: dict[str, object]) -> None:
    """The share of samples is fair, and what clients of many samples get."""
    record, alike = by_samples(sample_weights=True, **keys), by_samples(**keys)
    assert record.fair_weight == pytest.approx(SIZES / SIZES.sum())
    more = record.sizes[1]
    assert more.fair == pytest.approx(np.sort(SIZES)[12:].sum() / SIZES.sum())
    assert more.low <= more.fair <= more.high
    assert "their share of all samples is" in record.verdict
    assert np.array(record.weight)[LARGE].sum() == pytest.approx(2 / 3, abs=0.03)
    assert (alike.sizes, alike.fair_weight) == ((), ())
    assert np.array(alike.weight)[LARGE].sum() == pytest.approx(1 / 3, abs=0.03)
    assert "samples" not in alike.verdict


def test_a_mean_over_few_clients_slights_large_ones() -> None:
    """FedAvg divides by the samples of the round, so that a large client among few gets less."""
    keys = {"algorithm": "fedavg", "selected": 2, "local_steps": 2, "sample_weights": True}
    record = by_samples(**keys)
    assert record.sizes[1].high < record.sizes[1].fair
    assert "by size it favours the half with fewer samples" in record.verdict
