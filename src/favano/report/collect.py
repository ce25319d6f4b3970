"""Result folders found and told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from favano.errors import need
from favano.report.archive import read_archive, run_files
from favano.report.result import Result, read_result

NOT_SET = "not set"
FILES = ("spec.toml", "history.csv")


def collect(paths: Sequence[Path]) -> list[Result]:
    """The results in `paths`: result folders, folders above some, or output of `favano reproduce`.

    Results of one parent come sorted by folder with `favano` first; paths keep their order.
    A subfolder with a specification and no history is listed as missing.
    """
    need(len(paths) > 0, "results", "", "need at least one folder")
    results = [result for path in paths for result in _results(path)]
    seen: set[Path] = set()
    for result in results:
        need(result.folder.resolve() not in seen, "results", result.folder, "given twice")
        seen.add(result.folder.resolve())
    return told_apart(results)


def _results(path: Path) -> list[Result]:
    need(path.is_dir(), "results", path, "no such folder")
    if all((path / file).exists() for file in FILES):
        return [read_result(path)]
    if files := run_files(path):
        return read_archive(files)
    found = _below(path)
    rule = "holds no result (need spec.toml and history.csv, here or in its subfolders)"
    need(bool(found), "results", path, rule)
    return [read_result(folder) for folder in found]


def _below(path: Path) -> list[Path]:
    """Result folders under `path`; nothing is looked for inside a result folder."""
    folders = sorted(
        (folder for folder in path.iterdir() if folder.is_dir()),
        key=lambda folder: (folder.name != "favano", folder.name),
    )
    found = []
    for folder in folders:
        if any((folder / file).exists() for file in FILES):
            there = (folder / "spec.toml").exists()
            need(there, "results", folder, "history.csv without spec.toml")
            found.append(folder)
        else:
            found += _below(folder)
    return found


def differing_keys(results: Sequence[Result]) -> list[str]:
    """Keys of the specifications that do not have one value in all, in order of appearance."""
    keys = dict.fromkeys(key for result in results for key in result.spec)
    return [key for key in keys if len(_values(results, key)) > 1]


def _values(results: Sequence[Result], key: str) -> set[str]:
    return {setting(result, key) for result in results}


def setting(result: Result, key: str) -> str:
    """One value of a specification in words.

    Booleans as TOML writes them, lists comma by comma, `not set` where the key is absent.
    """
    if key not in result.spec:
        return NOT_SET
    value = result.spec[key]
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return ", ".join(str(item) for item in value) or "none"
    return str(value)


def told_apart(results: Sequence[Result]) -> list[Result]:
    """The results, those of one algorithm with names of their own."""
    named = []
    for result in results:
        alike = [other for other in results if other.algorithm == result.algorithm]
        note = _note(result, alike) if len(alike) > 1 else ""
        named.append(replace(result, name=result.algorithm + note))
    return named


def _note(result: Result, alike: Sequence[Result]) -> str:
    """The one key that tells them apart, else all that differ if few, else the folder."""
    keys = differing_keys(alike)
    for choice in [[key] for key in keys] + ([keys] if 1 < len(keys) <= 3 else []):
        notes = [", ".join(_worded(other, key) for key in choice) for other in alike]
        if len(set(notes)) == len(alike):
            return f" ({notes[alike.index(result)]})"
    for depth in range(1, len(result.folder.resolve().parts)):
        ends = ["/".join(other.folder.resolve().parts[-depth:]) for other in alike]
        if len(set(ends)) == len(alike):
            return f" ({ends[alike.index(result)]})"
    raise AssertionError("two results in one folder")


def _worded(result: Result, key: str) -> str:
    return f"{key.replace('_', ' ')} {setting(result, key)}"
