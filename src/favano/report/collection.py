"""Finding result folders, and naming their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, combinations
from pathlib import Path

from favano.errors import require
from favano.records.folder import HISTORY, SPEC
from favano.report.archive import read_archive, run_files
from favano.report.result import Result, read_result

NOT_SET = "not set"
_FILES = (SPEC, HISTORY)
_FEW, _MOST = 3, 4  # keys in a name: all of them up to the first number, else at most the second


def collect(paths: Sequence[Path]) -> list[Result]:
    """The results in `paths`: result folders, output of `favano reproduce`, or their parents.

    Paths keep their order; the results of one parent are sorted by folder, with `favano` first.
    A subfolder with a specification but no history is listed as missing.
    """
    require(len(paths) > 0, "results", "", "need at least one folder")
    folders = [folder for path in paths for folder in result_folders(path)]
    results = [result for folder in folders for result in _results(folder)]
    seen: set[Path] = set()
    for result in results:
        require(result.folder.resolve() not in seen, "results", result.folder, "given twice")
        seen.add(result.folder.resolve())
    return disambiguated(results)


def _results(folder: Path) -> list[Result]:
    files = run_files(folder)
    return read_archive(files) if files else [read_result(folder)]


def result_folders(path: Path) -> list[Path]:
    """The folder itself if it holds a result or run files, or those below it, `favano` first."""
    require(path.is_dir(), "results", path, "no such folder")
    if all((path / file).exists() for file in _FILES) or run_files(path):
        return [path]
    folders = _below(path)
    files = "spec.toml and history.csv, or runs/ of favano reproduce"
    rule = f"holds no result (need {files}, here or in its subfolders)"
    require(bool(folders), "results", path, rule)
    return folders


def _below(path: Path) -> list[Path]:
    """Result folders and archives under `path`; the search does not go into them."""
    folders = [folder for folder in path.iterdir() if folder.is_dir()]
    results = []
    for folder in sorted(folders, key=lambda folder: (folder.name != "favano", folder.name)):
        if any((folder / file).exists() for file in _FILES):
            there = (folder / SPEC).exists()
            require(there, "results", folder, "history.csv without spec.toml")
            results.append(folder)
        elif run_files(folder):
            results.append(folder)
        else:
            results += _below(folder)
    return results


def differing_keys(results: Sequence[Result]) -> list[str]:
    """Keys whose value is not the same in all specifications, in order of appearance."""
    keys = dict.fromkeys(key for result in results for key in result.spec)
    return [key for key in keys if len({setting(result, key) for result in results}) > 1]


def setting(result: Result, key: str) -> str:
    """One value of a specification in words; `not set` if the key is absent."""
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


def disambiguated(results: Sequence[Result]) -> list[Result]:
    """The results, with distinct names for those of the same method."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.algorithm, []).append(result)
    notes = {algorithm: iter(_notes(alike)) for algorithm, alike in groups.items()}
    return [
        replace(result, name=result.algorithm + next(notes[result.algorithm])) for result in results
    ]


def _notes(alike: Sequence[Result]) -> list[str]:
    """What tells results of one method apart, as notes in brackets.

    The first of these that suffices: one key, all differing keys if there are few, several keys,
    the folder.
    """
    if len(alike) == 1:
        return [""]
    keys = sorted(differing_keys(alike), key=lambda key: key == "seeds")  # says least, so last
    words = {
        key: [f"{key.replace('_', ' ')} {setting(result, key)}" for result in alike] for key in keys
    }
    few = [tuple(keys)] if len(keys) <= _FEW else []
    some = chain.from_iterable(combinations(keys, size) for size in range(2, _MOST + 1))
    for choice in chain(((key,) for key in keys), few, some):
        notes = [", ".join(row) for row in zip(*(words[key] for key in choice), strict=True)]
        if len(set(notes)) == len(alike):
            return [f" ({note})" for note in notes]
    paths = [result.folder.resolve().parts for result in alike]
    for depth in range(1, max(map(len, paths)) + 1):
        ends = ["/".join(parts[-depth:]) for parts in paths]
        if len(set(ends)) == len(alike):
            return [f" ({end})" for end in ends]
    raise AssertionError("two results in one folder")
