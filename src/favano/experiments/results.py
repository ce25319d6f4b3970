"""Result folders: written whole or not at all, read back by anyone."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypedDict, cast

import tomli_w

from favano import __version__
from favano.errors import BadInput, WriteFailed, need
from favano.experiments.contribution import Participation, participation
from favano.experiments.records import RunRecord, Status
from favano.metrics import null_is_nan, to_csv, to_json
from favano.run.config import Config, read_config, spec_tables
from favano.run.digest import differing_keys
from favano.run.presets import resolve
from favano.run.spec import Spec

if TYPE_CHECKING:
    from favano.experiments.result import Result

FILES = ("spec.toml", "history.csv", "summary.json", "model.safetensors")
PARTICIPATION = "participation.json"


class Summary(TypedDict):
    """What `summary.json` says of the runs."""

    status: Status
    runs: list[RunRecord]
    trace: str | None  # digest of the recorded step times


def check_writable(folder: Path) -> None:
    """Refuse a folder that cannot be written, before any work."""
    above = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    need(above.is_dir(), "out", folder, f"{above} is a file, need a folder")
    try:
        with TemporaryDirectory(dir=above):  # permissions do not tell: some file systems refuse
            pass
    except OSError as error:
        raise BadInput("out", folder, f"{above} cannot be written: {error.strerror}") from None


def check_folder(folder: Path, spec: Spec) -> None:
    """Refuse a folder that holds another run, or that cannot be written, before any work."""
    check_writable(folder)
    if (folder / "spec.toml").exists():
        differing = differing_keys(_held(folder), resolve(spec))
        rule = f"already holds another run (differs in {', '.join(differing)}); choose a new folder"
        need(not differing, "out", folder, rule)
        if is_finished(folder):
            law = spec.fleet.step_law
            rule = f"already holds a run of other step times ({law}); choose a new folder"
            same = trace_digest(spec) == read_summary(folder)["trace"]
            need(same, "out", folder, rule)


def _held(folder: Path) -> Config:
    """What the specification in a folder says."""
    try:
        return read_config(folder / "spec.toml")
    except BadInput as error:
        rule = f"holds a spec.toml that cannot be used ({error}); choose a new folder"
        raise BadInput("out", folder, rule) from error


def read_summary(folder: Path) -> Summary:
    """How the runs of a folder ended, from `summary.json`; null is NaN."""
    found = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    status: Status = found["status"]
    runs = [
        {"status": status, **{key: null_is_nan(value) for key, value in run.items()}}
        for run in found["runs"]
    ]
    return Summary(status=status, runs=cast(list[RunRecord], runs), trace=found.get("trace"))


def trace_digest(spec: Spec) -> str | None:
    """A digest of the recorded step times that a run goes by; None without any."""
    name, _, text = spec.fleet.step_law.partition(":")
    path = Path(text)
    recorded = name == "trace" and path.is_file()
    return hashlib.sha256(path.read_bytes()).hexdigest() if recorded else None


def is_finished(folder: Path) -> bool:
    """Whether a folder holds a result whose runs all came to their end."""
    paths = [folder / name for name in FILES]
    if not all(path.is_file() and path.stat().st_size for path in paths):
        return False
    try:
        return read_summary(folder)["status"] in ("complete", "diverged")
    except (ValueError, KeyError, TypeError, AttributeError):  # damaged, so worth running again
        return False


def write_result(folder: Path, result: Result, command: str) -> None:
    """Write all files of a result beside the old ones, then put them in place together.

    A partial result does not replace a complete one.
    """
    if result.status == "partial" and is_finished(folder):
        raise WriteFailed(
            f"out={folder}: holds a complete result, which a partial one does not replace"
        )
    import torch
    from safetensors.torch import save

    from favano.experiments.tracking import bounds_to_csv

    spec, prefix = result.spec, len(result.models) > 1
    tensors = {
        f"seed-{seed}.{name}" if prefix else name: tensor.contiguous()
        for seed, model in result.models.items()
        for name, tensor in model.items()
    }
    summary = {
        "status": result.status,
        "favano": __version__,
        "command": command,
        "torch": torch.__version__,
        "kernels": result.kernels,
        "runs": result.runs,
        "audit": result.audit,
        "trace": trace_digest(spec),
    }
    contents = (
        tomli_w.dumps(spec_tables(spec)).encode(),
        to_csv(result.rows).encode(),
        (to_json(summary, indent=2) + "\n").encode(),
        save(tensors, metadata={"favano": __version__}),
    )
    files = dict(zip(FILES, contents, strict=True))
    if result.bounds:
        files["bound.csv"] = bounds_to_csv(result.bounds).encode()
    if (found := _participation(result)) is not None:
        files[PARTICIPATION] = (to_json(found) + "\n").encode()
    write_together(folder, files)


def _participation(result: Result) -> Participation | None:
    """Who trains the model; None where it is not planned ahead, or cannot be said of the method."""
    if result.first is None:
        return None
    one = result.first
    try:
        return participation(one.weights, one.schedule, one.fleet, one.seed)
    except BadInput:
        return None


def write_together(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write several files so that a failure leaves the folder as it was."""
    waiting = {name: folder / f".{name}.{os.getpid()}" for name in contents}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in contents.items():
            with waiting[name].open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        for name in contents:
            waiting[name].replace(folder / name)
    except OSError as error:
        raise WriteFailed(
            f"out={folder}: could not be written: {error.strerror}; earlier results are untouched"
        ) from error
    finally:
        for path in waiting.values():
            path.unlink(missing_ok=True)
