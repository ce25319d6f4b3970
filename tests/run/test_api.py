"""The package from Python: what it takes, and what it refuses."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from math import inf
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import favano
from favano.errors import BadInput, WriteFailed
from favano.planning.participation import participation_of
from favano.policies import Buffered
from favano.records.history import columns
from favano.results import check_folder
from favano.run import checkpoints, seed_run
from favano.run.progress import Silence
from favano.specification.keys import Keys
from favano.specification.spec import changed
from tests.cells import run_cell
from tests.specs import unchained


def pair(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(rows)
    return torch.randn(rows, 5), torch.arange(rows) % 3


def own(model: nn.Module | Callable[[], nn.Module]) -> favano.Problem:
    return favano.Problem(model, train=pair(60), test=pair(30), split="iid", batch_size=8)


FLEET = favano.Fleet(clients=4)
KEYS: Keys = {"selected": 2, "local_steps": 2, "horizon": 70}
TWO_SEEDS: Keys = {**KEYS, "seeds": 2}


def test_a_module_gives_its_weights_to_every_seed_and_a_factory_draws_new_ones() -> None:
    torch.manual_seed(0)
    same = favano.simulate("favano", own(nn.Linear(5, 3)), FLEET, **TWO_SEEDS)
    fresh = favano.simulate("favano", own(lambda: nn.Linear(5, 3)), FLEET, **TWO_SEEDS)
    starts = [[row.loss for row in result.rows if row.time == 0] for result in (same, fresh)]
    assert starts[0][0] == starts[0][1]
    assert starts[1][0] != starts[1][1]


def test_the_global_generator_is_left_alone() -> None:
    problem = own(lambda: nn.Linear(5, 3))
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    favano.simulate("favano", problem, FLEET, **KEYS)
    assert torch.equal(torch.rand(3), expected)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(5, 3)


def test_a_method_is_a_name_an_object_or_a_class() -> None:
    problem = own(network())
    by_name, by_object, by_class = (
        favano.simulate(method, problem, FLEET, **KEYS)
        for method in ("fedbuff", favano.FedBuff(), favano.FedBuff)
    )
    assert by_name.rows == by_object.rows == by_class.rows
    assert by_name.spec == by_object.spec == by_class.spec
    other = favano.simulate(favano.FedBuff(buffer=1), problem, FLEET, **KEYS)
    assert other.rows != by_name.rows
    assert other.spec.keys["buffer"] == 1


def test_a_method_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "own_average.py"
    file.write_text(METHOD, encoding="utf-8")
    problem = own(network())
    mine = favano.simulate(f"{file}:OwnAverage", problem, FLEET, **KEYS)
    assert (mine.spec.name, mine.spec.method.title) == ("ownaverage", "Own average")
    fedavg = favano.simulate("fedavg", problem, FLEET, **KEYS)
    assert unchained(mine.rows) == unchained(fedavg.rows)
    assert fedavg.audit is not None
    assert mine.audit is None  # it does not say that it is linear
    mine.save(tmp_path / "mine")
    (read,) = favano.load(tmp_path / "mine").results
    assert (read.title, read.algorithm) == ("Own average", "ownaverage")
    assert read.participation is None
    check_folder(tmp_path / "mine", mine.spec)
    file.write_text(METHOD + "# changed\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"already holds a run of another version of ownaverage"):
        check_folder(tmp_path / "mine", changed(mine.spec, {}))


METHOD = '''"""Own average: FedAvg again."""

import favano


class OwnAverage(favano.Method):
    """The mean of the client updates."""

    title = "Own average"

    def policy(self):
        return self.context.rounds()

    def aggregate(self, state, updates):
        size = self.context.sizes(False)[updates.client]
        return favano.ModelState(state.model + 1.0 * updates.weighted_delta(size / size.sum()))

    def aggregate_buffers(self, server, clients, updates):
        return clients.mean(0)
'''


def test_arrays_are_as_good_as_tensors() -> None:
    train, test = pair(60), pair(30)
    arrays = favano.Problem(
        network(),
        train=(train[0].numpy(), train[1].numpy()),
        test=(np.asarray(test[0]), np.asarray(test[1])),
        split="iid",
        batch_size=8,
    )
    result = favano.simulate("favano", arrays, FLEET, **KEYS)
    assert result.rows == favano.simulate("favano", own(network()), FLEET, **KEYS).rows
    plan = favano.plan(favano.FedAvg(sample_weights=True), arrays, FLEET, **KEYS)
    assert plan.audit is not None


def test_a_data_set_by_name() -> None:
    result = favano.simulate("favano", "digits", favano.Fleet(clients=10), **KEYS)
    assert (result.spec.problem.dataset, result.spec.problem.split) == ("digits", "two-class")
    assert result.status == "complete"
    assert len(result.accuracy) == 1


def test_names_take_their_keys_as_on_the_command_line() -> None:
    keys: Keys = {**KEYS, "clients": 7, "batch_size": 9, "split": "iid", "buffer": 3}
    plain = favano.simulate("fedbuff", **keys)
    problem = favano.Problem(dataset="digits", batch_size=9, split="iid")
    made = favano.simulate(favano.FedBuff(buffer=3), problem, favano.Fleet(clients=7), **KEYS)
    assert plain.history == made.history
    assert (plain.spec.fleet.clients, plain.spec.problem.batch_size) == (7, 9)
    both = favano.compare(["favano", "fedbuff"], **keys)
    assert both.results[1].spec.method == favano.FedBuff(buffer=3)


@pytest.mark.parametrize("means", [[1.0, 2.0, 5.0, 5.0], np.array([1, 2, 5, 5])])
def test_any_speeds(means: list[float], tmp_path: Path) -> None:
    """Client i makes a step in mean[i]: the plan counts as many as fit."""
    fleet = favano.Fleet(mean=means, step_law="deterministic")
    assert fleet.clients == 4
    problem = own(nn.Linear(5, 3))
    planned = favano.plan("fedavg", problem, fleet, selected=4, local_steps=4, horizon=70)
    schedule = planned.planned.schedule
    first = schedule.used_by == 0
    took = (schedule.finish - schedule.begin)[first][np.argsort(schedule.client[first])]
    assert took.tolist() == [4.0, 8.0, 20.0, 20.0]
    result = favano.simulate("fedavg", problem, fleet, **KEYS)
    assert "mean = [" in (result.save(tmp_path / "kept") / "spec.toml").read_text()
    keys: Keys = {**KEYS, "mean": means, "step_law": "deterministic"}
    assert favano.simulate("fedavg", problem, **keys).history == result.history


class _Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.quick("_Terminal-None-steps/s")
@pytest.mark.parametrize(
    ("stream", "asked", "shows"),
    [(_Terminal, None, "steps/s"), (StringIO, None, ""), (_Terminal, False, ""),
     (StringIO, True, "100 %: ")],
)  # fmt: skip
def test_progress_is_a_bar_where_one_can_be_drawn(
    stream: type[StringIO], asked: bool | None, shows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", written := stream())
    monkeypatch.setattr("favano.run.progress._PERIOD", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    favano.simulate("favano", "digits", progress=asked, horizon=70)
    assert shows in written.getvalue()
    assert bool(shows) == bool(written.getvalue())


def test_fleets(tmp_path: Path) -> None:
    fleet = favano.Fleet.two_speeds(6, fast=0.5, fast_mean=1.0, slow_mean=4.0, law="deterministic")
    assert fleet == favano.Fleet(
        clients=6, fast_fraction=0.5, fast_mean=1.0, slow_mean=4.0, step_law="deterministic"
    )
    path = tmp_path / "times.csv"
    path.write_text("client,duration\n0,1\n1,2\n2,3\n")
    recorded = favano.Fleet.trace(path)
    assert (recorded.step_law, recorded.clients) == (f"trace:{path}", 3)
    assert favano.simulate("favano", problem(), recorded, **KEYS).spec.fleet.clients == 3


class Later(favano.FedAvg):
    """FedAvg that makes a mistake with these networks, which have 18 weights."""

    mistake = "raise"

    def aggregate(
        self, state: favano.ModelState, updates: favano.ClientUpdates
    ) -> favano.ModelState:
        if len(state.model) != 18:
            return super().aggregate(state, updates)
        if self.mistake == "raise":
            raise KeyError("boom")
        return favano.ModelState(state.model[1:])


def test_a_mistake_in_the_middle_of_a_run_names_the_method(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(favano.BadInput, match="method=later: aggregate raises KeyError: 'boom'"):
        simulate(Later())
    monkeypatch.setattr(Later, "mistake", "shape")
    rule = r"method=later: aggregate returns a model of shape \(17,\); need that of the server's"
    with pytest.raises(favano.BadInput, match=rule):
        simulate(Later())


def test_statistics_of_a_batch_need_no_running_ones() -> None:
    norm = nn.BatchNorm1d(5, track_running_stats=False)
    result = favano.simulate("favano", own(nn.Sequential(norm, network())), FLEET, **KEYS)
    assert result.status == "complete"


def test_the_history_has_columns() -> None:
    result = favano.simulate("favano", own(network()), FLEET, **TWO_SEEDS)
    assert list(result.history) == columns(result.rows[0])
    assert result.history["accuracy"] == [row.accuracy for row in result.rows]
    assert result.history["seed"] == [0, 0, 0, 1, 1, 1]
    assert result.accuracy == [result.rows[2].accuracy, result.rows[5].accuracy]
    frame = result.history.frame()
    assert list(frame.columns) == columns(result.rows[0])
    assert frame["loss"].tolist() == [row.loss for row in result.rows]


def test_a_comparison_has_a_column_for_the_method() -> None:
    both = favano.FedBuff(buffer=1), favano.FedBuff(buffer=2, label="two")
    comparison = favano.compare(["favano", *both], own(network()), FLEET, **KEYS)
    names = ["favano", "fedbuff", "two"]
    assert [result.spec.name for result in comparison.results] == names
    assert list(comparison.history) == ["method", *columns(comparison.results[0].rows[0])]
    rows = {result.spec.name: len(result.rows) for result in comparison.results}
    assert comparison.history["method"] == [name for name in names for _ in range(rows[name])]
    assert comparison.history.frame().groupby("method", sort=False).size().to_dict() == rows
    lines = str(comparison).splitlines()
    assert [line.partition(":")[0] for line in lines] == names
    assert all(re.search(r": \d+\.\d\d %(; |$)", line) for line in lines)
    alone = favano.simulate("favano", own(network()), FLEET, **KEYS)
    assert comparison.results[0].rows == alone.rows


def test_a_comparison_prints_the_models_at_the_horizon() -> None:
    """The last round of FedAvg ends after it."""
    comparison = favano.compare(["fedavg"], own(network()), FLEET, **KEYS)
    (result,) = comparison.results
    last, before = result.rows[-1], result.rows[-2]
    assert before.time == KEYS["horizon"] < last.time
    assert before.accuracy != last.accuracy
    shown, _, remark = str(comparison).partition("; ")
    assert shown == f"fedavg: {100 * before.accuracy:.2f} %"
    assert remark == "".join(f"it {remark}" for remark in result.remarks)


def test_times_go_to_the_methods_that_read_them() -> None:
    keys: Keys = {**KEYS, "waiting_time": 2.0, "deadline": 30.0}
    comparison = favano.compare(["favano", "fedavg"], own(network()), FLEET, **keys)
    clocks = [
        (result.spec.clock.waiting_time, result.spec.clock.deadline)
        for result in comparison.results
    ]
    assert clocks == [(2.0, None), (4.0, 30.0)]


def test_save_and_load(tmp_path: Path) -> None:
    method = favano.Favano(reweight="deterministic")
    result = favano.simulate(method, own(network()), FLEET, **TWO_SEEDS)
    assert result.save(tmp_path / "one") == tmp_path / "one"
    (read,) = favano.load(str(tmp_path / "one")).results
    assert (read.algorithm, read.title, read.status) == ("favano", "FAVANO", "complete")
    assert list(read.rows) == result.rows
    assert read.spec == result.spec
    loaded = favano.load(tmp_path / "one")
    assert loaded.history == result.history
    assert loaded.accuracy == {"favano": result.accuracy}
    assert result.save(str(tmp_path / "one")) == tmp_path / "one"  # the same may be repeated


def test_another_result_is_not_replaced(tmp_path: Path) -> None:
    """Nor is any of a comparison written if one of its folders is taken."""
    first = favano.simulate("fedavg", own(network()), FLEET, **KEYS)
    first.save(tmp_path / "fedavg")
    other = favano.compare(["favano", "fedavg"], own(network()), FLEET, **TWO_SEEDS)
    more = favano.simulate("fedavg", replace(own(network()), train=pair(90)), FLEET, **KEYS)
    with pytest.raises(BadInput, match="already holds a run of other data; choose a new folder"):
        more.save(tmp_path / "fedavg")
    with pytest.raises(BadInput, match=r"already holds another run \(differs in algorithm"):
        other.results[0].save(tmp_path / "fedavg")
    nine = replace(first.spec, run=replace(first.spec.run, seed=9))
    other.results[1] = other.results[1].with_spec(nine)
    with pytest.raises(BadInput, match=r"already holds another run \(differs in seed"):
        other.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["fedavg"]
    assert favano.load(tmp_path / "fedavg").accuracy == {"fedavg": first.accuracy}


def smooth(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(outputs, targets, label_smoothing=0.1)


def sure(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return outputs.softmax(1).amax(1)


@pytest.mark.quick("*-loss")
@pytest.mark.parametrize(
    ("change", "differing"),
    [
        ({"model": nn.Sequential(network(), nn.Tanh())}, "network"),
        ({"model": nn.Linear(5, 3)}, "initial model"),
        ({"loss": smooth}, "loss"),
        ({"metrics": {"accuracy": sure}}, "metrics"),
    ],
)
def test_a_folder_of_another_network_or_loss_is_refused(
    change: dict[str, Any], differing: str, tmp_path: Path
) -> None:
    """Keys and data are the same."""
    given = own(network())
    favano.simulate("favano", given, FLEET, **KEYS).save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    other = favano.simulate("favano", replace(given, **change), FLEET, **KEYS)
    with pytest.raises(BadInput, match=rf"another run \(differs in {differing}\); choose a new"):
        other.save(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    again = favano.simulate("favano", replace(given, model=network()), FLEET, **KEYS)
    again.save(tmp_path)  # the same run
    favano.simulate("favano", given, FLEET, **TWO_SEEDS).save(tmp_path)  # more of it


def test_a_comparison_is_saved_in_a_folder_per_method(tmp_path: Path) -> None:
    both = favano.FedBuff(buffer=1, label="one, each"), favano.FedBuff(buffer=2)
    comparison = favano.compare(["favano", *both], own(network()), FLEET, **KEYS)
    comparison.save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"favano", "one-each", "fedbuff"}
    loaded = favano.load(tmp_path)
    assert {result.title for result in loaded.results} == {"FAVANO", "one, each", "FedBuff"}
    assert sorted(loaded.accuracy) == ["favano", "fedbuff", "one, each"]


def test_a_report_is_one_page(tmp_path: Path) -> None:
    comparison = favano.compare(["favano", "fedavg"], own(network()), FLEET, **KEYS)
    page = comparison.report(tmp_path / "both.html")
    assert "<h1>FAVANO and FedAvg on own</h1>" in page.read_text()
    single = comparison.results[0].report(str(tmp_path / "one.html"), title="Mine")
    assert "<h1>Mine</h1>" in single.read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"both.html", "one.html"}
    comparison.save(tmp_path / "kept")
    again = favano.load(tmp_path / "kept").report(tmp_path / "again.html")
    assert "<h1>FAVANO and FedAvg on own</h1>" in again.read_text()


def test_a_plan_is_that_of_the_run(tmp_path: Path) -> None:
    plan = favano.plan("favano", own(network()), FLEET, **KEYS)
    result = favano.simulate("favano", own(network()), FLEET, **KEYS)
    assert result.participation == participation_of(plan.planned)
    assert plan.time == 70.0
    assert plan.audit == result.audit
    assert len(plan.clients) == 4
    assert set(plan.document) == {"clients", "server_steps", "time", "absence", "audit"}
    assert plan.save(tmp_path / "plan").is_file()
    assert favano.plan("fedbuff").planned.spec.problem.dataset == "digits"
    weighed = favano.plan(favano.FedAvg(sample_weights=True), horizon=300)  # asks for the data
    assert weighed.weights is not None
    assert favano.plan("scaffold", horizon=300).schedule.updates > 0


class CtrlC(Silence):
    """Presses Ctrl-C at the third update."""

    heard = 0

    def advance(self, label: str, steps: int, time: float) -> None:
        self.heard += 1
        if self.heard == 3:
            raise KeyboardInterrupt


def test_ctrl_c_ends_a_loop_over_runs_and_hands_over_what_was_measured() -> None:
    begun = []

    def one_after_another() -> None:
        for seed in range(3):
            begun.append(seed)
            keys: Keys = {**KEYS, "seed": seed, "evaluate_every": 7.0}
            favano.simulate("favano", own(network()), FLEET, progress=CtrlC(), **keys)

    with pytest.raises(KeyboardInterrupt) as ending:
        one_after_another()
    assert begun == [0]
    assert isinstance(ending.value, favano.Interrupted)
    assert isinstance(ending.value.result, favano.Result)
    assert ending.value.result.status == "partial"
    assert [row.time for row in ending.value.result.rows] == [0.0, 7.0, 14.0]


def test_ctrl_c_ends_a_comparison_with_all_that_was_measured() -> None:
    with pytest.raises(favano.Interrupted) as ending:
        favano.compare(["favano", "fedavg"], own(network()), FLEET, progress=CtrlC(), **KEYS)
    assert isinstance(ending.value.result, favano.Comparison)
    assert [result.status for result in ending.value.result.results] == ["partial", "partial"]


@pytest.mark.parametrize("methods", [["favano"], ["favano", "fedasync"]])
def test_checkpoints_of_own_data(
    methods: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Taken at each evaluation here; a run that was ended goes on, one of other data does not."""
    monkeypatch.setattr(checkpoints, "_EVERY", 0.0)
    monkeypatch.setattr(checkpoints, "SHARE", inf)
    kept, problem = tmp_path / "kept", own(network())
    whole = favano.compare(methods, problem, FLEET, **KEYS)
    with pytest.raises(favano.Interrupted):
        favano.compare(methods, problem, FLEET, progress=CtrlC(), checkpoints=kept, **KEYS)
    caplog.clear()
    again = favano.compare(methods, problem, FLEET, checkpoints=str(kept), **KEYS)
    assert again.history == whole.history
    assert re.search(r" on.* at time \d+ of 70\n", caplog.text)
    for other, what in (
        (replace(problem, train=pair(90)), "data"),
        (replace(problem, loss=lambda x, y: functional.cross_entropy(x, y) / 2), "loss"),
        (replace(problem, model=nn.Sequential(network(), nn.ReLU())), "network"),
        (replace(problem, metrics={"accuracy": lambda x, y: (x.argmax(1) == y) / 2}), "metrics"),
    ):
        with pytest.raises(BadInput, match=rf"of another run \(differs in {what}\)"):
            favano.compare(methods, other, FLEET, checkpoints=kept, **KEYS)


def test_checkpoints_of_another_notebook_cell_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss with another number in it, a network or a method that does something else."""
    monkeypatch.setattr(checkpoints, "_EVERY", 0.0)
    monkeypatch.setattr(checkpoints, "SHARE", inf)

    def run(weight: float, activation: str, gain: float) -> favano.Result:
        cell = f"""
class Net(nn.Linear):
    def forward(self, x):
        return super().forward(x).{activation}()

class Mine(favano.FedAvg):
    name = "mine"

    def aggregate(self, state, updates):
        return super().aggregate(state, updates)._replace(model=state.model * {gain})
"""
        space: dict[str, Any] = {"__name__": "notebook", "nn": nn, "favano": favano}
        run_cell(cell, space)
        torch.manual_seed(0)
        loss = lambda x, y: weight * functional.cross_entropy(x, y)  # noqa: E731
        problem = replace(own(space["Net"](5, 3)), loss=loss)
        return favano.simulate(space["Mine"](), problem, FLEET, checkpoints=tmp_path, **KEYS)

    first = run(1.0, "relu", 1.0)
    assert run(1.0, "relu", 1.0).rows == first.rows
    for other, what in (
        ((0.5, "relu", 1.0), "loss"),
        ((1.0, "tanh", 1.0), "network"),
        ((1.0, "relu", 0.5), "method"),
    ):
        with pytest.raises(BadInput, match=rf"of another run \(differs in {what}\)"):
            run(*other)


def test_ctrl_c_after_the_last_update_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def ctrl_c(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(seed_run, "per_client_scores", ctrl_c)
    with pytest.raises(favano.Interrupted) as ending:
        favano.simulate("favano", own(network()), FLEET, **KEYS)
    assert isinstance(ending.value.result, favano.Result)
    assert ending.value.result.status == "complete"


def test_a_partial_result_does_not_replace_a_complete_one(tmp_path: Path) -> None:
    favano.simulate("favano", own(network()), FLEET, **KEYS).save(tmp_path)
    with pytest.raises(favano.Interrupted) as ending:
        favano.simulate("favano", own(network()), FLEET, progress=CtrlC(), **KEYS)
    with pytest.raises(RuntimeError, match="which a partial one does not replace"):
        ending.value.result.save(tmp_path)


def test_nan_is_raised() -> None:
    problem = favano.Problem(
        network(),
        train=pair(60),
        test=pair(30),
        split="iid",
        loss=lambda x, _: x.mean() * torch.nan,
    )
    with pytest.raises(favano.NonFiniteUpdate, match="refused; lower the learning rate") as ending:
        favano.simulate("favano", problem, FLEET, **KEYS)
    assert isinstance(ending.value.result, favano.Result)
    assert ending.value.result.status == "partial"


def test_nan_in_one_run_keeps_the_others() -> None:
    problem = own(nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 4), nn.Linear(4, 3)))
    large = favano.FedBuff(buffer=2, server_learning_rate=1e30)
    with pytest.raises(favano.NonFiniteUpdate, match=r"^fedbuff, seed \d, client \d") as ending:
        favano.compare(["fedavg", large], problem, FLEET, **TWO_SEEDS)
    assert isinstance(ending.value.result, favano.Comparison)
    good, bad = ending.value.result.results
    assert (good.status, bad.status) == ("complete", "partial")
    assert good.rows == favano.simulate("fedavg", problem, FLEET, **TWO_SEEDS).rows
    assert {row.seed for row in bad.rows} == {0, 1}


def test_a_run_that_was_stopped_is_a_result_like_others(tmp_path: Path) -> None:
    whole, other = own(network()), replace(own(network()), train=pair(90))
    stopped = favano.simulate("favano", whole, FLEET, on_evaluate=lambda _: favano.STOP, **KEYS)
    assert stopped.status == "stopped"
    folder = stopped.save(tmp_path / "r")
    elsewhere = favano.simulate("favano", other, FLEET, on_evaluate=lambda _: favano.STOP, **KEYS)
    with pytest.raises(BadInput, match="already holds a run of other data"):
        elsewhere.save(folder)
    complete = favano.simulate("favano", whole, FLEET, **KEYS)
    assert favano.load(complete.save(folder)).results[0].status == "complete"
    with pytest.raises(WriteFailed, match="a complete result, which a stopped one does not repl"):
        stopped.save(folder)


def test_single_results_and_comparisons_have_folders_of_their_own(tmp_path: Path) -> None:
    both = favano.compare(["favano", "fedavg"], own(network()), FLEET, **KEYS)
    several, single = both.save(tmp_path / "several"), both.results[0].save(tmp_path / "single")
    with pytest.raises(BadInput, match="holds several results; choose a new folder"):
        both.results[0].save(several)
    with pytest.raises(BadInput, match="holds a single result; choose a new folder"):
        both.save(single)
    both.save(several)
    both.results[1].save(single / "below")
    both.results[0].save(single)  # it is still a single one


class Dividing(favano.Method[favano.ModelState]):
    """A method whose third update divides by zero."""

    linear = True

    def policy(self) -> Buffered:
        return self.context.buffered(hand_out="flush")

    def aggregate(
        self, state: favano.ModelState, updates: favano.ClientUpdates
    ) -> favano.ModelState:
        return favano.ModelState(state.model / (1.0 - (updates.version >= 2)))


@pytest.mark.parametrize("engine", ["lanes", "loop"])
def test_no_client_is_blamed_for_nan_that_an_update_made(engine: Literal["lanes", "loop"]) -> None:
    keys: Keys = {"local_steps": 2, "horizon": 70, "engine": engine}
    when = r"server step [3-9], at time [\d.]+,"
    sentence = f"dividing, seed 0, the server model after {when} holds NaN or infinity, though"
    with pytest.raises(favano.NonFiniteUpdate, match=sentence) as ending:
        favano.simulate(Dividing(), own(network()), FLEET, **keys)
    assert ending.value.clients == []
    assert str(pickle.loads(pickle.dumps(ending.value))) == str(ending.value)


def simulate(
    method: object = "favano", problem: object = None, fleet: object = FLEET, **keys: object
) -> object:
    """As somebody calls it who does not look at types."""
    given = own(network()) if problem is None else problem
    return favano.simulate(method, given, fleet, **{**KEYS, **keys})  # type: ignore


def compare(methods: object, **keys: object) -> object:
    return favano.compare(methods, own(network()), FLEET, **{**KEYS, **keys})  # type: ignore


def problem(**parts: object) -> favano.Problem:
    given: dict[str, object] = {"model": network(), "train": pair(60), "test": pair(30)}
    return favano.Problem(**{**given, "split": "iid", "batch_size": 8, **parts})  # type: ignore


X, Y = pair(60)
NAME = r"need a name, file.py:Name, or an object of favano.Method$"
DATA = r"need a data set's name or favano.Problem\(model, train=..., test=...\)$"
PAIR = r"need a pair \(samples, targets\) of tensors or arrays, a data set, or a list per client$"
LIST = "need a list of methods$"
SPEEDS = r"need favano.Fleet\(...\), as favano.Fleet.two_speeds\(100\), or its name, as phones$"
REFUSED: list[tuple[Callable[[], object], str]] = [
    # methods
    (lambda: simulate(3), f"method=int: {NAME}"),
    (lambda: simulate(None), f"method=NoneType: {NAME}"),
    (lambda: simulate(["favano"]), f"method=list: {NAME}"),
    (lambda: simulate(int), f"method=type: {NAME}"),
    (lambda: simulate(favano.Method), "method=Method: lacks aggregate; define it$"),
    (lambda: simulate("fedbuf"), r"algorithm=fedbuf: unknown; did you mean fedbuff\?$"),
    (lambda: simulate("absent.py:Mine"), "algorithm=absent.py:Mine: no such file: absent.py$"),
    (lambda: simulate(favano.FedBuff(label=3)), "label=3: need a text$"),  # type: ignore
    (lambda: favano.FedBuff(buffer=0), "buffer=0: need greater than or equal to 1$"),
    (lambda: favano.FedBuff(buffer="x"), "buffer=x: need a valid integer"),  # type: ignore
    (lambda: favano.FedBuff(buffer_mode="x"), "buffer_mode=x: need concurrency, "),  # type: ignore
    (lambda: compare("favano"), f"methods=favano: {LIST}"),
    (lambda: compare(3), f"methods=int: {LIST}"),
    (lambda: compare(None), f"methods=NoneType: {LIST}"),
    (lambda: compare(favano.FedBuff()), f"methods=FedBuff: {LIST}"),
    (lambda: compare([]), r"methods=\[\]: need at least one method$"),
    (lambda: compare(["favano", 3]), f"method=int: {NAME}"),
    (lambda: compare(["fedavg", "fedavg"]), "algorithms=fedavg: is named twice; give each varia"),
    # problems
    (lambda: simulate(problem=3), f"problem=int: {DATA}"),
    (lambda: simulate(problem=network()), f"problem=Linear: {DATA}"),
    (lambda: simulate(problem=favano.Problem), f"problem=type: {DATA}"),
    (lambda: simulate(problem="nowhere"), "dataset=nowhere: need one of digits, mnist, "),
    (lambda: problem(test=None), "test=None: requires train: give both or neither$"),
    (lambda: problem(train=None), "train=None: requires test: give both or neither$"),
    (lambda: problem(model=None), "model=None: need a network for your own data$"),
    (lambda: problem(model=3), "model=3: need a network or a function that makes one; data sets "),
    (lambda: problem(model="perceptron"), "model=perceptron: need a network or a function "),
    (lambda: problem(loss=3), "loss=3: need a function of outputs and targets$"),
    (lambda: favano.Problem(data_dir=3), "data_dir=3: need the path of a folder$"),  # type: ignore
    (lambda: problem(split="odd"), "split=odd: need one of iid, two-class, "),
    (lambda: problem(split=3), "split=3: need a name, or a list with the numbers of each client"),
    (lambda: problem(batch_size=0), "batch_size=0: need greater than or equal to 1$"),
    (lambda: problem(batch_order="odd"), "batch_order=odd: need epoch, continuous or "),
    (lambda: favano.Problem(dataset=3), "dataset=3: need a valid string$"),  # type: ignore
    (lambda: simulate(problem=problem(model=lambda: 3)),
     "model=<lambda>: need a function that makes a torch.nn.Module$"),
    (lambda: simulate(problem=problem(model=nn.Linear)), "model=Linear: cannot be made: "),
    (lambda: simulate(problem=problem(train=X)), f"train=Tensor: {PAIR}"),
    (lambda: simulate(problem=problem(train=(X, Y, Y))), f"train=tuple of 3: {PAIR}"),
    (lambda: simulate(problem=problem(train=("a", "b"))), "train=inputs in str: need arrays of "),
    (lambda: simulate(problem=problem(test=(3, 4))), "test=numbers: need rows of both; a list of "),
    (lambda: simulate(problem=problem(train=(X[1:], Y))),
     "train=59, 60: need equally many rows and labels$"),
    (lambda: simulate(problem=problem(train=(X, Y.float()))),
     "train=torch.float32: need whole numbers as labels; other targets need a loss"),
    (lambda: simulate(problem=problem(train=(X, Y - 1))), "train=-1: need labels from 0 on$"),
    (lambda: simulate(problem=problem(train=(X, Y[:, None]))),
     r"test=whole numbers of shape \(\): need targets like those of train, whole numbers of "),
    (lambda: simulate(problem=problem(train=(X[:, :3], Y))),
     r"model=Linear: cannot take a batch of inputs of shape \(3,\): "),
    (lambda: simulate(problem=problem(test=(X[:, :3], Y))),
     r"model=Linear: cannot take test inputs of shape \(3,\): "),
    (lambda: simulate(problem=problem(model=network().requires_grad_(False))),
     r"model=Linear: has no parameter that is trained \(requires_grad\)$"),
    # fleets
    (lambda: simulate(fleet=3), f"fleet=int: {SPEEDS}"),
    (lambda: simulate(fleet=favano.Fleet), f"fleet=type: {SPEEDS}"),
    (lambda: favano.Fleet(clients=-1), "clients=-1: need greater than or equal to 1$"),
    (lambda: favano.Fleet(clients="many"), "clients=many: need a valid integer"),  # type: ignore
    (lambda: favano.Fleet.two_speeds(4, fast=2), "fast_fraction=2: need less than or equal to 1$"),
    (lambda: simulate(fleet=favano.Fleet.two_speeds(4, law="odd")), "step_law=odd: need geometric"),
    (lambda: simulate(fleet=favano.Fleet.trace("absent.csv")),
     "step_law=trace:absent.csv: no such file$"),
    (lambda: simulate(fleet=favano.Fleet(clients=100)), "split=iid: client 60 has no samples: "),
    # keys
    (lambda: simulate(lerning_rate=0.1),
     r"lerning_rate=0.1: unknown key; did you mean learning_rate\?$"),
    (lambda: simulate(clients=3), "clients=3: belongs to the fleet: give it to favano.Fleet"),
    (lambda: simulate(split="iid"),
     r"split=iid: belongs to the problem: give it to favano.Problem\(...\)$"),
    (lambda: simulate(favano.FedBuff(), buffer=3),
     r"buffer=3: is an option of the method: give it to FedBuff\(...\)$"),
    (lambda: simulate(buffer=3), "buffer=3: is a key of fedbuff, not of favano$"),
    (lambda: compare(["favano", favano.FedBuff()], buffer=3),
     r"buffer=3: is an option of the method: give it to FedBuff\(...\)$"),
    (lambda: simulate(out="here"), r"out=here: is a flag of the command line; use result.save\("),
    (lambda: simulate(lr=0.1), r"lr=0.1: unknown key; did you mean learning_rate\?$"),
    (lambda: simulate("favano", "digits", dataset="mnist"), "dataset=mnist: is the problem, the "),
    (lambda: favano.Fleet(mean=[]), r"mean=\(\): |mean=\[\]: "),
    (lambda: favano.Fleet(mean=[1.0, -2.0]), "mean.1=-2.0: need greater than 0$"),
    (lambda: favano.Fleet(mean=[1.0], clients=3), r"clients=3: need the length of mean \(1\)$"),
    (lambda: favano.Fleet(mean=[1.0], slow_mean=3.0), "slow_mean=3.0: has no effect with mean, "),
    (lambda: simulate(horizon="long"), "horizon=long: need a valid number"),
    (lambda: simulate(horizon=[1]), r"horizon=\[1\]: need a valid number$"),
    (lambda: simulate(seeds=None), "seeds=None: need a valid integer$"),
    (lambda: simulate(rate_decay="maybe"), "rate_decay=maybe: need a valid boolean"),
    (lambda: simulate(device="tpu"), "device=tpu: need cpu, cuda or cuda:N$"),
    (lambda: simulate(device="meta"), "device=meta: need cpu, cuda or cuda:N$"),
    (lambda: simulate(device="mps"), "device=mps: need cpu, cuda or cuda:N; .* write cpu$"),
    (lambda: simulate(device=3), "device=3: need a valid string$"),
    (lambda: simulate(selected=9), r"selected=9: need 1..clients \(4\)$"),
    (lambda: simulate(deadline=3.0), "deadline=3.0: is a key of methods with rounds, which favano"),
    (lambda: compare(["favano", "quafl"], deadline=3.0), "deadline=3.0: is a key of methods with "),
    (lambda: simulate(checkpoints=3), "checkpoints=int: need a path"),
    (lambda: simulate(checkpoints=__file__), "checkpoints=.*test_api.py is a file, need a folder$"),
    (lambda: simulate(checkpoints="/proc/no"), "checkpoints=/proc/no: /proc cannot be written: "),
    (lambda: simulate(progress=3), "progress=int: need True, False, or an object with the meth"),
    # plans and results
    (lambda: favano.plan("asyncfeded"), "algorithm=asyncfeded: cannot be planned: its policy, "),
    (lambda: favano.plan(3), f"method=int: {NAME}"),  # type: ignore
    (lambda: favano.plan("favano", horizon=-1), "horizon=-1: need greater than 0$"),
    (lambda: favano.plan("favano", problem(train=3), FLEET, **KEYS), f"train=int: {PAIR}"),
    (lambda: favano.load(3), "folder=int: need a path, as text or pathlib.Path$"),  # type: ignore
    (lambda: favano.load("absent"), "results=absent: no such folder$"),
    (lambda: favano.Comparison([]).save(3), "folder=int: need a path"),  # type: ignore
    (lambda: favano.Comparison([]).report(3), "page=int: need a path"),  # type: ignore
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[text for _, text in REFUSED])
def test_refused_in_one_sentence(call: Callable[[], object], message: str) -> None:
    with pytest.raises(BadInput, match=f"^{message}") as refused:
        call()
    assert len(str(refused.value).splitlines()) == 1


def test_names_that_are_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        favano.nonsense  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'FedNonsense'"):
        favano.FedNonsense  # noqa: B018
    assert {"simulate", "compare", "plan", "load", "FedBuff", "Problem"} <= set(dir(favano))


def test_notebooks_show_one_line(tmp_path: Path) -> None:
    problem = own(nn.Linear(5, 3))
    assert repr(problem) == (
        "Problem(model=Linear(in_features=5, out_features=3, bias=True), train=tuple, test=tuple, "
        "split=iid, batch_size=8)"
    )
    result = favano.simulate("favano", problem, FLEET, **TWO_SEEDS)
    mean, spread = 100 * np.mean(result.accuracy), 100 * np.std(result.accuracy, ddof=1)
    (remark,) = result.remarks  # one round teaches nothing
    words = rf"complete, seeds: 0, 1; it {re.escape(remark)}"
    shown = rf"Result\(favano: {mean:.1f} ± {spread:.1f} %, {words}\)"
    assert re.fullmatch(shown, repr(result))
    assert re.fullmatch(rf"Comparison\(results=\[{shown}\]\)", repr(favano.Comparison([result])))
    loaded = favano.load(result.save(tmp_path))
    assert re.fullmatch(rf"Comparison\(results=\[{shown}\]\)", repr(loaded))
    plan = favano.plan("favano", problem, FLEET, **KEYS)
    assert re.fullmatch(r"Plan\(favano: \d+ updates of \d+ jobs by time \d+\)", repr(plan))
