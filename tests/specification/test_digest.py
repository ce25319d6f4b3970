"""Names of runs last: committed results are recognised."""

from __future__ import annotations

from pathlib import Path

import pytest

from favano.methods import our_methods
from favano.options import options_of
from favano.specification.digest import asked_digest, flat_keys, run_digest, server_rate
from favano.specification.presets import resolve
from favano.specification.spec import changed, make_spec, part_options
from favano.studies.catalogue import EXPERIMENTS
from favano.studies.request import Request
from tests.specs import complete

SEARCH = Request(device="cuda", seeds=3, readings=("all",), tune=True)
SCALED = Request(scale=0.1, seeds=2)
BF16 = Request(device="cuda", seeds=2, changes={"precision": "bf16"})
SHORT = Request(seeds=1, changes={"horizon": "2500"})
MOSTLY_FAST, MOSTLY_SLOW = "non-iid-2/3-fast", "non-iid-1/9-fast"


@pytest.mark.quick("table-2*-1665fbcafd47d720", "table-2*-fedbuff-1000-*", "figure-quantisation*")
@pytest.mark.parametrize(
    ("experiment", "request_", "part", "reading", "column", "method", "seed", "digest"),
    [
        ("table-2", Request(), "runs", "paper", "iid", "favano", 0, "f84d4fed0bf7f50f"),
        ("table-2", Request(), "runs", "paper", MOSTLY_SLOW, "fedbuff", 0, "f9639a8d90ec5389"),
        ("table-2", Request(), "runs", "paper", MOSTLY_FAST, "quafl", 9, "5b048494e963faa3"),
        ("table-2", SEARCH, "readings", "favano-literal", "iid", "favano", 0, "1665fbcafd47d720"),
        ("table-2", SEARCH, "readings", "favano-delta", MOSTLY_FAST, "favano-delta", 2,
         "024606544ac7e666"),
        ("table-2", SEARCH, "readings", "fedbuff-concurrency", "iid", "fedbuff", 1,
         "4f6d6fe462f08a52"),
        ("table-2", SEARCH, "readings", "fedbuff-reset-0.2", MOSTLY_SLOW, "fedbuff", 0,
         "8068f2ec3f7dd074"),
        ("table-2", SEARCH, "readings", "split-shards", MOSTLY_SLOW, "fedavg", 0,
         "ae214078d3f8cca0"),
        ("table-2", SEARCH, "readings", "holdout", "iid", "quafl", 0, "3708752a7f9b9a9a"),
        ("table-2", SEARCH, "tuning", "client 0.125, server 0.1", "iid", "fedbuff", 1000,
         "41ef4f20e288608e"),
        ("table-2", SEARCH, "tuning", "client 0.125, server 1.5", "iid", "fedavg", 1001,
         "49b74a8fe7e3851b"),
        ("table-2", SCALED, "runs", "paper", "iid", "fedavg", 1, "43d35af87f359e33"),
        ("figure-cifar10", BF16, "runs", "paper", MOSTLY_FAST, "favano", 1, "b097a878309e2ccb"),
        ("figure-cifar10", SHORT, "runs", "paper", MOSTLY_FAST, "quafl", 0, "167fd7b8208c7c69"),
        ("figure-tinyimagenet", Request(), "runs", "paper", "iid", "fedbuff", 0,
         "bf79225533ed0f97"),
        ("figure-quantisation", Request(), "runs", "s = 5, QNN", MOSTLY_FAST, "favano", 0,
         "3fa1123dafb0588c"),
    ],
)  # fmt: skip
def test_the_papers_runs_keep_their_digests(
    experiment: str, request_: Request, part: str, reading: str, column: str, method: str,
    seed: int, digest: str,
) -> None:  # fmt: skip
    """They name files: a change here orphans every result that was kept."""
    (actual,) = (
        run.digest
        for run in request_.parts(EXPERIMENTS[experiment])[part]
        if (run.reading, run.column, run.spec.name, run.spec.run.seed)
        == (reading, column, method, seed)
    )
    assert actual == digest


@pytest.mark.parametrize(
    ("keys", "digest"),
    [
        ({}, "029408490e3e2da0"),
        ({"quantise": "luq"}, "2c89de51f9ecc15a"),
        ({"codec": "lattice"}, "22cf25bae490edef"),
        ({"algorithm": "quafl"}, "7bc52c61905c03fa"),
        ({"algorithm": "fedavg", "deadline": 30, "at_deadline": "take"}, "926358b8ad670297"),
        ({"algorithm": "fedprox"}, "746a78c028e6d368"),
        ({"algorithm": "fedbuff"}, "c898a600078e500f"),
        ({"algorithm": "fedbuff", "buffer_mode": "block"}, "a85301dd11b1b435"),
        ({"algorithm": "fedbuff", "buffer_mode": "reset"}, "3fec8418e020694f"),
        ({"algorithm": "fedbuff", "buffer": 3, "concurrency": 4, "staleness": "constant"},
         "f92a9fd5f1a9bcbd"),
        ({"algorithm": "asyncsgd"}, "92d0d4439e05a5a4"),
        ({"algorithm": "asyncsgd", "assignment": "same"}, "830e97465b1080c6"),
        ({"algorithm": "asyncsgd-adaptive"}, "b5ac402c38bdf23a"),
        ({"algorithm": "fedasync"}, "c0f75f060da4c30a"),
        ({"algorithm": "asyncfeded"}, "91c4595553ed75cf"),
    ],
)  # fmt: skip
def test_runs_on_the_digits_keep_their_digests(keys: dict[str, object], digest: str) -> None:
    assert run_digest(complete(**keys)) == digest


def test_every_key_of_a_run_makes_another_digest() -> None:
    spec = complete(dataset="mnist", algorithm="fedbuff")
    other: list[dict[str, object]] = [
        {"clients": 90}, {"selected": 19}, {"fast_mean": 3.0}, {"learning_rate": 0.4},
        {"horizon": 4999.0}, {"seed": 1}, {"device": "cuda"}, {"codec": "qsgd"},
        {"split": "iid"}, {"interaction_time": 2.0}, {"buffer": 9}, {"buffer_mode": "block"},
        {"staleness": "constant"}, {"max_staleness": 3}, {"concurrency": 19},
        {"algorithm": "fedavg"}, {"algorithm": "favano"},
    ]  # fmt: skip
    digests = {run_digest(resolve(changed(spec, keys))) for keys in ({}, *other)}
    assert len(digests) == 1 + len(other)


def test_a_label_is_no_part_of_the_digest() -> None:
    plain, named = complete(), complete(label="mine")
    assert run_digest(plain) == run_digest(named)


@pytest.mark.parametrize("name", list(our_methods()))
def test_what_an_open_option_stands_for_is_the_same_run(name: str) -> None:
    """And another value is another run."""
    spec = complete(algorithm=name, clients=20, selected=4)
    filled = flat_keys(spec)
    for key in ("concurrency", "server_learning_rate", "most_local_steps"):
        if spec.keys.get(key, 0) is None:
            assert run_digest(resolve(changed(spec, {key: filled[key]}))) == run_digest(spec)
            assert run_digest(resolve(changed(spec, {key: 13}))) != run_digest(spec)
    if "concurrency" in options_of(our_methods()[name]):
        everyone = name in ("asyncsgd-adaptive", "fedasync", "asofed")
        assert filled["concurrency"] == (20 if everyone else 4)


def test_a_method_of_somebody_else_is_named_by_its_file(tmp_path: Path) -> None:
    """Its options are its own, whatever a method of ours means by the same name."""
    file = tmp_path / "digested.py"
    file.write_text(METHOD, encoding="utf-8")
    keys: dict[str, object] = {"algorithm": f"{file}:Digested", "clients": 20, "selected": 4}
    spec = resolve(make_spec(keys))
    assert flat_keys(spec)["algorithm"] == f"{file}:Digested"
    assert "concurrency" not in flat_keys(spec)
    assert run_digest(resolve(changed(spec, {"concurrency": 4}))) != run_digest(spec)
    before = run_digest(spec)
    file.write_text(METHOD + "# changed\n", encoding="utf-8")
    assert run_digest(spec) == before  # which was loaded before
    assert run_digest(resolve(make_spec(keys))) != before


METHOD = '''"""A method for a test."""

import favano


class Digested(favano.Method):
    """Rounds, with an option that other methods have, too."""

    concurrency: int | None = favano.option(None, "of no matter")

    def policy(self):
        return self.context.rounds()

    def aggregate(self, state, updates):
        return favano.ModelState(updates.end.mean(0))
'''


def test_the_step_of_the_server() -> None:
    assert server_rate(complete()) == 1.0
    assert server_rate(complete(algorithm="fedbuff", server_learning_rate=0.3)) == 0.3
    assert server_rate(complete(algorithm="asyncsgd", clients=20, selected=4)) == 0.25


def test_what_another_run_of_the_same_numbers_may_differ_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """How long, for which seeds, and where; nothing else."""
    may = {"horizon", "seeds", "seed", "device", "kernels", "engine", "track_bound"}
    assert may < part_options().keys()

    def digest(keys: dict[str, object]) -> str:
        monkeypatch.setattr("favano.specification.digest.flat_keys", lambda spec: keys)
        return asked_digest(complete())

    for key in (*part_options(), "buffer", "algorithm", "reweight"):
        assert (digest({key: 1, "x": 5}) == digest({key: 2, "x": 5})) == (key in may)
