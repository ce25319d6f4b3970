"""Whatever a result folder states is compared, or named as not covered.

The values are found in the files of a real result, one by one: nothing here lists fields of ours.
"""

from __future__ import annotations

import csv
import json
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from io import StringIO
from math import isnan
from pathlib import Path
from typing import cast

import pytest
import tomli_w
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import favano
from favano.errors import BadInput
from favano.records import history_from_csv, history_to_csv
from favano.records.folder import HISTORY, MODEL, PARTICIPATION
from favano.results import Result
from favano.run import repetition, runner
from favano.run.file_comparison import FileComparison
from favano.run.verification import verify
from favano.specification.keys import Keys
from favano.studies.request import Request
from tests.run.small import reproduce_small
from tests.run.test_verification import chained_again

SHORT: Keys = {
    "selected": 2, "local_steps": 2, "horizon": 40.0, "evaluate_every": 20.0, "seeds": 2,
    "track_bound": True, "learning_rate": 0.1,
}  # fmt: skip

Change = tuple[str, object]  # what is changed, and the changed document


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result with all kinds of files."""
    folder = tmp_path_factory.mktemp("made")
    result = favano.simulate("favano", "digits", favano.Fleet(clients=5), **SHORT)
    return result.save(folder / "result")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run of `favano reproduce`."""
    out = tmp_path_factory.mktemp("archive")
    reproduce_small(out / "all", Request(seeds=1))
    first = sorted((out / "all" / "runs").iterdir())[0]
    shutil.copytree(first, out / "one" / "runs" / first.name)
    return out / "one"


@pytest.fixture(autouse=True)
def _runs_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of the same specification gives the same rows: they are told again."""
    train = runner.run_together

    def told_again(specs: Sequence[object], *arguments: object, **options: object) -> list[Result]:
        key = repr((specs, options["seeds"]))
        observer = cast(Callable[[Mapping[str, object]], object], options.pop("on_evaluate"))
        if key not in MADE:
            MADE[key] = train(specs, *arguments, **options)[0]  # type: ignore[arg-type]
        result = MADE[key]
        for row in result.rows:
            cells = {**row._asdict(), **row.metrics}
            if observer(cells) is not None:
                break
        return [replace(result)]

    monkeypatch.setattr(repetition, "run_together", told_again)


MADE: dict[str, Result] = {}


def changed(value: object) -> object:
    """Another value of the same kind."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return 2 * value + 1
        case str():
            return {"complete": "stopped", "lanes": "loop"}.get(value, f"{value}x")
        case None:
            return 0.5
    raise AssertionError(value)


def changes(document: object, name: str = "") -> Iterator[Change]:
    """The document with one value changed, left out or added, for each place in it."""
    if not isinstance(document, dict | list):
        yield f"{name} changed", changed(document)
        return
    keys = list(document) if isinstance(document, dict) else list(range(len(document)))
    if len(keys) > 4 and isinstance(document, list):  # the others are compared as these are
        keys = [keys[0], keys[-1]]
    for key in keys:
        inner = name if isinstance(document, list) else f"{name}.{key}".lstrip(".")
        for what, other in changes(document[key], inner):
            copy = document.copy()
            copy[key] = other
            yield what, copy
        copy = document.copy()
        del copy[key]
        yield f"{inner} removed", copy
    more = document.copy()
    if isinstance(more, dict):
        yield f"{name}.added added".lstrip("."), {**more, "added": 1}
    else:
        yield f"{name} added", [*more, deepcopy(more[-1]) if more else 0]


def is_found(folder: Path, file: str, what: str) -> bool:
    """Whether a change is found, or its place is named as not covered."""
    try:
        verdicts = verify(folder)
    except BadInput:
        return True
    place = what.rpartition(" ")[0]
    covered_not = [entry for verdict in verdicts for entry in verdict.not_covered]
    fields = [entry.removeprefix(f"{file}: ").split(", ") for entry in covered_not if file in entry]
    named = any(place in words for words in fields)
    return named or not all(verdict.right for verdict in verdicts)


def check_all(folder: Path, path: Path, contents: Iterator[tuple[str, str]], name: str) -> int:
    """Write each content in turn; all that is not found is named. The number of changes."""
    before, missed, count = path.read_bytes(), [], 0
    for what, content in contents:
        path.write_text(content, encoding="utf-8")
        count += 1
        if not is_found(folder, name, what):
            missed.append(what)
    path.write_bytes(before)
    assert not missed
    return count


def test_the_result_itself_is_proved(made: Path, archive: Path) -> None:
    assert {path.name for path in made.iterdir()} == {
        "bound.csv", "history.csv", "model.safetensors", "participation.json", "spec.toml",
        "summary.json",
    }  # fmt: skip
    assert all(verdict.right for folder in (made, archive) for verdict in verify(folder))


@pytest.mark.quick("participation.json")
@pytest.mark.parametrize("name", ["summary.json", "participation.json"])
def test_every_value_in_json(name: str, made: Path) -> None:
    document = json.loads((made / name).read_text())
    texts = (
        (what, json.dumps(value)) for what, value in changes(document) if what != "jobs removed"
    )
    assert check_all(made, made / name, texts, name) > 100


def test_earlier_versions_did_not_state_jobs(made: Path) -> None:
    path = made / PARTICIPATION
    before = path.read_bytes()
    document = json.loads(before)
    del document["jobs"]
    path.write_text(json.dumps(document))
    assert all(verdict.right for verdict in verify(made))
    document["seed"] = 7
    path.write_text(json.dumps(document))
    assert not all(verdict.right for verdict in verify(made))
    path.write_bytes(before)


@pytest.mark.slow
def test_every_value_in_the_summary_of_a_study(archive: Path) -> None:
    """It has a cost, and no models."""
    (folder,) = (archive / "runs").iterdir()
    document = json.loads((folder / "summary.json").read_text())
    texts = ((what, json.dumps(value)) for what, value in changes(document))
    assert check_all(archive, folder / "summary.json", texts, "summary.json") > 50
    other = folder.with_name("0" * 16)
    folder.rename(other)
    assert not all(verdict.right for verdict in verify(archive))
    other.rename(folder)


@pytest.mark.slow
def test_every_value_in_the_specification(made: Path) -> None:
    document = tomllib.loads((made / "spec.toml").read_text())
    texts = (
        (what, tomli_w.dumps(cast("dict[str, object]", value))) for what, value in changes(document)
    )
    assert check_all(made, made / "spec.toml", texts, "spec.toml") > 100


def cells(text: str) -> Iterator[tuple[str, str]]:
    """A table with one cell changed, one line or column left out or there twice."""
    table = list(csv.reader(StringIO(text)))

    def written(lines: list[list[str]]) -> str:
        out = StringIO()
        csv.writer(out, lineterminator="\n").writerows(lines)
        return out.getvalue()

    for number, line in enumerate(table):
        for place, cell in enumerate(line):
            other = deepcopy(table)
            other[number][place] = cell[:-1] + ("1" if cell[-1:] != "1" else "2")
            yield f"{number}.{place} changed", written(other)
        yield f"{number} removed", written([*table[:number], *table[number + 1 :]])
        yield f"{number} added", written([*table[:number], line, *table[number:]])
    for place, name in enumerate(table[0]):
        yield f"{name} removed", written([line[:place] + line[place + 1 :] for line in table])
        yield f"{name} added", written([[*line, line[place]] for line in table])
    yield "column added", written([[*line, "1.0" if n else "more"] for n, line in enumerate(table)])


@pytest.mark.quick("history.csv")
@pytest.mark.parametrize("name", ["history.csv", "bound.csv"])
def test_every_cell_of_tables(name: str, made: Path) -> None:
    path = made / name
    assert check_all(made, path, cells(path.read_text()), name) > 80


def test_every_cell_of_a_history_that_was_chained_again(made: Path) -> None:
    """As a forger would write it: only the repeated run shows what is wrong."""
    path = made / HISTORY
    rows = history_from_csv(path.read_text())

    def forged() -> Iterator[tuple[str, str]]:
        for name in rows[1]._fields[1:-1]:
            value = getattr(rows[1], name)
            other = {"accuracy": 0.99} if name == "metrics" else changed(value)
            row = rows[1]._replace(**{name: other})  # type: ignore[arg-type]
            yield f"{name} changed", history_to_csv(chained_again([rows[0], row, *rows[2:]]))

    assert check_all(made, path, forged(), HISTORY) == len(rows[1]) - 2


def test_every_tensor(made: Path) -> None:
    path = made / MODEL
    before, tensors = path.read_bytes(), load_file(path)
    with safe_open(path, "pt") as file:
        about = json.loads(file.metadata()["favano"])
    missed = []

    def write(what: str, tensors: dict[str, torch.Tensor], about: object) -> None:
        save_file(tensors, path, metadata={"favano": json.dumps(about)})
        if not is_found(made, MODEL, what):
            missed.append(what)

    for name, tensor in tensors.items():
        others = {key: value for key, value in tensors.items() if key != name}
        order = [f"{entry}x" if entry == name else entry for entry in about["order"]]
        left = [entry for entry in about["order"] if entry != name]
        write(f"{name} renamed", {**others, f"{name}x": tensor}, {**about, "order": order})
        write(f"{name} removed", others, {**about, "order": left})
        write(f"{name} out of order", tensors, {**about, "order": [*left, name]})
        write(f"{name} changed", {**others, name: tensor + 1e-7}, about)
        write(f"{name} turned", {**others, name: tensor.reshape(1, -1)}, about)
        write(f"{name} widened", {**others, name: tensor.double()}, about)
        write(f"{name} twice", tensors, {**about, "order": [*about["order"], name]})
    more = {**tensors, "more": torch.zeros(1)}
    write("a tensor more", more, {**about, "order": [*about["order"], "more"]})
    for what, other in changes(about, "favano"):
        write(what, tensors, other)
    path.write_bytes(before)
    assert missed == [f"{name} out of order" for name in about["order"][-1:]]  # is the same


@pytest.mark.parametrize("name", ["bound.csv", "participation.json"])
def test_files_that_are_gone(name: str, made: Path) -> None:
    content = (made / name).read_bytes()
    (made / name).unlink()
    *_, files = verify(made)
    assert (files.outcome, files.words) == ("wrong", f"{name} is missing")
    (made / name).write_bytes(content)


def test_what_is_there_twice_is_refused(made: Path) -> None:
    """The first is what a person reads, the last what a program takes."""
    path = made / "summary.json"
    text = path.read_text()
    path.write_text(text.replace('"bits_up":', '"bits_up": 1, "bits_up":', 1))
    *_, files = verify(made)
    assert (files.outcome, files.words) == (
        "wrong",
        "summary.json is damaged: bits_up is there twice",
    )
    path.write_text(text)


def test_other_files_are_named(made: Path) -> None:
    (made / "NOTES.md").touch()
    *_, files = verify(made)
    assert "NOTES.md" in files.not_covered
    (made / "NOTES.md").unlink()


def test_a_number_that_is_none_hides_no_difference() -> None:
    """The largest difference is told: NaN, and not the small one that comes after it."""
    stated, made = '{"a": [0.9, NaN, 0.3]}', '{"a": [0.1, 0.2, 0.3000001]}'
    comparison = FileComparison(exact=False)
    comparison.compare({"participation.json": stated}, {"participation.json": made})
    (most, place), *others = comparison.apart.values()
    assert isnan(most)
    assert (place, others) == ("participation.json: a.1", [])
