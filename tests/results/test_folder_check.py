"""Result folders: whole or untouched."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
import tomli_w
import torch
from safetensors.torch import load_file
from torch import Tensor

from favano.errors import BadInput, WriteFailed
from favano.methods import our_methods
from favano.options import options_of
from favano.records import FILES, Row, Status, history_from_csv
from favano.results import Result, check_folder, is_finished, is_longer, write_result
from favano.results.model_file import read_models
from favano.specification.config import spec_tables, stored_keys
from favano.specification.history_start import files_digest
from favano.specification.presets import resolve
from favano.specification.spec import PARTS, Spec, changed
from tests.forks import FORKS
from tests.specs import complete, read_spec, spec_of

ROW = Row(0, 7.0, 1, 3, 64, 128, 2.5, {"accuracy": 0.25}, 0.0, 0.0, 3)


def result(seeds: int = 1) -> Result:
    models = {seed: {"weight": torch.full((2,), float(seed))} for seed in range(seeds)}
    return of(complete(seeds=seeds), models)


def of(spec: Spec, models: Mapping[int, dict[str, Tensor]] = MappingProxyType({})) -> Result:
    made = Result.of(spec)
    made.rows.append(ROW)
    made.states.update(models)
    made.summary.trace = files_digest(spec)
    return made


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_there_and_back(tmp_path: Path) -> None:
    write_result(tmp_path / "new" / "folder", result(), "favano run")
    folder = tmp_path / "new" / "folder"
    assert sorted(contents(folder)) == sorted(FILES)
    assert resolve(read_spec(folder / "spec.toml")) == complete()
    assert history_from_csv((folder / "history.csv").read_text()) == [ROW]
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["status"], summary["command"]) == ("complete", "favano run")
    assert load_file(folder / "model.safetensors")["weight"].tolist() == [0.0, 0.0]


def test_several_seeds_are_told_apart(tmp_path: Path) -> None:
    write_result(tmp_path, result(seeds=2), "favano run")
    assert load_file(tmp_path / "model.safetensors")["seed-1.weight"].tolist() == [1.0, 1.0]


def test_another_run_is_not_overwritten(tmp_path: Path) -> None:
    write_result(tmp_path, result(), "favano run")
    check_folder(tmp_path, spec_of())  # the same run may be repeated
    with pytest.raises(BadInput, match=r"already holds another run \(differs in clients, seed\)"):
        check_folder(tmp_path, spec_of(clients=7, seed=3))


@pytest.mark.parametrize("algorithm", our_methods())
def test_a_specification_is_the_same_run_read_back(algorithm: str, tmp_path: Path) -> None:
    spec = complete(algorithm=algorithm, clients=20, selected=4)
    write_result(tmp_path, of(spec), "favano run")
    check_folder(tmp_path, spec)
    assert resolve(read_spec(tmp_path / "spec.toml")) == spec
    written = tomllib.loads((tmp_path / "spec.toml").read_text())
    assert set(written) == {*PARTS, "method"}
    (method,) = written["method"]
    assert method.pop("name") == algorithm
    assert set(method) <= set(options_of(type(spec.method)))


def test_another_label_or_option_is_another_run(tmp_path: Path) -> None:
    spec = complete(algorithm="fedbuff", label="small", buffer=3)
    write_result(tmp_path, of(spec), "favano run")
    check_folder(tmp_path, spec)
    written = tomllib.loads((tmp_path / "spec.toml").read_text())
    assert written["method"][0] | {"staleness": ""} == {
        "name": "fedbuff", "label": "small", "buffer": 3, "buffer_mode": "concurrency",
        "server_learning_rate": 1.0, "staleness": "", "distinct": False, "flush_at_end": False,
        "rate_scale": "none", "sample_weights": False, "check_ins": "constant",
    }  # fmt: skip
    for update, key in (
        ({"label": "large"}, "label"),
        ({"label": ""}, "label"),
        ({"buffer": 4}, "buffer"),
        ({"concurrency": 2}, "concurrency"),
        ({"algorithm": "fedavg"}, "algorithm, buffer"),
    ):
        with pytest.raises(BadInput, match=rf"holds another run \(differs in {key}"):
            check_folder(tmp_path, changed(spec, update))


def test_missing_keys_are_defaults(tmp_path: Path) -> None:
    """A folder of a version that did not have them."""
    tables = spec_tables(stored_keys(complete()))
    del tables["server"]
    (tmp_path / "spec.toml").write_text(tomli_w.dumps(tables))
    check_folder(tmp_path, complete())
    with pytest.raises(BadInput, match=r"another run \(differs in horizon\)"):
        check_folder(tmp_path, complete(horizon=70))


def test_a_specification_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    file, unusable = tmp_path / "spec.toml", r"out=\S+: holds a spec.toml that cannot be used \("
    for text, reason in (
        ("clients = = 30\n", r"config=\S+: is not valid TOML"),
        ("[fleets]\nclients = 30\n", "config=fleets: unknown table; did you mean fleet"),
        ("[fleet]\nclinets = 30\n", r"clinets=30: unknown key of \[fleet\]; did you mean clients"),
    ):
        file.write_text(text)
        with pytest.raises(BadInput, match=unusable + reason):
            check_folder(tmp_path, spec_of())


@pytest.mark.parametrize("status", ["complete", "diverged"])
def test_a_partial_result_does_not_replace_a_complete_one(status: Status, tmp_path: Path) -> None:
    partial, whole = result(), result()
    partial.summary.status, whole.summary.status = "partial", status
    write_result(tmp_path, partial, "favano run")
    write_result(tmp_path, partial, "favano run")  # one partial result replaces another
    write_result(tmp_path, whole, "favano run")
    before = contents(tmp_path)
    rule = f"out={tmp_path}: holds a complete result, which a partial one does not replace"
    with pytest.raises(WriteFailed, match=f"^{re.escape(rule)}$"):
        write_result(tmp_path, partial, "favano run")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("summary", ["", "[]", "{}", '{"status": "partial", "runs": []}'])
def test_what_is_not_finished(summary: str, tmp_path: Path) -> None:
    write_result(tmp_path, result(), "favano run")
    assert is_finished(tmp_path)
    (tmp_path / "summary.json").write_text(summary)
    assert not is_finished(tmp_path)


def test_a_result_without_its_model_is_not_finished(tmp_path: Path) -> None:
    write_result(tmp_path, result(), "favano run")
    (tmp_path / "model.safetensors").unlink()
    assert not is_finished(tmp_path)


def test_places_that_cannot_be_written_are_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(BadInput, match=r"out=\S+: \S+ is a file, need a folder"):
            check_folder(folder, spec_of())

    def refuse(*arguments: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(BadInput, match="cannot be written: Permission denied"):
        check_folder(tmp_path / "new" / "folder", spec_of())
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


TIMES = "client,duration\n0,1\n"


@pytest.mark.parametrize(
    ("key", "kind", "name", "before", "after"),
    [
        ("step_law", "trace", "times.csv", f"{TIMES}1,2\n", f"{TIMES}1,3\n"),
        ("split", "file", "owners.txt", "0\n1\n", "1\n0\n"),
    ],
)
def test_other_contents_of_the_same_file_are_another_run(
    key: str, kind: str, name: str, before: str, after: str, tmp_path: Path
) -> None:
    """Step times, and the client of each sample."""
    file, folder = tmp_path / name, tmp_path / "r"
    file.write_text(before)
    spec = complete(clients=2, selected=1, **{key: f"{kind}:{file}"})
    write_result(folder, of(spec), "favano run")
    check_folder(folder, spec)
    file.write_text(after)
    with pytest.raises(BadInput, match=rf"already holds a run of other contents of .*{name}"):
        check_folder(folder, spec)


def test_an_emptied_file_is_not_a_finished_result(tmp_path: Path) -> None:
    write_result(tmp_path, result(), "favano run")
    assert is_finished(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert not is_finished(tmp_path)


def test_a_file_system_that_refuses_is_found_out_before_any_work() -> None:
    with pytest.raises(BadInput, match="cannot be written"):
        check_folder(Path("/proc/favano"), spec_of())


def test_longer_is_more_seeds_or_a_longer_horizon_and_nothing_else(tmp_path: Path) -> None:
    write_result(tmp_path, of(complete(horizon=70.0, seeds=2)), "favano run")
    for keys, longer in (
        ({"horizon": 71.0, "seeds": 2}, True),
        ({"horizon": 70.0, "seeds": 3}, True),
        ({"horizon": 70.0, "seeds": 2}, False),
        ({"horizon": 71.0, "seeds": 1}, False),
        ({"horizon": 69.0, "seeds": 3}, False),
        ({"horizon": 71.0, "seeds": 2, "learning_rate": 0.25}, False),
    ):
        assert is_longer(tmp_path, complete(**keys)) == longer


def test_weights_that_were_drawn_for_one_horizon_have_no_longer_run(tmp_path: Path) -> None:
    """Who is there up to the horizon makes the weights of all contacts before it."""
    drawn = {"weights": "monte-carlo", "seeds": 2}
    for keys, longer in (({"availability": "daily:0.5:2:50"}, False), ({}, True)):
        write_result(tmp_path, of(complete(horizon=70.0, **drawn, **keys)), "favano run")
        assert is_longer(tmp_path, complete(horizon=70.0, **{**drawn, "seeds": 3}, **keys))
        assert is_longer(tmp_path, complete(horizon=71.0, **drawn, **keys)) == longer


@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_models_are_read_by_seed(seeds: int, tmp_path: Path) -> None:
    """With their tensors in the order in which they were written."""
    order = {"z": torch.ones(2), "a.weight": torch.zeros(1)}
    models = {
        seed: {key: tensor + seed for key, tensor in order.items()} for seed in range(3, 3 + seeds)
    }
    write_result(tmp_path, of(complete(), models), "favano run")
    loaded = read_models(tmp_path / "model.safetensors", list(models))
    assert [list(model) for model in loaded.values()] == [["z", "a.weight"]] * seeds
    for seed, model in models.items():
        assert all(torch.equal(loaded[seed][key], tensor) for key, tensor in model.items())
