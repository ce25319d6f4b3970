"""Packs in this process, with messages as bytes: equal to runs on one machine, lost or not."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import favano
from favano.cluster.gathering import Gathering
from favano.cluster.messages import Advanced, Began, Ended, Message, Order, SavedPack
from favano.cluster.pack_run import pack_messages
from favano.cluster.packs import Pack, Slot, make_packs
from favano.cluster.preparation import prepare
from favano.errors import BadInput, NonFiniteUpdate
from favano.records import Summary, history_to_csv, summary_to_json
from favano.results import Result
from favano.run import api
from favano.run.backend import THIS_MACHINE
from favano.run.checkpoints import Checkpoints
from favano.run.data import load_data
from favano.run.inputs import RunInputs
from favano.run.progress import Silence
from favano.specification.presets import resolve
from favano.specification.spec import Spec
from tests.specs import spec_of

NODES = [Slot("a", 1), Slot("b", 1)]
EXAMPLE = Path(__file__).parents[2] / "examples" / "own_method.py"


def short(**keys: object) -> Spec:
    defaults: dict[str, object] = {
        "clients": 9, "selected": 3, "local_steps": 4, "batch_size": 16, "horizon": 210,
        "evaluate_every": 30, "slow_mean": 8, "seeds": 3,
    }  # fmt: skip
    return resolve(spec_of(**{**defaults, **keys}))


SPECS = [short(), short(algorithm="fedbuff", buffer=2, codec="qsgd"), short(algorithm="scaffold")]


@pytest.fixture(scope="module")
def digits() -> RunInputs:
    return RunInputs(load_data(SPECS[0].problem))


@pytest.fixture(scope="module")
def expected() -> list[Result]:
    return alone(SPECS)


class Sum(Silence):
    """Adds up local steps."""

    total = done = 0

    def begin(self, steps: int) -> None:
        self.total = steps

    def advance(self, label: str, steps: int, time: float) -> None:
        self.done += steps


def alone(specs: Sequence[Spec], **options: object) -> list[Result]:
    """The results of one machine."""
    together = THIS_MACHINE.load(specs[0], None, lambda total: None)
    return together(specs, **options)  # type: ignore[arg-type]


class Nodes:
    """Runs packs one after another; the first is lost after so many checkpoints, if any."""

    def __init__(self, specs: Sequence[Spec], data: RunInputs, folder: Path, lost_after: int = 0):
        self.data, self.lost_after = data, lost_after
        self.said: list[str] = []
        self.progress, self.finished = Sum(), list[Result]()
        self.orders: list[Order] = []
        kept = Checkpoints([folder / str(n) for n in range(len(specs))], 0.0, self.said.append)
        prepared = prepare(specs, data, {})
        self.gathering = Gathering(
            prepared.results, prepared.kernels, self.progress, self.finished.append,
            True, kept,
        )  # fmt: skip
        self.packs = make_packs(prepared.runs, NODES)
        self.gathering.begin(self.packs)

    def messages(self, pack: Pack) -> Iterator[Message]:
        self.orders.append(self.gathering.order(pack, NODES[0]))
        for message in pack_messages(pickle.loads(pickle.dumps(self.orders[-1])), self.data):
            yield pickle.loads(pickle.dumps(message))

    def results(self) -> Sequence[Result]:
        waiting = list(self.packs)
        while waiting:
            pack, saved = waiting.pop(0), 0
            stream = self.messages(pack)
            for message in stream:
                self.gathering.receive(pack, message)
                saved += isinstance(message, SavedPack)
                if saved == self.lost_after > 0:
                    self.lost_after = 0
                    waiting.append(pack)
                    stream.close()  # type: ignore[attr-defined]
        return self.gathering.results


def timeless(result: Result) -> Summary:
    """The summary without what no two runs have alike."""
    return replace(
        result.summary, runs=tuple(replace(run, wall_seconds=0.0) for run in result.runs)
    )


def same(result: Result, other: Result) -> None:
    assert history_to_csv(result.rows) == history_to_csv(other.rows)
    assert result.bounds == other.bounds
    assert summary_to_json(timeless(result)) == summary_to_json(timeless(other))
    assert result.participation == other.participation
    assert list(result.models) == list(other.models)
    for seed, model in result.models.items():
        assert all(torch.equal(model[name], other.models[seed][name]) for name in model)
    for mine, theirs in zip(result.runs, other.runs, strict=True):
        assert replace(mine, wall_seconds=0.0) == replace(theirs, wall_seconds=0.0)


def test_packs_give_the_results_of_one_machine(
    digits: RunInputs, expected: list[Result], tmp_path: Path
) -> None:
    nodes = Nodes(SPECS, digits, tmp_path)
    assert len(nodes.packs) == 4
    for result, other in zip(nodes.results(), expected, strict=True):
        same(result, other)
    assert sorted(map(id, nodes.finished)) == sorted(map(id, nodes.gathering.results))
    assert nodes.said == []


@pytest.mark.slow
def test_the_times_of_real_fleets_are_those_of_one_machine(
    digits: RunInputs, tmp_path: Path
) -> None:
    """Also an interaction time that is the usual one without links, and a model that is kept."""
    keys: dict[str, object] = {
        "dataset": "digits", "clients": 9, "selected": 3, "local_steps": 4, "batch_size": 16,
        "horizon": 40, "evaluate_every": 10, "fleet": "phones", "interaction_time": 3.0,
        "availability": "two-state:20:5", "algorithm": "fedbuff", "buffer": 2,
        "keep": "best", "holdout": 300, "seeds": 2,
    }  # fmt: skip
    specs = [resolve(spec_of(**keys, link="home")), resolve(spec_of(**keys, link="0.5:1:0.2"))]
    there = RunInputs(load_data(specs[0].problem))
    expected = alone(specs)
    assert expected[0].rows != expected[1].rows
    for spread, result in zip(Nodes(specs, there, tmp_path).results(), expected, strict=True):
        same(spread, result)
        assert spread.kept == result.kept


def test_own_data_are_fitted_to_the_network_on_every_machine(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """64-bit inputs, and targets without a column; the driver says what is changed once."""
    generator = torch.Generator().manual_seed(5)
    inputs = torch.randn(240, 6, generator=generator, dtype=torch.float64)
    pair = inputs, inputs[:, 0] * 2
    own = favano.Problem(
        lambda: torch.nn.Linear(6, 1), train=pair, test=pair, loss=torch.nn.functional.mse_loss,
        split="iid", batch_size=8,
    )  # fmt: skip
    keys = {"selected": 3, "horizon": 60, "evaluate_every": 30, "local_steps": 2, "seeds": 2}
    fleet = favano.Fleet.two_speeds(6)
    given, data, specs = api.prepare(["favano", "fedavg"], own, fleet, keys, compared=True)
    there = RunInputs.of(given, data)
    expected = THIS_MACHINE.prepare(specs[0], there)(specs)
    caplog.clear()
    nodes = Nodes(specs, there, tmp_path)
    changes = [line for line in caplog.messages if "become torch.float32" in line]
    assert len(changes) == 1
    for spread, result in zip(nodes.results(), expected, strict=True):
        same(spread, result)


@pytest.mark.slow
def test_bounds_come_back_in_the_order_of_seeds(digits: RunInputs, tmp_path: Path) -> None:
    specs = [short(track_bound=True)]
    nodes = Nodes(specs, digits, tmp_path)
    same(nodes.results()[0], alone(specs)[0])
    assert nodes.gathering.results[0].bounds


def test_a_lost_pack_goes_on_from_its_checkpoints(
    digits: RunInputs, expected: list[Result], tmp_path: Path
) -> None:
    nodes = Nodes(SPECS, digits, tmp_path, lost_after=6)
    for result, other in zip(nodes.results(), expected, strict=True):
        same(result, other)
    (said,) = nodes.said
    assert "go on, the first at time" in said
    first, again = nodes.orders[0], nodes.orders[-1]
    assert again.asked.keys() == first.asked.keys()
    assert not any(asked.saved for asked in first.asked.values())
    assert all(asked.saved for asked in again.asked.values())


def test_progress_counts_each_step_once_however_often_it_was_made(
    digits: RunInputs, tmp_path: Path
) -> None:
    nodes = Nodes(SPECS[:2], digits, tmp_path)
    (pack, *_) = nodes.packs
    planned = nodes.progress.total
    for message in nodes.messages(pack):
        nodes.gathering.receive(pack, message)
        if isinstance(message, SavedPack):
            break
    nodes.gathering.receive(pack, Advanced("favano, seed 0", 5, 1.0))
    before = nodes.progress.done
    assert before >= 5
    (again,) = (sent for sent in nodes.messages(pack) if isinstance(sent, Began))
    nodes.gathering.receive(pack, again)
    assert nodes.progress.done == pack.steps - again.steps
    assert again.steps < pack.steps
    assert nodes.progress.total == planned


def test_runs_that_have_ended_are_not_sent_again(digits: RunInputs, tmp_path: Path) -> None:
    nodes = Nodes(SPECS[:2], digits, tmp_path)
    (pack, *_) = nodes.packs
    for message in nodes.messages(pack):
        nodes.gathering.receive(pack, message)
    assert nodes.gathering.left_of(pack) == []
    assert nodes.gathering.order(pack, NODES[1]).asked == {}


def test_the_driver_keeps_one_checkpoint_of_a_run_that_has_ended(
    digits: RunInputs, tmp_path: Path
) -> None:
    nodes = Nodes(SPECS[:1], digits, tmp_path)
    nodes.results()
    names = [path.name.partition(".")[0] for path in sorted((tmp_path / "0").iterdir())]
    assert names == ["seed-0", "seed-1", "seed-2"]


def test_interrupted_results_keep_the_seeds_that_have_ended(
    digits: RunInputs, tmp_path: Path
) -> None:
    nodes = Nodes(SPECS[:1], digits, tmp_path)
    pack = nodes.packs[0]
    for message in nodes.messages(pack):
        nodes.gathering.receive(pack, message)
    nodes.gathering.interrupt()
    (result,) = nodes.gathering.results
    assert (result.status, result.interrupted) == ("partial", True)
    assert [run.seed for run in result.runs] == [run.seed for run in pack.runs]


def test_a_run_that_meets_nan_ends_alone(digits: RunInputs, tmp_path: Path) -> None:
    specs = [short(learning_rate=1e30, seeds=1), short(algorithm="fedavg", seeds=1)]
    nodes = Nodes(specs, digits, tmp_path)
    bad, good = nodes.results()
    assert (bad.status, good.status) == ("partial", "complete")
    assert isinstance(bad.error, NonFiniteUpdate)
    assert str(bad.error) == str(alone(specs)[0].error)


def test_earlier_seeds_are_taken_over(digits: RunInputs) -> None:
    specs = [short(seeds=2)]
    before = alone([short(seeds=1)])[0]
    prepared = prepare(specs, digits, {0: before})
    assert [(run.number, run.seed) for run in prepared.runs] == [(0, 1)]
    assert prepared.results[0].rows == before.rows
    kernels = "onednn" if before.summary.kernels == "native" else "native"
    other = replace(before, summary=replace(before.summary, kernels=kernels))
    with pytest.raises(BadInput, match="its earlier seeds were trained with"):
        prepare(specs, digits, {0: other})


def order_of(spec: Spec, data: RunInputs, folder: Path) -> Order:
    nodes = Nodes([spec], data, folder)
    return nodes.gathering.order(nodes.packs[0], NODES[0])


def refusal(order: Order, data: RunInputs) -> str:
    """The sentence that the driver says."""
    (message,) = pack_messages(order, data)
    with pytest.raises(BadInput) as refused:
        raise pickle.loads(pickle.dumps(message)).error
    return str(refused.value)


def test_a_method_of_ones_own_is_sent_along(
    digits: RunInputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path("methods")
    folder.mkdir()
    (folder / "mine.py").write_bytes(EXAMPLE.read_bytes())
    specs = [short(algorithm="methods/mine.py", seeds=1)]
    nodes, expected = Nodes(specs, digits, tmp_path / "out"), alone(specs)
    (order,) = (nodes.gathering.order(pack, NODES[0]) for pack in nodes.packs)
    (folder / "mine.py").unlink()  # other machines do not have it
    ended = [message for message in pack_messages(order, digits) if isinstance(message, Ended)]
    assert history_to_csv(ended[0].result.rows) == history_to_csv(expected[0].rows)
    changed = {0: order.asked[0]._replace(source="0" * 64)}
    assert "has another version of ca2fl" in refusal(replace(order, asked=changed), digits)


def test_files_with_absolute_paths_are_not_written(digits: RunInputs, tmp_path: Path) -> None:
    name = "/nowhere/steps.csv"
    order = replace(order_of(SPECS[0], digits, tmp_path), files={name: b"1,2"})
    assert f"files={name}: need a relative path, or the same file" in refusal(order, digits)


def test_files_beside_the_working_directory_are_written_into_the_temporary_folder(
    digits: RunInputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    files = {"../../steps.csv": b"1,2", "../a/b.csv": b"3", "here.csv": b"4"}
    stream = pack_messages(replace(order_of(SPECS[0], digits, tmp_path), files=files), digits)
    next(stream)
    (folder,) = tmp_path.glob("favano-*")
    written = {path.relative_to(folder).as_posix() for path in folder.rglob("*.csv")}
    assert written == {"steps.csv", "below/a/b.csv", "below/below/here.csv"}
    stream.close()  # type: ignore[attr-defined]


def test_what_the_file_of_a_method_imports_is_sent_along(
    digits: RunInputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also from beside the working directory."""
    (tmp_path / "work").mkdir()
    (tmp_path / "methods").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    text = "from helper_of_ca2fl import SCALE\n" + EXAMPLE.read_text()
    (tmp_path / "methods" / "mine.py").write_text(text)
    (tmp_path / "methods" / "helper_of_ca2fl.py").write_text("SCALE = 1.0\n")
    nodes = Nodes([short(algorithm="../methods/mine.py", seeds=1)], digits, tmp_path / "out")
    (order,) = (nodes.gathering.order(pack, NODES[0]) for pack in nodes.packs)
    assert sorted(order.files) == ["../methods/helper_of_ca2fl.py", "../methods/mine.py"]
    (tmp_path / "methods").rename(tmp_path / "gone")
    monkeypatch.delitem(sys.modules, "helper_of_ca2fl")
    ended = [message for message in pack_messages(order, digits) if isinstance(message, Ended)]
    assert ended[0].result.rows


def test_a_file_that_is_there_may_be_anywhere(digits: RunInputs, tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    path.write_bytes(b"1,2")
    order = replace(order_of(SPECS[0], digits, tmp_path), files={str(path): b"1,2"})
    assert any(isinstance(message, Ended) for message in pack_messages(order, digits))


def test_closing_the_messages_ends_the_runs_and_leaves_nothing(
    digits: RunInputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    before = Path.cwd()
    stream = pack_messages(
        order_of(short(horizon=4000, kernels="native", seeds=1), digits, tmp_path), digits
    )
    next(stream)
    assert list((tmp_path / "temporary").glob("favano-*"))
    stream.close()  # type: ignore[attr-defined]
    assert Path.cwd() == before
    assert list((tmp_path / "temporary").glob("favano-*")) == []
