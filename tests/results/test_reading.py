from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest
import tomli_w

from favano.errors import BadInput
from favano.methods import our_methods
from favano.report.curves import curve
from favano.results import read_result
from favano.results.model_file import read_models
from tests.report.conftest import Writer


@pytest.fixture
def folder(tmp_path: Path, write: Writer) -> Path:
    return write(tmp_path / "favano", {"algorithm": "favano"}, [[0.1, 0.5], [0.1, 0.7]], "complete")


def test_reads_all_three_files(folder: Path) -> None:
    result = read_result(folder)
    assert (result.name, result.title, result.status) == ("favano", "FAVANO", "complete")
    assert [run.accuracy for run in result.runs] == [0.5, 0.7]
    assert len(result.rows) == 4
    assert result.summary.command == "favano run --algorithm favano"
    assert result.horizon == 20.0


@pytest.mark.parametrize("name", ["summary.json", "spec.toml"])
def test_a_stranger_s_name_does_not_steer_the_terminal(name: str, folder: Path) -> None:
    """It could hide the sentence below it, which says that the digests do not agree."""
    if name == "summary.json":
        content = json.loads((folder / name).read_text()) | {"title": "good\x1b[8m"}
        (folder / name).write_text(json.dumps(content))
    else:
        spec = (folder / name).read_text()
        (folder / name).write_text(spec.replace('"favano"', '"good\\u001b[8m"'))
        (folder / "summary.json").unlink()
    assert read_result(folder).title == "good\\x1b[8m"


def test_a_pipe_instead_of_a_model_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.safetensors")
    with pytest.raises(BadInput, match=r"holds no model\.safetensors"):
        read_models(tmp_path / "model.safetensors", [0])


def test_without_summary_it_is_partial_and_speaks_by_its_last_rows(folder: Path) -> None:
    (folder / "summary.json").unlink()
    result = read_result(folder)
    assert result.status == "partial"
    assert [(run.seed, run.accuracy, run.time) for run in result.final_runs] == [
        (0, 0.5, 10.0),
        (1, 0.7, 10.0),
    ]


def test_an_update_past_the_horizon_is_in_no_table_and_no_curve(
    tmp_path: Path, write: Writer
) -> None:
    """The horizon is 20; the second seed's last round ends at 30."""
    accuracies = [[0.1, 0.5, 0.6], [0.1, 0.3, 0.4, 0.9]]
    result = read_result(write(tmp_path / "r", {"algorithm": "fedavg"}, accuracies, "complete"))
    assert [(run.time, run.accuracy) for run in result.final_runs] == [(20.0, 0.6), (20.0, 0.4)]
    assert [run.wall_seconds for run in result.final_runs] == [1.5, 1.5]
    assert (result.status, result.final_runs[1].server_steps) == ("complete", 2)
    assert curve(result).along["time"].tolist() == [0, 10, 20]
    assert curve(result).bands["accuracy"].mean[-1] == pytest.approx(50)


def test_fewer_seeds_than_asked_is_partial_whatever_the_summary_says(folder: Path) -> None:
    spec = (folder / "spec.toml").read_text()
    (folder / "spec.toml").write_text(spec.replace("seeds = 2", "seeds = 3"))
    assert read_result(folder).status == "partial"


def test_a_header_alone_is_a_missing_result(folder: Path) -> None:
    header = (folder / "history.csv").read_text().splitlines()[0]
    (folder / "history.csv").write_text(header + "\n")
    assert read_result(folder).status == "missing"


def test_null_and_nan_in_the_summary_are_not_numbers(folder: Path) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    summary["runs"][0]["loss"] = None
    summary["runs"][1]["loss"] = math.nan
    (folder / "summary.json").write_text(json.dumps(summary))
    assert all(math.isnan(run.loss) for run in read_result(folder).runs)


@pytest.mark.parametrize(
    ("file", "content", "complaint"),
    [
        ("spec.toml", b"algorithm = ", "is damaged"),
        ("spec.toml", b"\xff\xfe", "is damaged"),
        ("summary.json", b"{", "is damaged: file: Invalid JSON"),
        ("summary.json", b'{"status": "done", "runs": []}', "is damaged: status"),
        ("history.csv", b"seed,time\n0,1.0\n", "is damaged: no column 'server_step'"),
    ],
)
def test_damaged_files_are_named(folder: Path, file: str, content: bytes, complaint: str) -> None:
    (folder / file).write_bytes(content)
    with pytest.raises(BadInput) as refusal:
        read_result(folder)
    assert str(refusal.value).startswith(f"results={folder / file}: {complaint}")


def test_a_row_cut_short_is_named(folder: Path) -> None:
    text = (folder / "history.csv").read_text()
    (folder / "history.csv").write_text(text[: text.rindex(",")])
    with pytest.raises(BadInput, match=r"history\.csv: is damaged: a row is cut short"):
        read_result(folder)


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="absent: no such folder"):
        read_result(tmp_path / "absent")


def test_titles_are_those_of_the_methods_there_are(folder: Path) -> None:
    for name, title in {**{name: kind.title for name, kind in our_methods().items()},
                        "of nobody": "of nobody"}.items():  # fmt: skip
        (folder / "spec.toml").write_text(tomli_w.dumps({"method": [{"name": name}]}))
        assert read_result(folder).title == title


TABLES: dict[str, object] = {
    "problem": {"dataset": "digits"},
    "fleet": {"clients": 9},
    "run": {"horizon": 20.0, "seeds": 1},
}


@pytest.mark.parametrize(
    ("method", "name", "title"),
    [
        ({"name": "fedbuff", "buffer": 3}, "fedbuff", "FedBuff"),
        ({"name": "fedbuff", "label": "small"}, "small", "small"),
        ({"name": "some/file.py:Mine"}, "mine", "mine"),
        ({"name": "some/file.py:Mine", "label": "Ours"}, "Ours", "Ours"),
    ],
)
def test_a_specification_in_tables(
    method: dict[str, object], name: str, title: str, folder: Path
) -> None:
    (folder / "spec.toml").write_text(tomli_w.dumps({**TABLES, "method": [method]}))
    result = read_result(folder)
    assert (result.name, result.title, result.horizon) == (name, title, 20.0)
    assert result.keys["clients"] == 9
    assert result.keys.get("buffer") == method.get("buffer")


def test_the_summary_knows_the_title_of_a_method_that_is_not_ours(folder: Path) -> None:
    method = {"name": "some/file.py:Mine"}
    (folder / "spec.toml").write_text(tomli_w.dumps({**TABLES, "method": [method]}))
    summary = json.loads((folder / "summary.json").read_text()) | {"title": "MineFL"}
    (folder / "summary.json").write_text(json.dumps(summary))
    assert read_result(folder).title == "MineFL"
