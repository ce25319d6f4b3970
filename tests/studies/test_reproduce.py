"""Resuming, interrupting, sharing, and what is written of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import ClassVar

import pytest

from favano.errors import BadInput
from favano.records import Entry, entries_from_csv, rates_tried
from favano.run.backend import ThisMachine
from favano.specification.spec import changed
from favano.studies.archive import Archive
from favano.studies.experiment import Experiment, Reading, StudyRun, prepared, seeded
from favano.studies.footprint import Footprint
from favano.studies.reproduce import Stopped
from favano.studies.request import Request
from favano.studies.run_maker import StepMeter, still_to_make
from favano.studies.search import RateSearch, Rung, Search, SearchGrid, to_the_end
from tests.run.small import FOOTPRINT, SETTINGS, SHARED, SMALL, reproduce_small, small_runs


def ledger(path: Path) -> list[Entry]:
    return entries_from_csv(path.read_text())


class Counter:
    """Counts local steps."""

    def __init__(self) -> None:
        self.steps = 0

    def begin(self, steps: int) -> None:
        self.began = steps

    def advance(self, label: str, steps: int, time: float) -> None:
        self.steps += steps

    def end(self) -> None:
        pass


def test_a_second_call_makes_only_what_is_missing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second, third = Counter(), Counter(), Counter()
    reproduce_small(tmp_path, Request(seeds=1), first)
    kept = {path: path.read_bytes() for path in (tmp_path / "runs").glob("*/*")}
    assert len(kept) == 4 * 3
    assert {path.name for path in kept} == {"spec.toml", "history.csv", "summary.json"}
    reproduce_small(tmp_path, Request(seeds=2), second)
    assert {path: path.read_bytes() for path in kept} == kept
    assert len(list((tmp_path / "runs").iterdir())) == 8
    assert first.steps > 0
    assert second.steps > 0
    reproduce_small(tmp_path, Request(seeds=2), third)
    assert third.steps == 0
    assert not caplog.messages
    (tmp_path / "runs" / "0123.json").write_text("{}")
    reproduce_small(tmp_path, Request(seeds=2), third)
    assert caplog.messages == ["files of an earlier release in runs are not read: 1"]
    entries = ledger(tmp_path / "small" / "runs.csv")
    assert [entry.status for entry in entries] == ["complete"] * 8
    assert [entry.seed for entry in entries] == [0, 1] * 4


def test_runs_in_full_precision_and_in_few_bits_are_made_in_turn(tmp_path: Path) -> None:
    def both(seeds: int) -> list[StudyRun]:
        keys = {**SHARED, **SETTINGS["iid"]}
        plain = seeded("full", "iid", keys, range(seeds))
        return [*plain, *seeded("few", "iid", {**keys, "quantise": "luq"}, range(seeds))]

    few = replace(SMALL, runs=both, lines={"full": "full", "few": "few"}, readings={})
    reproduce_small(tmp_path, Request(seeds=1), experiments=(few,))
    entries = ledger(tmp_path / "small" / "runs.csv")
    assert [entry.status for entry in entries] == ["complete"] * 2
    assert len({entry.loss for entry in entries}) == 2


def test_what_is_there_is_written_without_the_machine_that_made_it(tmp_path: Path) -> None:
    """Tables of runs on a GPU, written on a laptop; their constants are those of the GPU."""

    def nobody() -> Footprint:
        raise AssertionError("nothing is made here")

    reproduce_small(tmp_path, Request(seeds=1))
    written = tmp_path / "small" / "runs.csv"
    before = written.read_text()
    written.unlink()
    missing = ThisMachine()
    missing.size = missing.load = missing.call = nobody  # type: ignore[method-assign, assignment]
    reproduce_small(tmp_path, Request(seeds=1), footprint=nobody, place=missing)
    assert written.read_text() == before
    digests = [entry.digest for entry in ledger(written)]
    assert Archive(tmp_path).constants([*digests, "not made"]) == FOOTPRINT.words
    other = replace(FOOTPRINT, hardware="another board")
    reproduce_small(tmp_path, Request(seeds=2), footprint=lambda: other)
    digests = [entry.digest for entry in ledger(written)]
    assert Archive(tmp_path).constants(digests) == f"{FOOTPRINT.words}; {other.words}"


def test_a_machine_is_described_before_it_is_busy(tmp_path: Path) -> None:
    """A cluster could not answer later: its runs take all of it."""
    seen = []

    class Watch(Counter):
        def begin(self, steps: int) -> None:
            seen.append("begun")

    def describe() -> Footprint:
        seen.append("described")
        return FOOTPRINT

    reproduce_small(tmp_path, Request(seeds=1), Watch(), at_once=2, footprint=describe)
    assert seen == ["described", "begun", "begun"]


def test_a_run_that_was_removed_is_made_again_as_it_was(tmp_path: Path) -> None:
    reproduce_small(tmp_path, Request(seeds=1))
    before = ledger(tmp_path / "small" / "runs.csv")
    archive, run = (
        Archive(tmp_path),
        prepared(small_runs(1), scale=1.0, device="cpu")[0],
    )
    history = archive.read(run).history
    rmtree(archive.path(run))
    assert still_to_make(small_runs(1), archive) == [run]
    reproduce_small(tmp_path, Request(seeds=1))
    assert archive.read(run).history == history
    after = ledger(tmp_path / "small" / "runs.csv")
    assert [entry.accuracy for entry in after] == [entry.accuracy for entry in before]


def test_what_an_entry_says(tmp_path: Path) -> None:
    reproduce_small(tmp_path, Request(seeds=1))
    entry = ledger(tmp_path / "small" / "runs.csv")[1]
    run = Archive(tmp_path).read(small_runs(1)[1])
    last = run.rows[-1]
    assert (entry.algorithm, entry.column, entry.reading) == ("favano", "iid", "paper")
    assert (entry.accuracy, entry.local_steps) == (last.accuracy, last.local_steps)
    assert entry.server_steps == 20
    assert entry.hardware == "a desk"
    assert entry.machine_seconds is not None
    assert entry.machine_seconds > 0
    wh = entry.machine_seconds / 3600 * (100 + 0.3725 * 10) * 1.67
    assert entry.energy_wh == pytest.approx(wh, abs=3e-5)
    assert entry.co2_grams == pytest.approx(0.475 * wh, abs=3e-5)
    assert run.summary.command == "favano test"
    assert run.spec.fleet.clients == 10


class StopLate(Counter):
    """Presses Ctrl-C after so many updates."""

    def __init__(self, updates: int) -> None:
        self.steps, self.left = 0, updates

    def advance(self, label: str, steps: int, time: float) -> None:
        self.steps += steps
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def test_runs_that_were_ended_go_on_from_checkpoints(tmp_path: Path) -> None:
    counter = Counter()
    reproduce_small(tmp_path / "whole", Request(seeds=1), counter)
    first, second = StopLate(30), Counter()
    with pytest.raises(Stopped):
        reproduce_small(tmp_path / "two", Request(seeds=1), first, checkpoint_every=0)
    kept = list(tmp_path.glob("two/runs/*/checkpoints"))
    assert kept
    reproduce_small(tmp_path / "two", Request(seeds=1), second, checkpoint_every=0)
    assert second.steps < counter.steps < first.steps + second.steps + 1
    assert not any(path.exists() for path in kept)
    archives = Archive(tmp_path / "whole"), Archive(tmp_path / "two")
    for run in prepared(small_runs(1), scale=1.0, device="cpu"):
        whole, other = (archive.read(run) for archive in archives)
        assert whole.history == other.history
        assert whole.runs[0].loss == other.runs[0].loss


class StopInSecondPool(Counter):
    """Presses Ctrl-C at the first update of the second pool."""

    pools = 0

    def begin(self, steps: int) -> None:
        self.pools += 1

    def advance(self, label: str, steps: int, time: float) -> None:
        if self.pools == 2:
            raise KeyboardInterrupt


def test_ctrl_c_keeps_runs_that_are_through_and_nothing_else(tmp_path: Path) -> None:
    def runs(seeds: int) -> list[StudyRun]:
        first, second = small_runs(1)[:2]
        return [first, StudyRun("", "iid", changed(second.spec, {"normalise": True}))]

    two = Experiment("two", "Two", runs, 1, SMALL.lines, {"iid": "IID"})
    with pytest.raises(Stopped):
        reproduce_small(tmp_path, Request(), StopInSecondPool(), [two])
    first, second = ledger(tmp_path / "two" / "runs.csv")
    assert (first.status, second.status) == ("complete", "missing")
    assert second.accuracy is None
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [first.digest]
    reproduce_small(tmp_path, Request(), experiments=[two])
    again = ledger(tmp_path / "two" / "runs.csv")
    assert [entry.status for entry in again] == ["complete", "complete"]
    assert again[0] == first


def test_few_at_once_are_kept_before_the_next_begin(tmp_path: Path) -> None:
    class Watch(Counter):
        kept: ClassVar[list[int]] = []

        def begin(self, steps: int) -> None:
            self.kept.append(len(list(tmp_path.glob("runs/*/summary.json"))))

    reproduce_small(tmp_path, Request(seeds=1), Watch(), at_once=3)
    assert Watch.kept == [0, 3]
    with pytest.raises(BadInput, match="at_once=0: need 1 or more"):
        reproduce_small(tmp_path, Request(seeds=1), at_once=0)


def test_a_diverged_run_is_kept_as_such(tmp_path: Path) -> None:
    def runs(seeds: int) -> list[StudyRun]:
        wild = small_runs(seeds)[1]
        spec = changed(wild.spec, {"learning_rate": 1e30})
        return [StudyRun(wild.reading, wild.column, spec)]

    wild = Experiment("wild", "Wild", runs, 1, SMALL.lines, {"iid": "IID"}, figures=SMALL.figures)
    reproduce_small(tmp_path, Request(), experiments=[wild])
    (entry,) = ledger(tmp_path / "wild" / "runs.csv")
    assert entry.status == "diverged"
    again = Counter()
    reproduce_small(tmp_path, Request(), again, [wild])
    assert again.steps == 0
    assert len((tmp_path / "wild" / "curves.csv").read_text().splitlines()) == 1


SEARCH = RateSearch(
    {
        "fedavg": SearchGrid(client=(0.5, 1.0, 2.0), server=(0.5, 1.0)),
        "favano": SearchGrid(client=(0.1, 0.2, 0.5, 1.0, 2.0, 4.0), server=(1.0,)),
    },
    Search(to_the_end(6), holdout=287, seeds=2),
)


def test_readings_of_an_earlier_call_stay(tmp_path: Path) -> None:
    longer = Reading("twice as long", ("favano",), {}, time=2.0)
    both = replace(SMALL, readings={**SMALL.readings, "longer": longer})
    for name in ("none", "longer", "none"):
        reproduce_small(tmp_path, Request(seeds=1, readings=(name,)), experiments=[both])
        (tmp_path / "runs").rename(tmp_path / f"runs-{name}-{len(list(tmp_path.iterdir()))}")
    (path,) = tmp_path.glob("*/readings.csv")
    readings = [entry.reading for entry in ledger(path)]
    assert list(dict.fromkeys(readings)) == ["none", "longer"]
    assert len(set(readings)) < len(readings) == len(set(ledger(path)))


def test_readings_and_tuning_have_ledgers_of_their_own(tmp_path: Path) -> None:
    request = Request(seeds=1, readings=("none",), tune=True)
    only = Experiment(
        "only", "Only", lambda seeds: small_runs(seeds)[:1], 1, SMALL.lines, {"iid": "IID"},
        readings=SMALL.readings, search=SEARCH,
    )  # fmt: skip
    reproduce_small(tmp_path, request, experiments=[only])
    folder = tmp_path / "only"
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["readings.csv", "runs.csv", "tuned.csv", "tuning.csv"]
    tried, tuned = ledger(folder / "tuning.csv"), ledger(folder / "tuned.csv")
    assert {entry.time for entry in (*tried, *tuned)} == {SHARED["horizon"]}
    assert len(tried) == 6 * SEARCH.search.seeds
    assert {entry.seed for entry in tried} == {1000, 1001}
    assert [(entry.reading, entry.seed) for entry in tuned] == [("tuned", 0)]
    best = max(
        {entry.learning_rate for entry in tried if entry.server_learning_rate == tuned[0][6]},
        key=lambda rate: sum(
            entry.accuracy or 0
            for entry in tried
            if entry.learning_rate == rate and entry.server_learning_rate == tuned[0][6]
        ),
    )
    assert tuned[0].learning_rate == best


def test_an_experiment_of_ours_is_run_with_the_rates_found_and_no_others(tmp_path: Path) -> None:
    halved = Search((Rung(0.5, 6), Rung(1.0, 2)), holdout=287, seeds=2)
    ours = replace(
        SMALL, runs=lambda seeds: small_runs(seeds)[: 2 * seeds], columns={"iid": "IID"}, paper={},
        readings={"longer": Reading("twice as long", ("fedavg",), {}, time=2.0)},
        search=replace(SEARCH, search=halved), ours=True,
    )  # fmt: skip
    reproduce_small(tmp_path, Request(seeds=2, readings=("all",)), experiments=[ours])
    folder = tmp_path / "small"
    assert not (folder / "tuned.csv").exists()
    runs, longer, tried = (ledger(folder / f"{n}.csv") for n in ("runs", "readings", "tuning"))
    best = {method: pairs[0][:2] for (method, _), pairs in rates_tried(tried).items()}
    times = [entry.time for entry in tried]
    assert (times.count(70.0), times.count(140.0), len(times)) == (2 * 6 * 2, 2 * 2 * 2, 32)
    assert {entry.status for entry in (*runs, *longer, *tried)} == {"complete"}
    for entry in (*runs, *longer):
        assert (entry.learning_rate, entry.server_learning_rate) == best[entry.algorithm]
    assert {entry.time for entry in longer} == {280.0}
    assert len(list(tmp_path.glob("runs/*/summary.json"))) == len(tried) + len(runs) + len(longer)


def test_curves_are_means_over_seeds_up_to_the_horizon(tmp_path: Path) -> None:
    reproduce_small(tmp_path, Request(seeds=2))
    archive, runs = Archive(tmp_path), small_runs(2)[2:4]  # FAVANO, IID
    lines = (tmp_path / "small" / "curves.csv").read_text().splitlines()
    header, rows = lines[0].split(","), [line.split(",") for line in lines[1:]]
    mine = [dict(zip(header, row, strict=True)) for row in rows if row[1:3] == ["favano", "iid"]]
    assert [float(row["time"]) for row in mine] == [0, 35, 70, 105, 140]
    first, two = (archive.read(run).rows[2] for run in runs)
    assert float(mine[2]["accuracy"]) == pytest.approx(
        (first.accuracy + two.accuracy) / 2, rel=1e-5
    )
    spread = abs(first.accuracy - two.accuracy) / 2**0.5
    high, low = float(mine[2]["accuracy_high"]), float(mine[2]["accuracy_low"])
    assert (high - low) / 2 == pytest.approx(spread, rel=1e-4)
    assert max(float(row[4]) for row in rows) == SHARED["horizon"]  # FedAvg's last round is cut


def test_tables_and_curves_are_of_one_time(tmp_path: Path) -> None:
    """A round of FedAvg that ends past the horizon is in neither; the run itself has it."""
    reproduce_small(tmp_path, Request(seeds=2))
    entries = ledger(tmp_path / "small" / "runs.csv")
    assert {entry.time for entry in entries} == {SHARED["horizon"]}
    archive = Archive(tmp_path)
    late = [run for run in small_runs(2) if archive.read(run).runs[0].time != SHARED["horizon"]]
    assert {run.spec.name for run in late} == {"fedavg"}
    lines = (tmp_path / "small" / "curves.csv").read_text().splitlines()
    header, rows = lines[0].split(","), [line.split(",") for line in lines[1:]]
    for column in ("iid", "two"):
        cell = [e for e in entries if (e.algorithm, e.column) == ("fedavg", column)]
        end = [row for row in rows if row[1:3] == ["fedavg", column]][-1]
        for name in ("accuracy", "loss", "server_steps"):
            mean = sum(getattr(entry, name) for entry in cell) / len(cell)
            assert float(end[header.index(name)]) == pytest.approx(mean, rel=1e-5)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    reproduce_small(tmp_path, Request(seeds=1))
    path = Archive(tmp_path).path(small_runs(1)[0])
    (path / "summary.json").write_text("{}")
    with pytest.raises(BadInput, match=f"{path.name}: is damaged; remove it"):
        reproduce_small(tmp_path, Request(seeds=1))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"scale": 0.0}, "scale=0.0: need a number > 0, 1 at most"),
        ({"scale": 1.5}, "scale=1.5: need a number > 0, 1 at most"),
        ({"seeds": 0}, "seeds=0: need 1..1000: seeds from 1000 on are for tuning"),
        ({"seeds": 1001}, "seeds=1001: need 1..1000"),
    ],
)
def test_impossible_requests(keys: dict[str, float], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Request(**keys)  # type: ignore[arg-type]


def test_a_scaled_look_does_not_replace_the_full_one(tmp_path: Path) -> None:
    assert Request().folder(tmp_path, "table-2") == tmp_path / "table-2"
    assert Request(scale=0.1).folder(tmp_path, "table-2") == tmp_path / "table-2-scale-0.1"
    other = Request(scale=0.5, changes={"horizon": "30", "fast_fraction": "1/9"})
    assert other.folder(tmp_path, "x") == tmp_path / "x-fast_fraction-1-9-horizon-30-scale-0.5"


def test_changes_apply_to_all_runs_alike() -> None:
    changes = {"horizon": "300", "precision": "float32"}
    runs = prepared(small_runs(2), scale=1.0, device="cpu", changes=changes)
    assert {(run.spec.run.horizon, run.spec.run.precision) for run in runs} == {(300.0, "float32")}
    with pytest.raises(BadInput, match="horizons=3: unknown key; did you mean horizon"):
        prepared(small_runs(1), scale=1.0, device="cpu", changes={"horizons": "3"})


def test_missing_data_are_refused_before_any_work(tmp_path: Path) -> None:
    from favano.studies.catalogue import EXPERIMENTS
    from favano.studies.run_maker import check_all

    runs = EXPERIMENTS["table-2"].runs(1)
    with pytest.raises(BadInput, match="dataset=mnist: no Parquet files in"):
        check_all(runs, tmp_path / "out", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_all_time_is_charged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """To each run as it ends, by its steps: whoever ends last pays what is left."""
    clock = iter([0.0, 10.0, 30.0])
    monkeypatch.setattr("favano.studies.run_maker.perf_counter", lambda: next(clock))
    meter = StepMeter()
    meter.begin(100)
    meter.advance("first", 20, 1.0)
    meter.advance("second", 20, 1.0)
    assert meter.charge(20) == 5.0
    meter.advance("second", 60, 2.0)
    assert meter.charge(80) == 25.0
