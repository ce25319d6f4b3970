"""Runs: reproducible to the byte, seeds independent of each other, ends that are not the end."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from favano.errors import BadInput
from favano.methods import our_methods
from favano.models import BatchNorm2d
from favano.records import history_to_csv
from favano.results import Result
from favano.run import runner
from favano.run.runner import run, run_together
from favano.run.samples import Samples, load_samples, named_model
from favano.specification.spec import Spec, changed, make_spec, required
from tests.forks import FORKS
from tests.specs import read_by, spec_of, unchained, variant
from tests.training.clock import trace_all

SHORT = spec_of(clients=10, selected=3, local_steps=4, horizon=210, evaluate_every=70)


@pytest.fixture(scope="module")
def digits() -> Samples:
    return load_samples(SHORT)


def result_of(spec: Spec, samples: Samples) -> Result:
    return run(spec, samples, named_model(changed(spec, {"model": "perceptron"}), samples))


@pytest.mark.quick("favano")
@pytest.mark.parametrize(
    "algorithm",
    ["favano", "fedavg", "quafl", "fedbuff", "asyncsgd", "asyncfeded"],
)
def test_p15_the_same_run_twice_is_the_same_to_the_byte(algorithm: str, digits: Samples) -> None:
    spec = variant(SHORT, {"algorithm": algorithm, "seeds": 2})
    assert history_to_csv(result_of(spec, digits).rows) == history_to_csv(
        result_of(spec, digits).rows
    )


def test_each_of_many_seeds_is_what_it_is_alone(digits: Samples) -> None:
    together = result_of(changed(SHORT, {"seeds": 3, "seed": 5}), digits)
    for seed in (5, 6, 7):
        alone = result_of(changed(SHORT, {"seed": seed}), digits)
        assert history_to_csv(alone.rows) == history_to_csv(
            [row for row in together.rows if row.seed == seed]
        )
        for name, value in alone.models[seed].items():
            assert torch.equal(value, together.models[seed][name])
    assert len({row.accuracy for row in together.rows if row.time == 210}) > 1


def test_epochs_of_equal_clients_are_so_many_steps(digits: Samples) -> None:
    """10 clients share N samples in batches of 32: an epoch is ceil(N / 320) steps."""
    epoch = -(-len(digits.labels) // 320)
    assert epoch > 1
    for name in ("favano", "asyncfeded"):
        keys = {"algorithm": name, "clients": 10, "split": "iid", "batch_size": 32}
        keys |= {"horizon": 210, "evaluate_every": 70}
        by_epochs = result_of(spec_of(**keys, local_epochs=2), digits)
        in_steps = result_of(spec_of(**keys, local_steps=2 * epoch), digits)
        assert unchained(by_epochs.rows) == unchained(in_steps.rows)


def test_methods_that_plan_as_they_go_run_beside_the_others(digits: Samples) -> None:
    """Pooled or one update at a time, each is what it is alone."""
    specs = [variant(SHORT, {"algorithm": name}) for name in ("asyncfeded", "favano", "scaffold")]
    model = named_model(changed(SHORT, {"model": "perceptron"}), digits)
    for spec, together in zip(specs, run_together(specs, digits, model), strict=True):
        assert together.spec.name == spec.name
        assert history_to_csv(together.rows) == history_to_csv(result_of(spec, digits).rows)
    jobs, parameters = 2 * 3, 64 * 32 + 32 + 32 * 10 + 10
    assert together.rows[-1].bits_down == 2 * jobs * parameters * 32  # a model and a variate


def test_neither_traces_nor_workers_change_a_byte(
    digits: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = named_model(changed(SHORT, {"model": "perceptron"}), digits)
    plain = run(SHORT, digits, model, workers=1)
    assert required(plain.traced).lengths == ()  # too short to pay
    trace_all(monkeypatch, fewest_each=20)  # autograd for the rest
    for workers in (1, 2):
        fast = run(SHORT, digits, model, workers=workers)
        assert required(fast.traced).lengths
        assert history_to_csv(fast.rows) == history_to_csv(plain.rows)
        for name, value in plain.models[SHORT.run.seed].items():
            assert torch.equal(value, fast.models[SHORT.run.seed][name])


def test_algorithms_under_one_seed_start_alike(digits: Samples) -> None:
    first = {
        result_of(changed(SHORT, {"algorithm": name}), digits).rows[0].loss
        for name in ("favano", "fedavg", "quafl", "fedbuff")
    }
    assert len(first) == 1


@pytest.mark.quick("quafl-min-max")
@pytest.mark.parametrize("codec", ["lattice", "min-max", "qsgd"])
@pytest.mark.parametrize("algorithm", ["favano", "quafl", "fedbuff"])
def test_compressed_messages(algorithm: str, codec: str, digits: Samples) -> None:
    """StackFactory bits, hardly another model, and the same whatever the number of processes."""
    keys = {"algorithm": algorithm, "learning_rate": 0.1}
    plain = result_of(changed(SHORT, keys), digits)
    spec = changed(SHORT, {**keys, "codec": codec})
    network = named_model(changed(spec, {"model": "perceptron"}), digits)
    first, two = (run(spec, digits, network, workers=workers) for workers in (1, 2))
    assert history_to_csv(first.rows) == history_to_csv(two.rows)
    last, exact = first.rows[-1], plain.rows[-1]
    assert last.loss != exact.loss
    assert last.loss == pytest.approx(exact.loss, rel=0.05)
    assert last.bits_up < exact.bits_up * (0.45 if codec == "lattice" else 0.27)
    assert last.bits_down < exact.bits_down
    assert first.runs[0].decoding_failures == 0


@pytest.mark.quick("favano")
@pytest.mark.parametrize("algorithm", our_methods())
def test_few_bits_with_every_method(algorithm: str, digits: Samples) -> None:
    """Another run than in full precision, and the same whatever the number of processes."""
    keys = {"algorithm": algorithm, "horizon": 63.0, "evaluate_every": 21.0}
    spec = variant(SHORT, {**keys, "quantise": "luq"})
    network = named_model(changed(spec, {"model": "perceptron"}), digits)
    first, two = (run(spec, digits, network, workers=workers) for workers in (1, 2))
    assert first.status == "complete"
    assert history_to_csv(first.rows) == history_to_csv(two.rows)
    plain = result_of(variant(SHORT, keys), digits)
    assert {row.loss for row in first.rows}.isdisjoint(row.loss for row in plain.rows)
    for row, other in zip(first.rows, plain.rows, strict=True):
        assert row.time == other.time  # the same schedule, the same messages
        assert row.bits_up == other.bits_up or algorithm == "asyncfeded"


@pytest.mark.slow
def test_few_bits_alone_together_and_traced(
    digits: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Draws belong to seed, client and step: neither company nor traces change a byte."""
    spec = changed(SHORT, {"quantise": "luq", "seeds": 2, "gradient_samples": 2})
    model = named_model(changed(spec, {"model": "perceptron"}), digits)
    both = run_together([spec, changed(spec, {"algorithm": "quafl"})], digits, model)
    trace_all(monkeypatch, fewest_each=50)  # the commonest lengths
    alone = run(changed(spec, {"seed": 1, "seeds": 1}), digits, model, workers=2)
    assert required(alone.traced).lengths
    assert history_to_csv(alone.rows) == history_to_csv(
        [row for row in both[0].rows if row.seed == 1]
    )


FULL = {
    "quantise": "luq", "weight_bits": 32, "activation_bits": 32, "quantised_gradients": "none"
}  # fmt: skip


def test_all_bits_are_full_precision_to_the_byte(digits: Samples) -> None:
    plain, full = (result_of(changed(SHORT, keys), digits) for keys in ({}, FULL))
    assert unchained(plain.rows) == unchained(full.rows)
    for name, value in plain.models[0].items():
        assert torch.equal(value, full.models[0][name])


@pytest.mark.slow
def test_evaluation_in_full_precision_changes_the_scores_alone(digits: Samples) -> None:
    few, full = (
        result_of(changed(SHORT, {"quantise": "luq", "evaluate_with": how}), digits)
        for how in ("quantised", "full")
    )
    assert few.rows[0].loss != full.rows[0].loss == result_of(SHORT, digits).rows[0].loss
    for name, value in few.models[0].items():
        assert torch.equal(value, full.models[0][name])


@pytest.mark.slow
def test_few_bits_learn(digits: Samples) -> None:
    long = changed(SHORT, {"horizon": 1400.0})
    few = result_of(changed(long, {"quantise": "luq"}), digits).rows
    plain = result_of(long, digits).rows
    assert few[-1].accuracy > few[0].accuracy + 0.2
    assert few[-1].accuracy > plain[-1].accuracy - 0.15


@pytest.mark.gpu
def test_few_bits_in_half_of_the_bytes() -> None:
    """With bf16 a run of few bits is near that with tf32, and scored alike."""
    spec = changed(SHORT, {"quantise": "luq", "device": "cuda"})
    samples = load_samples(spec)
    model = named_model(changed(spec, {"model": "perceptron"}), samples)
    tf32, half = (
        run(changed(spec, {"precision": precision}), samples, model).rows
        for precision in ("tf32", "bf16")
    )
    assert half[0].loss == pytest.approx(tf32[0].loss, rel=1e-5)
    assert half[-1].loss != tf32[-1].loss
    assert half[-1].loss == pytest.approx(tf32[-1].loss, rel=0.05)
    assert half[-1].loss < half[0].loss


def test_runs_of_other_bits_do_not_share_lanes(digits: Samples) -> None:
    few = changed(SHORT, {"quantise": "luq"})
    model = named_model(changed(SHORT, {"model": "perceptron"}), digits)
    with pytest.raises(BadInput, match="quantise=none: must be the same"):
        run_together([SHORT, few], digits, model)


def test_messages_beyond_the_lattice_are_counted(digits: Samples) -> None:
    narrow = {"codec": "lattice", "codec_bits": 4, "algorithm": "quafl"}
    wrapped = result_of(changed(SHORT, narrow), digits).runs[0].decoding_failures
    assert 0 < wrapped <= 2 * 30 * 3  # two messages a contact


def test_learning_happens_and_is_recorded(digits: Samples) -> None:
    result = result_of(changed(SHORT, {"horizon": 1400.0}), digits)
    first, last = result.rows[0], result.rows[-1]
    assert last.accuracy > first.accuracy + 0.2
    assert last.loss < first.loss
    assert first.variance == first.potential == 0.0
    assert 0 < last.potential < last.variance
    record = result.runs[0]
    assert record.server_steps == 200 == last.server_step
    assert record.mean_model["accuracy"] > 0.3
    assert (result.status, result.error) == ("complete", None)


class Stopper:
    """Presses Ctrl-C after so many updates."""

    def __init__(self, updates: int) -> None:
        self.left = updates

    def begin(self, steps: int) -> None:
        self.steps = steps

    def advance(self, label: str, steps: int, time: float) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt

    def end(self) -> None:
        self.ended = True


def test_an_interrupted_run_keeps_what_it_has(digits: Samples) -> None:
    stopper = Stopper(50)
    spec = changed(SHORT, {"seeds": 3, "model": "perceptron"})
    result = run(spec, digits, named_model(spec, digits), progress=stopper)
    assert result.status == "partial"
    assert stopper.ended
    whole = result_of(spec, digits)
    assert 3 < len(result.rows) < len(whole.rows)
    for seed in range(3):
        kept = [row for row in result.rows if row.seed == seed]
        assert kept == [row for row in whole.rows if row.seed == seed][: len(kept)]
    assert [record.seed for record in result.runs] == [0, 1, 2]


@FORKS
@pytest.mark.quick("1000000000.0")
@pytest.mark.parametrize("period", [0.0, 1e9])
def test_results_are_heard_of_soon_after_they_are_there(
    period: float, digits: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a period together: at once, or in the end."""

    class Watch(Stopper):
        heard = 0

        def advance(self, label: str, steps: int, time: float) -> None:
            self.heard += 1

    monkeypatch.setattr(runner, "_PERIOD", period)
    watch, calls = Watch(0), []
    short = changed(SHORT, {"model": "perceptron", "seeds": 2})
    long = changed(short, {"horizon": 700.0})
    results = run_together(
        [long, short], digits, named_model(short, digits), progress=watch, workers=2,
        finished=lambda result: calls.append((result, watch.heard, len(result.rows))),
    )  # fmt: skip
    assert [result for result, _, _ in calls] == [results[1], results[0]]
    assert (calls[0][1] < calls[1][1]) == (period == 0)
    assert calls[1][1] == 2 * (30 + 100)
    assert [count for _, _, count in calls] == [2 * 4, 2 * 11]
    assert [row.seed for row in results[0].rows] == [0] * 11 + [1] * 11


def test_what_was_through_before_ctrl_c_is_heard_of(
    digits: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_PERIOD", 1e9)
    finished: list[Result] = []
    short = changed(SHORT, {"model": "perceptron"})
    long = changed(short, {"horizon": 7000.0})
    results = run_together(
        [long, short], digits, named_model(short, digits), progress=Stopper(200), workers=1,
        finished=finished.append,
    )  # fmt: skip
    assert finished == [results[1]]
    assert [result.status for result in results] == ["partial", "complete"]


def test_divergence_names_the_client_and_keeps_the_history(digits: Samples) -> None:
    spec = changed(SHORT, {"learning_rate": 1e30})
    result = result_of(spec, digits)
    assert result.status == "partial"
    assert result.error is not None
    assert "holds NaN or infinity and was refused" in str(result.error)
    assert len(result.rows) >= 1
    skipping = result_of(changed(spec, {"non_finite": "skip"}), digits)
    assert skipping.status == skipping.runs[0].status == "diverged"
    assert skipping.audit is not None  # which speaks of the schedule alone
    assert skipping.runs[0].refused_updates > 0


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"clients": 2000, "selected": 3, "split": "iid"}, "client 1437 has no samples"),
        ({"clients": 3, "selected": 2, "split": "two-class"}, r"class \d+ has no holder"),
    ],
)
def test_splits_that_leave_somebody_out(
    keys: dict[str, object], message: str, digits: Samples
) -> None:
    with pytest.raises(BadInput, match=message):
        result_of(changed(SHORT, keys), digits)


def test_a_model_that_does_not_fit_the_labels(digits: Samples) -> None:
    small = nn.Sequential(nn.Flatten(), nn.Linear(64, 7))
    with pytest.raises(BadInput, match=r"gives \(7,\) outputs, labels need 10"):
        run(SHORT, digits, small)


def small_network() -> nn.Module:
    """With BatchNorm, for images of 8 by 8."""
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 4)
    )


@pytest.mark.quick("asyncfeded")
@pytest.mark.parametrize(
    "algorithm",
    [*our_methods(), "favano, resnet20"],
)
def test_batchnorm_networks_run_with_every_method(algorithm: str) -> None:
    torch.manual_seed(0)
    samples = Samples(
        torch.randn(120, 3, 8, 8), torch.arange(120) % 4, torch.randn(40, 3, 8, 8),
        torch.arange(40) % 4, classes=4,
    )  # fmt: skip
    method, _, named = algorithm.partition(", ")
    own: dict[str, object] = {"buffer": 2} if method == "fedbuff" else {}
    keys: dict[str, object] = {
        "algorithm": method, "clients": 4, "selected": 2, "local_steps": 2, "horizon": 90,
        "learning_rate": 0.05, "batch_size": 16, "model": named or None, "split": "iid", **own,
    }  # fmt: skip
    spec = spec_of(**read_by(keys))
    result = run(spec, samples, named_model(spec, samples) if named else small_network())
    assert result.status == "complete"
    variances = [v for k, v in result.models[0].items() if k.endswith("running_var")]
    assert variances
    assert all(bool((value > 0).all()) for value in variances)


def test_buffers_may_stay_with_the_clients() -> None:
    """Then the server's are estimated at evaluation and never travel."""
    torch.manual_seed(0)
    images, labels = 5 + 2 * torch.randn(120, 3, 8, 8), torch.arange(120) % 4
    samples = Samples(images, labels, images[:40], labels[:40], classes=4)
    keys = {"clients": 4, "selected": 2, "local_steps": 3, "horizon": 140.0, "batch_size": 16}
    rest = {"learning_rate": 0.05, "split": "iid"}
    network = small_network()
    results = {}
    for buffers in ("average", "local"):
        spec = make_spec({**keys, **rest, "buffers": buffers})
        results[buffers] = run(spec, samples, network)
    for result in results.values():
        moved = [v for k, v in result.models[0].items() if k.endswith("running_mean")]
        assert all(bool((value != 0).any()) for value in moved)
        network.load_state_dict(result.models[0])
        output = network.eval()(images[:40])
        assert functional.cross_entropy(output, labels[:40]).item() == pytest.approx(
            result.runs[0].loss, rel=1e-5
        )
    assert results["local"].runs[0].loss < 2 * results["average"].runs[0].loss + 1


def test_the_variance_of_live_models_is_another(digits: Samples) -> None:
    start = result_of(SHORT, digits)
    live = result_of(changed(SHORT, {"variance": "live"}), digits)
    assert [row.loss for row in live.rows] == [row.loss for row in start.rows]
    assert live.rows[-1].variance > start.rows[-1].variance
