"""Runs that were ended before their time go on, and give the bytes of an uninterrupted run."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from errno import ENOSPC
from functools import partial
from math import inf
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from favano.errors import BadInput
from favano.methods import AnyMethod, ClientUpdates, Method, our_methods
from favano.policies import Rounds
from favano.records import bounds_to_csv, history_to_csv
from favano.results import Result
from favano.run import checkpoints
from favano.run.checkpoint_files import CheckpointFiles
from favano.run.checkpoints import Budget, CheckpointManager, Checkpoints
from favano.run.progress import Silence
from favano.run.runner import run_together
from favano.run.samples import Samples, load_samples, named_model
from favano.specification.spec import Spec, changed
from favano.types import Vector
from tests.specs import spec_of, variant

SHORT = spec_of(
    clients=9, selected=3, local_steps=4, batch_size=16, horizon=210, evaluate_every=30,
    slow_mean=8, kernels="native",
)  # fmt: skip
NOISE = f"{Path(__file__).parents[2] / 'examples' / 'own_server_transform.py'}:Noise:0.001"
VARIANTS: dict[str, dict[str, object]] = {
    **{name: {"algorithm": name} for name in our_methods()},
    "fedbuff": {"algorithm": "fedbuff", "buffer": 2},
    "codec": {"algorithm": "quafl", "codec": "lattice"},
    "differences, own models": {"algorithm": "quafl", "codec": "qsgd"},
    "differences": {"algorithm": "fedbuff", "buffer": 2, "codec": "qsgd", "codec_bits": 3},
    "few bits": {"algorithm": "favano", "quantise": "luq"},
    "empirical weights": {"weights": "empirical"},
    "live variance": {"variance": "live"},
    "bound": {"track_bound": True},
    "kept optimiser": {"optimiser": "adam", "optimiser_state": "kept", "learning_rate": 0.01},
    "server's optimiser": {"algorithm": "fedavg", "server_optimiser": "adam"},
    "server's chain": {"algorithm": "fedavg", "server": ["clip:0.5", "yogi", "momentum", NOISE]},
    "loop": {"engine": "loop", "algorithm": "quafl", "codec": "lattice"},
    "rates by time": {"rate_schedule": "cosine", "rate_length": 500.0},
    "diverging": {"learning_rate": 1e6, "non_finite": "skip"},
}
EVERY = pytest.mark.parametrize("name", VARIANTS)


class Interrupting(Silence):
    """Presses Ctrl-C after so many updates."""

    def __init__(self, updates: int) -> None:
        self.left = updates

    def advance(self, label: str, steps: int, time: float) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


class Count(Interrupting):
    """Counts local steps."""

    steps = 0.0

    def clock(self) -> float:
        return self.steps

    def advance(self, label: str, steps: int, time: float) -> None:
        self.steps += steps
        super().advance(label, steps, time)


class Notes:
    """What is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def __call__(self, sentence: str) -> None:
        self.said.append(sentence)


@pytest.fixture(scope="module")
def digits() -> Samples:
    return load_samples(SHORT)


def results(
    specs: Sequence[Spec],
    digits: Samples,
    folder: Path | None = None,
    say: Notes | None = None,
    updates: int = 0,
    every: float | None = 0.0,
) -> list[Result]:
    """Results of these runs, with checkpoints if there is a folder for them."""
    kept = None
    if folder is not None:
        kept = Checkpoints([folder / spec.name for spec in specs], every, say or Notes())
    model, progress = named_model(SHORT_PERCEPTRON, digits), Interrupting(updates)
    return run_together(specs, digits, model, progress=progress, workers=1, checkpoints=kept)


SHORT_PERCEPTRON = changed(SHORT, {"model": "perceptron"})


def same(result: Result, other: Result) -> None:
    assert history_to_csv(result.rows) == history_to_csv(other.rows)
    assert bounds_to_csv(result.bounds) == bounds_to_csv(other.bounds)
    assert result.status == other.status
    assert result.models.keys() == other.models.keys()
    for seed, model in result.models.items():
        for name, value in model.items():
            assert torch.equal(value, other.models[seed][name]), name
    for mine, theirs in zip(result.runs, other.runs, strict=True):
        for key in ("mean_model", "refused_updates", "decoding_failures", "status"):
            assert str(getattr(mine, key)) == str(getattr(theirs, key)), key


@pytest.mark.quick("differences, own models")
@EVERY
def test_a_run_goes_on_where_it_was_ended(name: str, digits: Samples, tmp_path: Path) -> None:
    spec, notes = variant(SHORT, {**VARIANTS[name], "seeds": 2}), Notes()
    (whole,) = results([spec], digits)
    updates = sum(run.server_steps for run in whole.runs)
    for share in (2, 4):
        (partial,) = results([spec], digits, tmp_path, notes, updates // share)
        assert partial.status == "partial"
    assert len(notes.said) == 1  # at the second time
    (resumed,) = results([spec], digits, tmp_path, notes)
    same(resumed, whole)
    assert len(notes.said) == 2
    assert all(
        re.match(r"[12] of 2 runs go on, the first at time \d+ of 210", sentence)
        for sentence in notes.said
    )
    assert len(list((tmp_path / spec.name).iterdir())) == 2  # the end of each seed


class Rows(nn.Module):
    """A stock layer of a transformer, with its dropout and a causal mask."""

    mask: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.last = nn.Linear(8, 10)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(8))

    def forward(self, images: Tensor) -> Tensor:
        output: Tensor = self.last(self.layer(images.view(-1, 8, 8), self.mask)[:, -1])
        return output


@pytest.mark.slow
def test_dropout_and_constants_go_on_too(digits: Samples, tmp_path: Path) -> None:
    kept = Checkpoints([tmp_path], 0.0, Notes())

    def result(updates: int, kept: Checkpoints | None) -> Result:
        progress = Interrupting(updates)
        (result,) = run_together(
            [SHORT], digits, Rows, progress=progress, workers=1, checkpoints=kept
        )
        return result

    whole = result(0, None)
    assert result(whole.runs[0].server_steps // 2, kept).status == "partial"
    same(result(0, kept), whole)
    assert whole.models[0]["mask"].isinf().any()


@pytest.mark.quick("scaffold", "loop")
@EVERY
def test_a_longer_horizon_goes_on_at_the_end(name: str, digits: Samples, tmp_path: Path) -> None:
    spec, notes = variant(SHORT, VARIANTS[name]), Notes()
    results([changed(spec, {"horizon": 150.0})], digits, tmp_path, notes)
    (resumed,) = results([spec], digits, tmp_path, notes)
    (whole,) = results([spec], digits)
    same(resumed, whole)
    (sentence,) = notes.said
    time = re.fullmatch(r"goes on at time (\d+) of 210", sentence)
    assert time is not None
    assert int(time[1]) > 100


def test_a_longer_horizon_that_changes_the_beginning_begins_anew(
    digits: Samples, tmp_path: Path
) -> None:
    """Step sizes that fall until the horizon are other ones with another horizon."""
    spec, notes = changed(SHORT, {"rate_schedule": "cosine"}), Notes()
    results([changed(spec, {"horizon": 150.0})], digits, tmp_path, notes)
    (resumed,) = results([spec], digits, tmp_path, notes)
    same(resumed, *results([spec], digits))
    assert notes.said == [
        "favano, seed 0 begins anew: its checkpoint cannot be used, since its schedule or its step "
        "sizes begin otherwise"
    ]


def test_a_shorter_one_does_not_remove_the_checkpoints_of_a_longer_one(
    digits: Samples, tmp_path: Path
) -> None:
    kept = {path: path.read_bytes() for path in half(digits, tmp_path)}
    short = changed(SHORT, {"horizon": 20.0})
    with pytest.raises(BadInput, match=r"horizon=20\.0: .* holds checkpoints of a longer run"):
        results([short], digits, tmp_path)
    assert {path: path.read_bytes() for path in kept} == kept


def test_one_of_several_runs_goes_on_beside_new_ones(digits: Samples, tmp_path: Path) -> None:
    specs, notes = [variant(SHORT, {"algorithm": name}) for name in ("favano", "asofed")], Notes()
    results(specs[:1], digits, tmp_path, notes, 15)
    resumed = results(specs, digits, tmp_path, notes)
    for result, whole in zip(resumed, results(specs, digits), strict=True):
        same(result, whole)
    assert notes.said == ["1 of 2 runs go on, the first at time 84 of 210"]


def test_machine_time_before_breaks_counts(
    digits: Samples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock that counts local steps, each run has paid for its own."""
    spec, before = variant(SHORT, {"algorithm": "asofed", "seeds": 2}), []
    kept = Checkpoints([tmp_path], 0.0, Notes())
    for updates in (30, 50, 0):
        made = Count(updates)
        monkeypatch.setattr(
            "favano.run.runner.CheckpointManager", partial(CheckpointManager, clock=made.clock)
        )
        model = named_model(SHORT_PERCEPTRON, digits)
        (result,) = run_together([spec], digits, model, progress=made, workers=1, checkpoints=kept)
        assert result.seconds_before == pytest.approx(result.steps_before)
        before.append(result.steps_before)
    assert 0 == before[0] < before[1] < before[2]


def half(digits: Samples, folder: Path, spec: Spec = SHORT) -> list[Path]:
    """Checkpoints of a run that was ended in the middle, the newest first."""
    results([spec], digits, folder, updates=20)
    return CheckpointFiles(folder / spec.name, 0).paths()


def test_the_newest_two_are_kept_and_a_damaged_one_is_refused(
    digits: Samples, tmp_path: Path
) -> None:
    newest, before = half(digits, tmp_path)
    content = bytearray(newest.read_bytes())
    content[-100] ^= 1
    newest.write_bytes(content)
    (newest.parent / f".{newest.name}.123").write_bytes(b"not finished")
    notes = Notes()
    same(*results([SHORT], digits, tmp_path, notes), *results([SHORT], digits))
    refused, goes_on = notes.said
    assert refused == f"{newest} is damaged: its digest is wrong; the one before it is used"
    assert goes_on.startswith("goes on at time ")
    assert not before.exists()
    assert len(list(newest.parent.iterdir())) == 1


@pytest.mark.quick("favano-checkpoint 2*")
@pytest.mark.parametrize(
    "content", [b"", b"\n", b"favano-checkpoint 2 0\n", b"favano-checkpoint 1"]
)
def test_no_file_is_too_strange(content: bytes, digits: Samples, tmp_path: Path) -> None:
    for path in half(digits, tmp_path):
        path.write_bytes(content)
    notes = Notes()
    same(*results([SHORT], digits, tmp_path, notes), *results([SHORT], digits))
    first, second = notes.said
    assert first.endswith("; the one before it is used")
    assert second.endswith("; the run begins anew")


def test_the_checkpoint_of_another_run_is_refused(digits: Samples, tmp_path: Path) -> None:
    kept = {path: path.read_bytes() for path in half(digits, tmp_path)}
    other = replace(digits, test_labels=digits.test_labels.flip(0), read=())
    cases: list[tuple[Spec, Samples, str]] = [
        (changed(SHORT, {"learning_rate": 0.2}), digits, "learning_rate"),
        (SHORT, other, "data"),
    ]
    for spec, samples, what in cases:
        with pytest.raises(BadInput, match=rf"another run \(differs in {what}\); remove them"):
            results([spec], samples, tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("favano.run.checkpoints.__version__", "0.0")
        with pytest.raises(BadInput, match="differs in version of favano"):
            results([SHORT], digits, tmp_path)
    assert {path: path.read_bytes() for path in kept} == kept


def test_a_full_disk_does_not_end_the_run(
    digits: Samples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest, _ = half(digits, tmp_path)
    content = newest.read_bytes()

    def full(number: int) -> None:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    notes = Notes()
    same(*results([SHORT], digits, tmp_path, notes), *results([SHORT], digits))
    assert notes.said[1:] == [
        f"no checkpoint: out={tmp_path / 'favano'}: could not be written: No space left on device; "
        "earlier results are untouched; the run goes on without it"
    ]
    assert newest.read_bytes() == content
    assert list(newest.parent.iterdir()) == [newest]


class OddState(NamedTuple):
    model: Vector
    seen: frozenset[int]


class Odd(Method[OddState]):
    """FedAvg whose state is more than plain data."""

    def policy(self) -> Rounds:
        return self.context.rounds()

    def init(self, model: Vector) -> OddState:
        return OddState(model, frozenset())

    def aggregate(self, state: OddState, updates: ClientUpdates) -> OddState:
        return OddState(
            state.model + updates.weighted_delta(np.full(len(updates.client), 0.3)), frozenset({1})
        )


def test_a_state_that_is_not_plain_data_is_not_saved(digits: Samples, tmp_path: Path) -> None:
    spec, notes = replace(SHORT, method=cast(AnyMethod, Odd())), Notes()
    same(*results([spec], digits, tmp_path, notes), *results([spec], digits))
    assert notes.said == [
        "no checkpoint: odd, seed 0: a frozenset in the state of its method cannot be saved; the "
        "run goes on without it"
    ]
    assert not (tmp_path / "odd").exists()


def test_a_large_end_is_not_kept(
    digits: Samples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "_LARGEST", 1000)
    notes = Notes()
    results([SHORT], digits, tmp_path, notes)
    assert len(notes.said) == 1
    assert "no checkpoint of its end is kept" in notes.said[0]
    assert len(list((tmp_path / "favano").iterdir())) == 1  # the last one before the end


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_budget_is_two_per_cent_of_the_time() -> None:
    clock = Clock()
    budget = Budget(None, 0.02, clock)
    assert budget.interval == 30
    size = 20_000_000  # expected to take 0.02 + 0.1 s
    clock.now = 5.9
    assert not budget.allows(size)
    clock.now = 6.1
    assert budget.allows(size)
    budget.charge(1.0)  # in truth it takes longer, and so will the next
    clock.now = 99.0
    assert not budget.allows(size)
    clock.now = 100.1
    assert budget.allows(size)
    budget.charge(0.1)
    assert budget.allows(size) == (0.02 * clock.now >= 1.0 + 0.1 + 0.1)


def test_an_interval_that_is_asked_for_has_no_budget() -> None:
    clock = Clock()
    budget = Budget(5.0, 0.02, clock)
    budget.charge(1e9)
    assert budget.interval == 5
    assert budget.allows(10**12)
    assert not Budget(inf, 0.02, clock).allows(1)


def test_by_default_a_short_run_has_no_checkpoints(digits: Samples, tmp_path: Path) -> None:
    results([SHORT], digits, tmp_path, every=None)
    assert not (tmp_path / "favano").exists()


def test_by_default_the_end_of_a_long_run_is_kept(
    digits: Samples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "SHARE", inf)  # as if it had taken long
    results([SHORT], digits, tmp_path, every=None)
    assert len(list((tmp_path / "favano").iterdir())) == 1
