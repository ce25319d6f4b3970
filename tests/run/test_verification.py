"""`favano.verify`: whatever was changed in a result is found, and what is right is proved."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import favano
from favano.errors import BadInput
from favano.methods import AMethod
from favano.policies import Buffered
from favano.records import Row, history_from_csv, history_to_csv
from favano.records.chain import link
from favano.records.folder import ABOUT, HISTORY, MODEL, SPEC, SUMMARY
from favano.run import repetition
from favano.run.samples import Samples
from favano.run.stored_result import read_statements
from favano.run.verification import verify
from favano.specification.keys import Keys
from tests.bright_rows import write_bright_rows
from tests.cli.test_repeat import contents

FLEET = favano.Fleet(clients=6)
SHORT: Keys = {"selected": 2, "local_steps": 2, "horizon": 60.0, "evaluate_every": 20.0}
ROWS = 4


def short(method: str) -> Keys:
    """A short run, as far as the method looks at its keys."""
    keys: Keys = {**SHORT}
    if method == "asyncfeded":
        del keys["selected"]
    return keys


def simulate(method: str = "favano", **keys: Unpack[Keys]) -> favano.Result:
    all_keys: Keys = {**short(method), **keys}
    return favano.simulate(method, "digits", FLEET, **all_keys)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result of two seeds."""
    return simulate(seeds=2).save(tmp_path_factory.mktemp("made") / "result")


@pytest.fixture
def result(made: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    return Path(shutil.copytree(made, tmp_path / "result"))


def words(folder: Path, *, chain_only: bool = True) -> list[str]:
    """The verdict on each seed."""
    return [verdict.words for verdict in of_seeds(verify(folder, chain_only=chain_only))]


def of_seeds(verdicts: Sequence[favano.Verdict]) -> list[favano.Verdict]:
    """The verdicts on seeds alone."""
    return [verdict for verdict in verdicts if verdict.seed is not None]


def edit(folder: Path, change: Callable[[list[Row]], Sequence[Row]]) -> None:
    path = folder / HISTORY
    path.write_text(history_to_csv(change(history_from_csv(path.read_text()))))


def chained_again(rows: Sequence[Row]) -> list[Row]:
    """Rows with right digests, as a forger would write them; the first of a seed is as it was."""
    linked: list[Row] = []
    for row in rows:
        first = not linked or linked[-1].seed != row.seed
        linked.append(row if first else row._replace(digest=link(linked[-1].digest, row)))
    return linked


def test_a_good_result_is_proved_and_left_as_it_is(result: Path) -> None:
    before = contents(result)
    *seeds, files = verify(result)
    for verdict in seeds:
        assert (verdict.right, verdict.rows, verdict.proved, verdict.words) == (
            True,
            ROWS,
            ROWS,
            "4 rows proved",
        )
    names = "history.csv, model.safetensors, participation.json, spec.toml, summary.json"
    assert (files.right, files.words) == (True, f"all else in {names} proved")
    assert words(result) == ["4 rows and their digests agree"] * 2
    assert contents(result) == before


def test_the_digest_of_the_data_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []

    def count(*arguments: object) -> str:
        calls.append(arguments)
        return "digest"

    monkeypatch.setattr("favano.run.samples.data_digest", count)
    simulate(seeds=3)
    assert len(calls) == 1


@pytest.mark.parametrize("keys", [{"engine": "loop"}, {"seeds": 1, "seed": 1}, {"horizon": 50.0}])
def test_digests_do_not_depend_on_length_seeds_and_engine(made: Path, keys: Keys) -> None:
    """Where the numbers are the same."""
    (stated,) = read_statements(made)
    both: Keys = {"seeds": 2, **keys}
    rows = [row for row in simulate(**both).rows if row.time < 50]
    assert rows
    for row in rows:
        assert row in stated.rows[row.seed]


@pytest.mark.parametrize("method", ["asyncfeded", "scaffold", "fedavg"])
def test_rows_told_to_observers_have_the_digests_of_the_history(method: str) -> None:
    """Also if the schedule grows with the run."""
    told: list[object] = []
    result = favano.simulate(
        method, "digits", FLEET, on_evaluate=lambda row: told.append(row["digest"]), **short(method)
    )
    assert (
        told == [row.digest for row in result.rows] == [row.digest for row in simulate(method).rows]
    )


def test_a_changed_row_is_found_without_computing(result: Path) -> None:
    edit(result, lambda rows: [*rows[:2], rows[2]._replace(loss=1.0), *rows[3:]])
    changed, right = words(result)
    assert changed == "row 3 (time 40) was changed, or does not follow row 2 (time 20)"
    assert right == "4 rows and their digests agree"
    first, second, files = verify(result)
    assert (first.right, first.proved, first.words) == (False, 0, changed)
    assert (second.right, second.proved) == (True, ROWS)
    assert (files.outcome, files.words) == ("wrong", "not compared, since a seed differs")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda rows: rows[1:], "row 1 (time 20) was changed, or does not follow this spec"),
        (lambda rows: [*rows[:1], *rows[2:]], "row 2 (time 40) was changed"),
        (lambda rows: [rows[0], rows[2], rows[1], *rows[3:]], "row 2 (time 40) was changed"),
        (lambda rows: [*rows[:3], *rows[4:]], f"{MODEL} does not hold the model of its last row"),
        (lambda rows: rows[4:], "has no rows"),
    ],
    ids=["first", "middle", "swapped", "last", "all"],
)
def test_rows_that_are_gone_or_changed_places(
    change: Callable[[list[Row]], list[Row]], expected: str, result: Path
) -> None:
    edit(result, change)
    assert words(result)[0].startswith(expected)


def test_a_changed_model(result: Path) -> None:
    tensors = load_file(result / MODEL)
    name = next(key for key in tensors if key.startswith("seed-1."))
    order = (result / MODEL).read_bytes()
    length = int.from_bytes(order[:8], "little")
    about = json.loads(order[8 : 8 + length])["__metadata__"]
    tensors[name].flatten()[0] += 1e-6
    save_file(tensors, result / MODEL, metadata={ABOUT: about[ABOUT]})
    assert words(result) == [
        "4 rows and their digests agree", f"{MODEL} does not hold the model of its last row",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        (SPEC, "learning_rate = 0", "learning_rate = 1", "row 1 (time 0) was changed, or"),
        (SPEC, "seeds = 2", "seeds = 3", "has no rows"),
        (SUMMARY, '"data": "', '"data": "0', "row 1 (time 0) was changed, or"),
        (SUMMARY, '"server_steps": ', '"server_steps": 1', "server_step is 1"),
    ],
)
def test_a_changed_specification_or_summary(
    file: str, old: str, new: str, expected: str, result: Path
) -> None:
    text = (result / file).read_text()
    assert old in text
    (result / file).write_text(text.replace(old, new))
    assert any(sentence.startswith(expected) for sentence in words(result))


def test_a_forged_row_with_right_digests_is_found_by_computing(result: Path) -> None:
    def forged(rows: list[Row]) -> list[Row]:
        better = rows[2]._replace(metrics={"accuracy": 0.99})
        return chained_again([*rows[:2], better, *rows[3:]])

    edit(result, forged)
    assert words(result) == ["4 rows and their digests agree"] * 2
    first, second, _ = verify(result)
    assert first.words.startswith("row 3 (time 40) differs: accuracy 0.")
    assert first.words.endswith(" here, 0.99 in the file")
    assert (first.right, first.proved, second.proved) == (False, 2, ROWS)


def test_on_other_tools_close_is_not_proved(result: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repetition, "hardware", lambda device: "an abacus")

    def noisy(rows: list[Row]) -> list[Row]:
        return chained_again([*rows[:2], rows[2]._replace(loss=1.001 * rows[2].loss), *rows[3:]])

    *seeds, files = verify(result)  # the same bits are a proof anywhere
    assert [verdict.outcome for verdict in seeds] == ["proved", "proved"]
    assert files.outcome == "proved"
    edit(result, noisy)
    first, second, files = verify(result)
    assert (first.outcome, first.right, first.proved) == ("not proved", False, 2)
    assert first.words.startswith("2 rows proved; 2 rows not proved to the bit: processor ")
    assert " there, an abacus here; at most apart: loss 0.00" in first.words
    assert first.words.endswith(" (row 3 (time 40))")
    assert second.words == "4 rows proved"
    assert (files.outcome, files.right) == ("not proved", False)
    assert "history.csv: loss 0.00" in files.words
    edit(
        result,
        lambda rows: chained_again([*rows[:2], rows[2]._replace(loss=9.0), *rows[3:]]),
    )
    wrong = verify(result)[0]
    assert (wrong.outcome, wrong.words.endswith(" here, 9.0 in the file")) == ("wrong", True)


def test_another_processor_in_the_summary_is_no_way_out(result: Path) -> None:
    """A forger writes it, raises an accuracy a little, and chains the rows again."""
    path = result / SUMMARY
    path.write_text(path.read_text().replace('"processor": "', '"processor": "another '))
    assert all(verdict.right for verdict in verify(result))  # all that is covered, to the bit

    def better(rows: list[Row]) -> list[Row]:
        raised = rows[2].accuracy + 0.019
        return chained_again([*rows[:2], rows[2]._replace(metrics={"accuracy": raised}), *rows[3:]])

    edit(result, better)
    first, *_ = verify(result)
    assert (first.outcome, first.words[:36]) == ("wrong", "row 3 (time 40) differs: accuracy 0.")


def test_results_of_earlier_versions(result: Path) -> None:
    edit(result, lambda rows: [row._replace(digest="", model_digest="") for row in rows])
    for chain_only in (True, False):
        assert words(result, chain_only=chain_only) == ["has no digests, so nothing is proved"] * 2
    assert not any(verdict.right for verdict in verify(result))


def test_a_result_that_was_interrupted_is_proved_as_far_as_it_goes(tmp_path: Path) -> None:
    def press_ctrl_c(row: Mapping[str, object]) -> None:
        if row["time"] == 40:
            raise KeyboardInterrupt

    with pytest.raises(favano.Interrupted) as stopped:
        favano.simulate("favano", "digits", FLEET, on_evaluate=press_ctrl_c, **SHORT)
    folder = stopped.value.result.save(tmp_path / "partial")
    verdict, files = verify(folder)
    assert (verdict.right, verdict.words) == (True, "3 rows proved")
    assert files.right
    assert "seed 0: why it ended" in files.not_covered


def test_a_comparison(tmp_path: Path) -> None:
    comparison = favano.compare(["favano", "quafl"], "digits", FLEET, **SHORT)
    verdicts = verify(comparison.save(tmp_path))
    assert [verdict.method for verdict in verdicts] == ["favano", "favano", "quafl", "quafl"]
    assert all(verdict.right for verdict in verdicts)
    assert all(verdict.words == "4 rows proved" for verdict in of_seeds(verdicts))


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def own_problem(first: float = 0.0) -> favano.Problem:
    inputs = torch.linspace(-1, 1, 180).view(60, 3).clone()
    inputs[0, 0] += first
    data = (inputs, torch.arange(60) % 2)
    return favano.Problem(network, train=data, test=data, batch_size=5)


def test_own_data_are_needed_and_must_be_the_same(tmp_path: Path) -> None:
    folder = favano.simulate("favano", own_problem(), FLEET, **SHORT).save(tmp_path)
    verdicts = verify(folder, own_problem())
    assert [verdict.words for verdict in of_seeds(verdicts)] == ["4 rows proved"]
    assert all(verdict.right for verdict in verdicts)
    assert words(folder) == ["4 rows and their digests agree"]
    with pytest.raises(BadInput, match=r"of its own; verify it from Python, by favano\.verify"):
        verify(folder)
    with pytest.raises(BadInput, match="dataset=own: the data are not those of"):
        verify(folder, own_problem(1e-6))


def test_own_data_are_held_out_as_the_run_did(tmp_path: Path) -> None:
    problem = replace(own_problem(), holdout=12)
    folder = favano.simulate("favano", problem, FLEET, **SHORT).save(tmp_path)
    for given in (problem, own_problem()):
        assert all(verdict.right for verdict in verify(folder, given))


def test_own_data_that_are_drawn_at_random_are_read_once(tmp_path: Path) -> None:
    """In this process they are the same again."""
    drawn: list[tuple[Tensor, int]] = []

    class Drawn(torch.utils.data.Dataset[tuple[Tensor, int]]):
        def __len__(self) -> int:
            return 60

        def __getitem__(self, place: int) -> tuple[Tensor, int]:
            drawn.append((torch.full((3,), float(len(drawn))), place % 2))
            return drawn[-1]

    problem = replace(own_problem(), train=Drawn(), test=Drawn())
    folder = favano.simulate("favano", problem, FLEET, **SHORT).save(tmp_path)
    assert all(verdict.right for verdict in verify(folder, problem))


@pytest.mark.parametrize(
    "problem",
    [
        favano.Problem(dataset="digits", normalise=True, holdout=100, data_fraction=0.5),
        favano.Problem(dataset="digits", split=[range(n, 900, 6) for n in range(6)]),
        favano.Problem(
            lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), split="iid", holdout=50
        ),
    ],
    ids=["keys", "a split by hand", "a network"],
)
def test_a_named_data_set_as_the_run_had_it(problem: favano.Problem, tmp_path: Path) -> None:
    folder = favano.simulate("favano", problem, FLEET, **SHORT).save(tmp_path / "r")
    bare = favano.Problem(problem.model, split=None if problem.parts is None else problem.split)
    for given in (problem, bare):
        assert all(verdict.right for verdict in verify(folder, given))
    write_bright_rows(tmp_path / "rows", 10, train=1000, test=60)
    with pytest.raises(BadInput, match="the data are not those of"):
        verify(folder, replace(bare, dataset=str(tmp_path / "rows")))


class Shared(nn.Module):
    """Weights with two names, and buffers that are no part of a flat model."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 3), nn.Linear(3, 3)
        self.last.weight = self.first.weight
        self.register_buffer("mask", torch.tensor([0.0, 0.0, -torch.inf]))
        self.register_buffer("turns", torch.ones(3, dtype=torch.complex64))

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.last(self.first(inputs).relu()) + self.mask
        return output


def test_a_model_with_shared_weights_and_constants_is_proved(tmp_path: Path) -> None:
    problem = replace(own_problem(), model=Shared)
    keys: Keys = {**SHORT, "seeds": 2}
    result = favano.simulate("favano", problem, FLEET, **keys)
    folder = result.save(tmp_path)
    assert all(verdict.right for verdict in verify(folder, problem))
    assert words(folder) == ["4 rows and their digests agree"] * 2
    tensors = load_file(folder / MODEL)
    assert tensors["seed-1.turns"].dtype == torch.complex64
    tensors["seed-1.last.bias"][0] += 1
    order = [f"seed-{seed}.{name}" for seed in (0, 1) for name in result.models[seed]]
    save_file(tensors, folder / MODEL, {ABOUT: json.dumps({"order": order})})
    assert words(folder)[1] == f"{MODEL} does not hold the model of its last row"


class Own(favano.Method[favano.ModelState]):
    """A method of somebody's, in no file with a name."""

    linear = True
    part: float = favano.option(1.0, "how far the server goes")

    def policy(self) -> Buffered:
        return self.context.buffered(hand_out="flush")

    def aggregate(
        self, state: favano.ModelState, updates: favano.ClientUpdates
    ) -> favano.ModelState:
        return favano.ModelState(state.model + self.part * (updates.end - updates.start).mean(0))


class Other(Own):
    """Another one, of the same name."""

    name = "own"

    def aggregate(
        self, state: favano.ModelState, updates: favano.ClientUpdates
    ) -> favano.ModelState:
        return favano.ModelState(updates.end.mean(0))


def test_a_method_of_python_is_given_with_its_results(tmp_path: Path) -> None:
    keys: Keys = {"local_steps": 2, "horizon": 60.0, "evaluate_every": 20.0}
    folder = favano.simulate(Own(part=0.5), "digits", FLEET, **keys).save(tmp_path / "r")
    more: Keys = {**keys, "seeds": 2}
    assert favano.simulate(Own(part=0.5), "digits", FLEET, **more).save(folder) == folder
    right: list[list[AMethod]] = [[Own], [Own(part=0.1)], ["fedavg", Own]]
    for methods in right:
        *verdicts, files = verify(folder, methods=methods)
        assert files.right
        assert [(verdict.seed, verdict.right) for verdict in verdicts] == [(0, True), (1, True)]
        assert all(verdict.proved == verdict.rows >= 4 for verdict in verdicts)
    assert all(verdict.right for verdict in verify(folder, methods=[Own], chain_only=True))
    sentence = r"own, own; verify it from Python: favano\.verify\(folder, problem, methods="
    with pytest.raises(BadInput, match=sentence):
        verify(folder, methods=["fedavg"])
    assert not any(verdict.right for verdict in verify(folder, methods=[Other]))


def test_other_folders_are_refused(tmp_path: Path, made: Path) -> None:
    with pytest.raises(BadInput, match="no such folder"):
        verify(tmp_path / "nowhere")
    with pytest.raises(BadInput, match="holds no result"):
        verify(tmp_path)
    with pytest.raises(BadInput, match="holds no checkpoints; verify it in full"):
        verify(made, from_checkpoints=True)
    with pytest.raises(BadInput, match="nothing is computed again with chain_only"):
        verify(made, from_checkpoints=True, chain_only=True)


def test_digests_of_data() -> None:
    def samples(**changes: object) -> Samples:
        data = torch.arange(12.0).view(4, 3)
        labels = torch.tensor([0, 1, 0, 1])
        keys = {"features": data, "labels": labels, "test_features": data, "test_labels": labels}
        return Samples(**{**keys, **changes}, classes=2)  # type: ignore[arg-type]

    usual = samples()
    others = [
        samples(features=usual.features.double()),
        samples(features=usual.features.view(4, 1, 3)),
        samples(test_labels=usual.labels.flip(0)),
        samples(owners={"who": usual.labels.numpy()}),
        samples(owners={"whose": usual.labels.numpy()}),
        samples(test_owners={"who": usual.labels.numpy()}),
    ]
    assert usual.digest == samples(features=usual.features.t().contiguous().t()).digest
    assert len({usual.digest, *(other.digest for other in others)}) == 1 + len(others)
