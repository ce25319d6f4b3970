"""Result folders: written whole or not at all, read back by anyone."""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import tomli_w

from favano import __version__
from favano.errors import BadInput, WriteFailed, need
from favano.experiments.contribution import participation
from favano.experiments.method_keys import without_foreign
from favano.experiments.parsing import make_spec
from favano.experiments.presets import resolve
from favano.experiments.spec import Spec
from favano.records import (
    Participation,
    Summary,
    bounds_to_csv,
    history_to_csv,
    participation_to_json,
    summary_from_json,
    summary_to_json,
    write_together,
)
from favano.records.folder import BOUND, FILES, HISTORY, MODEL, PARTICIPATION, SPEC, SUMMARY

if TYPE_CHECKING:
    from favano.experiments.result import Result


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
        held, mine = dict(_held(folder)), dict(resolve(spec))
        differing = sorted(key for key in mine if held[key] != mine[key])
        rule = f"already holds another run (differs in {', '.join(differing)}); choose a new folder"
        need(not differing, "out", folder, rule)
        if is_finished(folder):
            rule = f"already holds a run of other step times ({spec.step_law}); choose a new folder"
            same = trace_digest(spec) == read_summary(folder).trace
            need(same, "out", folder, rule)


def _held(folder: Path) -> Spec:
    """The complete specification of the run in a folder; keys that are missing are defaults."""
    try:
        return resolve(read_spec(folder / "spec.toml"))
    except BadInput as error:
        rule = f"holds a spec.toml that cannot be used ({error}); choose a new folder"
        raise BadInput("out", folder, rule) from error


def read_summary(folder: Path) -> Summary:
    """How the runs of a folder ended, from `summary.json`."""
    return summary_from_json((folder / SUMMARY).read_text(encoding="utf-8"))


def trace_digest(spec: Spec) -> str | None:
    """A digest of the recorded step times that a run goes by; None without any."""
    name, _, text = spec.step_law.partition(":")
    path = Path(text)
    recorded = name == "trace" and path.is_file()
    return hashlib.sha256(path.read_bytes()).hexdigest() if recorded else None


def is_finished(folder: Path) -> bool:
    """Whether a folder holds a result whose runs all came to their end."""
    paths = [folder / name for name in FILES]
    if not all(path.is_file() and path.stat().st_size for path in paths):
        return False
    try:
        return read_summary(folder).status in ("complete", "diverged")
    except ValueError:  # damaged, so worth running again
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

    spec, prefix = result.spec, len(result.models) > 1
    tensors = {
        f"seed-{seed}.{name}" if prefix else name: tensor.contiguous()
        for seed, model in result.models.items()
        for name, tensor in model.items()
    }
    summary = Summary(
        status=result.status,
        favano=__version__,
        command=command,
        torch=torch.__version__,
        kernels=result.kernels,
        runs=tuple(result.runs),
        audit=result.audit,
        trace=trace_digest(spec),
    )
    files: dict[str, str | bytes] = {
        SPEC: tomli_w.dumps(without_foreign(spec_table(spec), spec.algorithm)),
        HISTORY: history_to_csv(result.rows),
        SUMMARY: summary_to_json(summary),
        MODEL: save(tensors, metadata={"favano": __version__}),
    }
    if result.bounds:
        files[BOUND] = bounds_to_csv(result.bounds)
    if (found := _participation(result)) is not None:
        files[PARTICIPATION] = participation_to_json(found)
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


def spec_table(spec: Spec) -> dict[str, object]:
    """A specification as TOML has it: keys that are not set are left out."""
    return spec.model_dump(mode="json", exclude_none=True)


def read_table(path: Path) -> dict[str, object]:
    """A TOML file as a table; one that does not parse is refused by name."""
    need(path.is_file(), "config", path, "no such file")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        need(False, "config", path, f"is not valid TOML: {error}")
        raise AssertionError from error


def read_spec(path: Path) -> Spec:
    """A specification from a TOML file."""
    return make_spec(read_table(path))
