"""Result folders, written completely or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, cast

import tomli_w

from favano import __version__, records
from favano.errors import BadInput, WriteFailed, require
from favano.methods import source_digest
from favano.planning.participation import participation
from favano.records import Participation, Summary
from favano.records.folder import (
    ABOUT,
    BOUND,
    FILES,
    HISTORY,
    MODEL,
    ORDER,
    PARTICIPATION,
    SPEC,
    SUMMARY,
)
from favano.records.identity import differing
from favano.specification.config import Config, read_config, spec_tables
from favano.specification.digest import differing_keys
from favano.specification.history_start import files_digest, named_files
from favano.specification.optimiser_words import describe_optimiser
from favano.specification.presets import resolve
from favano.specification.spec import Spec, make_spec
from favano.types import Kernels

if TYPE_CHECKING:
    from torch import Tensor

    from favano.run.result import Result

_LENGTHS = {"horizon", "seeds"}  # keys of which a result may get more


def check_writable(folder: Path, name: str = "out") -> None:
    """Refuse a folder that cannot be written, before any training."""
    above = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    require(above.is_dir(), name, folder, f"{above} is a file, need a folder")
    try:
        with TemporaryDirectory(dir=above):  # some file systems refuse whatever the permissions say
            pass
    except OSError as error:
        raise BadInput(name, folder, f"{above} cannot be written: {error.strerror}") from None


def check_folder(folder: Path, spec: Spec) -> None:
    """Refuse a folder that holds another run, or that cannot be written, before any training."""
    check_writable(folder)
    several = not (folder / SUMMARY).exists() and any(folder.glob(f"*/{SUMMARY}"))
    require(
        not several, "out", folder, "holds several results; choose a new folder for a single one"
    )
    if (folder / SPEC).exists():
        names = [] if is_longer(folder, spec) else differing_keys(_held(folder), resolve(spec))
        _need_equal(folder, names)
        if (held := _ended(folder)) is not None:
            name = spec.method.name
            named = ", ".join(named_files(spec))
            rule = f"already holds a run of other contents of {named}; choose a new folder"
            require(files_digest(spec) == held.trace, "out", folder, rule)
            rule = f"already holds a run of another version of {name}; choose a new folder"
            require(source_digest(spec.method) == held.source, "out", folder, rule)


def check_content(folder: Path, result: Result) -> None:
    """Refuse a folder that holds a result of other data, or of another network, loss or metric."""
    if (held := _ended(folder)) is not None:
        same = held.data in (None, result.data)
        require(same, "out", folder, "already holds a run of other data; choose a new folder")
        _need_equal(folder, differing(held.code or {}, result.code or {}))


def check_comparison(folder: Path) -> None:
    """Refuse a folder that holds a single result: those of a comparison would be hidden by it."""
    rule = "holds a single result; choose a new folder for several"
    require(not (folder / SUMMARY).exists(), "out", folder, rule)


def _need_equal(folder: Path, names: Sequence[str]) -> None:
    """Refuse a folder whose run differs in something."""
    rule = f"already holds another run (differs in {', '.join(names)}); choose a new folder"
    require(not names, "out", folder, rule)


def _held(folder: Path) -> Config:
    """The specification in a folder."""
    try:
        return read_config(folder / SPEC)
    except BadInput as error:
        rule = f"holds a spec.toml that cannot be used ({error}); choose a new folder"
        raise BadInput("out", folder, rule) from error


def is_longer(folder: Path, spec: Spec) -> bool:
    """Whether a specification differs from that of a result in more seeds or a longer horizon."""
    held, asked = _held(folder), resolve(spec)
    names = differing_keys(held, asked)
    if not names or not set(names) <= _LENGTHS:
        return False
    said = held.first
    if not all(name in said for name in names):
        return False
    before = make_spec({name: said[name] for name in names}).run
    return all(getattr(asked.run, name) >= getattr(before, name) for name in names)


def read_summary(folder: Path) -> Summary:
    """The summary of a folder: how its runs ended."""
    return records.read_file(folder / SUMMARY, records.summary_from_json)


def is_finished(folder: Path) -> bool:
    """Whether a folder holds a result whose runs all reached their end."""
    held = _ended(folder)
    return held is not None and held.status != "stopped"


def _ended(folder: Path) -> Summary | None:
    """The summary of a result that nothing interrupted; None if there is none, or a damaged one."""
    paths = [folder / name for name in FILES]
    if not all(path.is_file() and path.stat().st_size for path in paths):
        return None
    try:
        held = read_summary(folder)
    except ValueError:  # the runs are made again
        return None
    return held if held.status != "partial" else None


def earlier_results(asked: Mapping[Path, Spec]) -> dict[int, Result]:
    """Complete results of the same runs with fewer seeds, which can be taken over, by number."""
    earlier = {}
    for number, (folder, spec) in enumerate(asked.items()):
        if is_finished(folder) and differing_keys(_held(folder), resolve(spec)) == ["seeds"]:
            earlier[number] = _read_result(folder, spec)
    return earlier


def _read_result(folder: Path, spec: Spec) -> Result:
    """A complete result as it was written."""
    from favano.run.result import Result

    summary = read_summary(folder)
    states = read_models(folder / MODEL, [run.seed for run in summary.runs])
    bound = folder / BOUND
    result = Result(
        spec,
        summary.metrics,
        summary.status,
        rows=records.read_file(folder / HISTORY, records.history_from_csv),
        runs=list(summary.runs),
        bounds=records.read_file(bound, records.bounds_from_csv) if bound.exists() else [],
        audit=summary.audit,
        client_scores=summary.served,
        test_samples=summary.test_samples,
        kernels=cast("Kernels | None", summary.kernels),
        data=summary.data,
        code=summary.code,
    )
    for seed, state in states.items():
        result.add_state(seed, state)
    return result


def read_models(
    path: Path, seeds: Sequence[int], name: str = "out", remedy: str = "repeat it by --force"
) -> dict[int, dict[str, Tensor]]:
    """The final models of these seeds, with their tensors in the order of a flat model.

    `name` is what the caller calls the folder, and `remedy` what helps if the file is damaged.
    """
    from safetensors import SafetensorError, safe_open

    models: dict[int, dict[str, Tensor]] = {}
    alone = f"seed-{seeds[0]}." if len(seeds) == 1 else ""
    try:
        with safe_open(path, "pt") as file:
            about = (file.metadata() or {}).get(ABOUT, "")
            names = json.loads(about)[ORDER] if about.startswith("{") else file.keys()
            if len(names) != len(file.keys()) or set(names) != set(file.keys()):
                raise ValueError("the order of its tensors does not name each of them once")
            for key in names:
                seed, _, own = f"{alone}{key}".removeprefix("seed-").partition(".")
                models.setdefault(int(seed), {})[own] = file.get_tensor(key)
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        state = "a damaged" if path.is_file() else "no"
        raise BadInput(name, path.parent, f"holds {state} {MODEL}; {remedy}") from error
    return models


def write_result(folder: Path, result: Result, command: str) -> None:
    """Write all files of a result beside the old ones, then put them in place together.

    A partial or stopped result does not replace a complete one.
    """
    if result.status in ("partial", "stopped") and is_finished(folder):
        rule = f"holds a complete result, which a {result.status} one does not replace"
        raise WriteFailed(f"out={folder}: {rule}")
    records.write_together(folder, result_files(result, command))


def result_files(result: Result, command: str) -> dict[str, str | bytes]:
    """All files of a result folder, by name."""
    import torch
    from safetensors.torch import save

    from favano.run.hardware import hardware

    spec, prefix = result.spec, len(result.models) > 1
    tensors = {
        f"seed-{seed}.{name}" if prefix else name: tensor.contiguous()
        for seed, model in result.states.items()
        for name, tensor in model.items()
    }
    summary = Summary(
        status=result.status,
        metrics=result.metrics,
        favano=__version__,
        command=command,
        torch=torch.__version__,
        kernels=result.kernels,
        processor=hardware(spec.run.device),
        data=result.data,
        test_samples=result.test_samples,
        code=result.code,
        optimiser=describe_optimiser(spec),
        runs=tuple(result.runs),
        audit=result.audit,
        trace=files_digest(spec),
        title=spec.method.title,
        source=source_digest(spec.method),
        served=result.client_scores,
    )
    about = {"version": __version__, ORDER: [*tensors]}
    files: dict[str, str | bytes] = {
        SPEC: tomli_w.dumps(spec_tables(spec)),
        HISTORY: records.history_to_csv(result.rows),
        SUMMARY: records.summary_to_json(summary),
        MODEL: save(tensors, metadata={ABOUT: json.dumps(about)}),
    }
    if result.bounds:
        files[BOUND] = records.bounds_to_csv(result.bounds)
    if (record := _participation(result)) is not None:
        files[PARTICIPATION] = records.participation_to_json(record)
    return files


def _participation(result: Result) -> Participation | None:
    """Who trains the model; None if nothing was planned or if clients have no weights.

    An observer that ends a run leaves out a part of its schedule.
    """
    if (planned := result.first) is None or result.status == "stopped":
        return None
    try:
        return participation(planned.weights, planned.schedule, planned.fleet, planned.seed)
    except BadInput:
        return None
