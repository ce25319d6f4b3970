"""Result folders: whole or untouched."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from favano.errors import BadInput, WriteFailed
from favano.experiments import Result, Spec, check_folder, read_spec, write_result
from favano.experiments.results import FILES
from favano.metrics import Row, from_csv
from tests.forks import FORKS

ROW = Row(0, 7.0, 1, 3, 64, 128, 2.5, 0.25, 0.0, 0.0, 3)


def result(seeds: int = 1) -> Result:
    models = {seed: {"weight": torch.full((2,), float(seed))} for seed in range(seeds)}
    return Result(Spec(seeds=seeds), rows=[ROW], models=models)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_there_and_back(tmp_path: Path) -> None:
    write_result(tmp_path / "new" / "folder", result(), "favano run")
    folder = tmp_path / "new" / "folder"
    assert sorted(contents(folder)) == sorted(FILES)
    assert read_spec(folder / "spec.toml") == Spec()
    assert from_csv((folder / "history.csv").read_text()) == [ROW]
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["status"], summary["command"]) == ("complete", "favano run")
    assert load_file(folder / "model.safetensors")["weight"].tolist() == [0.0, 0.0]


def test_several_seeds_are_told_apart(tmp_path: Path) -> None:
    write_result(tmp_path, result(seeds=2), "favano run")
    assert load_file(tmp_path / "model.safetensors")["seed-1.weight"].tolist() == [1.0, 1.0]


def test_another_run_is_not_overwritten(tmp_path: Path) -> None:
    write_result(tmp_path, result(), "favano run")
    check_folder(tmp_path, Spec())  # the same run may be repeated
    with pytest.raises(BadInput, match=r"already holds another run \(differs in clients, seed\)"):
        check_folder(tmp_path, Spec(clients=7, seed=3))


def test_places_that_cannot_be_written_are_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(BadInput, match=r"out=\S+: \S+ is a file, need a folder"):
            check_folder(folder, Spec())
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(BadInput, match="cannot be written"):
        check_folder(tmp_path / "new" / "folder", Spec())
    assert contents(tmp_path) == {"file": b""}  # nothing was made


def test_a_full_disk_leaves_old_results_intact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_result(tmp_path, result(), "favano run")
    before = contents(tmp_path)
    calls = 0

    def no_space(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(WriteFailed, match="No space left on device; earlier results are untouched"):
        write_result(tmp_path, result(seeds=2), "favano run")
    assert calls == 3
    assert contents(tmp_path) == before


@FORKS
def test_a_real_limit_on_file_size_leaves_old_results_intact(tmp_path: Path) -> None:
    """The operating system itself refuses to write more than 2,000 bytes to a file."""
    write_result(tmp_path, result(), "favano run")
    before = contents(tmp_path)
    child = multiprocessing.get_context("fork").Process(target=write_too_much, args=(tmp_path,))
    child.start()
    child.join()
    assert child.exitcode == 3
    assert contents(tmp_path) == before


def write_too_much(folder: Path) -> None:
    """In a process of its own, whose files may not be large."""
    import resource

    big = result()
    big.rows.extend([ROW] * 500)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
    try:
        write_result(folder, big, "favano run")
    except WriteFailed as error:
        os._exit(3 if "earlier results are untouched" in str(error) else 4)


def test_files_that_are_not_toml_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    with pytest.raises(BadInput, match="no such file"):
        read_spec(path)
    path.write_text("clients = = 3")
    with pytest.raises(BadInput, match="is not valid TOML"):
        read_spec(path)
