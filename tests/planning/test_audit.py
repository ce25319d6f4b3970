"""The audit of a run: what the paper argues, and where it is written down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from favano.planning.audit import audit
from favano.planning.planned import plan_seed
from favano.records import AuditRecord, finite
from favano.run.result_folder import write_result
from favano.run.runner import run
from favano.run.samples import load_samples, named_model
from favano.specification.presets import resolve
from favano.specification.spec import make_spec
from tests.specs import spec_of


def audited(**keys: object) -> AuditRecord:
    return audit_of(3, keys)


def audit_of(seed: int, keys: dict[str, object]) -> AuditRecord:
    base = {"clients": 60, "selected": 12, "fast_fraction": "1/3", "horizon": 7000.0}
    spec = resolve(make_spec({**base, **keys}))
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
    found = audited(**keys)
    assert found.verdict.startswith("shows no significant bias")
    fast, slow = found.speeds
    assert fast.low <= fast.fair <= fast.high
    assert fast.weight + slow.weight == pytest.approx(1)


@pytest.mark.parametrize(
    "keys",
    [
        {"algorithm": "fedbuff", "buffer_mode": "block"},
        {"algorithm": "fedbuff", "buffer_mode": "code"},
        {"algorithm": "asyncsgd", "assignment": "same", "horizon": 700.0},
        {"algorithm": "quafl"},
        {"algorithm": "favano", "reweight": "none"},
    ],
)
def test_who_favours_fast_clients(keys: dict[str, object]) -> None:
    found = audited(**keys)
    assert found.verdict.startswith("favours fast clients")
    fast, slow = found.speeds
    assert fast.low > fast.fair
    assert slow.high < slow.fair


def test_the_record() -> None:
    found = audited()
    assert found.fair == pytest.approx(1 / 60)
    assert len(found.weight) == len(found.mean_step_time) == 60
    assert sum(found.weight) == pytest.approx(1)
    slow = [w for w, time in zip(found.weight, found.mean_step_time, strict=True) if time > 2]
    assert sum(slow) == pytest.approx(found.speeds[1].weight)
    assert [share.clients for share in found.speeds] == [20, 40]
    assert found.seed == 3


def test_clients_that_never_answer_are_counted() -> None:
    """FedAsync's clients go on with the new model: those not at work from the start never are."""
    found = audited(algorithm="fedasync", concurrency=10, horizon=700.0)
    assert found.verdict.endswith("; 50 of 60 clients never answered")
    assert sum(weight > 0 for weight in found.weight) == 10
    assert "never" not in audited().verdict


def test_no_update_no_verdict() -> None:
    assert audited(horizon=5.0).verdict == "made no update"


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
    keys |= {"horizon": 700.0, "selected": 4}
    found = [audit_of(seed, keys).speeds[0] for seed in range(12)]
    mean = sum(one.weight for one in found) / 12
    assert sum(one.low <= mean <= one.high for one in found) >= 11
    assert sum(one.high - one.low for one in found) / 12 > 0.1


def test_what_the_audit_does_not_know_is_said() -> None:
    assert audited().left_out == ()
    compressed = audited(codec="qsgd", quantise="luq")
    assert compressed.left_out == ("compression of messages", "rounding to few bits")
    assert compressed.verdict.endswith("left out: compression of messages, rounding to few bits")
    optimised = audited(optimiser="adam")
    assert optimised.left_out == ("the clients' optimiser",)
    assert audited(clip=1.0).left_out == audited(momentum=0.5).left_out == optimised.left_out
