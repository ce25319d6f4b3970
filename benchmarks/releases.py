"""This checkout beside an earlier release: both do the same work in turns, in fresh processes.

Only ratios count, since machines differ and change. A benchmark names its lines and calls `main`,
which takes `--against`: a wheel, installed into an environment of its own beside it, or a folder of
unpacked packages, for machines without an index.
"""

from __future__ import annotations

import argparse
import os
import sys
import venv
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import cast

from measurement import Document, Missing, call, heading, last_document, shown, spread, write

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parent / "src"
SLOWER = 1.05  # a ratio whose whole interval lies above
LONGEST = 600.0  # seconds that one sample may take


@dataclass(frozen=True)
class Release:
    """A Python that imports favano, and what its path needs for it."""

    label: str
    python: Path
    path: str = ""

    def call(self, words: Sequence[str]) -> str:
        """The standard output of a Python command, in an empty folder."""
        with TemporaryDirectory() as folder, chdir(folder):
            return call([self.python, *words], LONGEST, {"PYTHONPATH": self.path})


def this_checkout() -> Release:
    """The sources beside this file, in the Python that runs it."""
    before = os.environ.get("PYTHONPATH", "")
    return Release(
        "now", Path(sys.executable), os.pathsep.join(filter(None, [str(SOURCES), before]))
    )


def earlier(place: Path) -> Release:
    """The release in a wheel, or in a folder of unpacked packages."""
    if place.is_dir():
        return Release(place.name, Path(sys.executable), str(place.resolve()))
    if not place.is_file():
        raise SystemExit(f"--against {place}: need a wheel, or a folder of unpacked packages")
    folder = place.with_suffix("")
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        print(f"installing {place.name}", file=sys.stderr, flush=True)
        venv.create(folder, with_pip=True, clear=True)
        _link_torch(folder)
        call([python, "-m", "pip", "install", "--quiet", f"{place.resolve()}[data]"])
        (folder / "installed").touch()
    return Release("-".join(place.name.split("-")[:2]), python)


def _link_torch(environment: Path) -> None:
    """PyTorch is gigabytes: the environment gets links to the one that is here."""
    import torch

    ours = Path(torch.__file__).parents[1]
    (theirs,) = environment.glob("lib/python*/site-packages")
    for package in [ours / "torch", ours / "torchgen", ours / "functorch", *ours.glob("torch-*")]:
        (theirs / package.name).symlink_to(package)


@dataclass(frozen=True)
class Line:
    """Something to measure: words for Python, and which number of the answer counts."""

    what: str
    words: tuple[str, ...]
    number: str = "seconds"  # of the document that is printed; `whole`: of the whole process
    more_is_better: bool = False


def favano(what: str, *words: str) -> Line:
    """A whole command of favano, from start to end."""
    return Line(what, ("-m", "favano", *words), "whole")


def work(what: str, number: str, *words: str, more_is_better: bool = False) -> Line:
    """A part of `work.py`, which times itself."""
    return Line(what, (str(HERE / "work.py"), *words), number, more_is_better)


def sample(release: Release, line: Line) -> float:
    """One measurement, in a process of its own."""
    began = perf_counter()
    output = release.call(line.words)
    seconds = perf_counter() - began
    return seconds if line.number == "whole" else cast(float, last_document(output)[line.number])


def in_turns(
    releases: Sequence[Release],
    line: Line,
    repeats: int,
    measure: Callable[[Release, Line], float] = sample,
) -> dict[str, list[float]]:
    """Samples by release; the order changes with each repeat."""
    samples: dict[str, list[float]] = {release.label: [] for release in releases}
    for repeat in range(repeats):
        for release in releases if repeat % 2 == 0 else releases[::-1]:
            samples[release.label].append(measure(release, line))
    return samples


def summary(samples: Mapping[str, Sequence[float]], line: Line) -> Document:
    """Each release, and what this checkout takes of the time of the earlier one."""
    document: Document = {"what": line.what, "number": line.number}
    document["releases"] = {label: spread(values) for label, values in samples.items()}
    if len(samples) == 2:
        ours, theirs = samples.values()
        pairs = (
            zip(theirs, ours, strict=True)
            if line.more_is_better
            else zip(ours, theirs, strict=True)
        )
        ratio = spread([more / less for more, less in pairs])
        document |= {"ratio": ratio, "slower": ratio["min"] > SLOWER}
    return document


def in_words(document: Document) -> str:
    """A line of the table."""
    releases = cast("dict[str, dict[str, float]]", document["releases"])
    words = [f"{label} {shown(numbers, '.3g')}" for label, numbers in releases.items()]
    if "ratio" in document:
        words.append(
            f"time now / before {shown(cast('dict[str, float]', document['ratio']), '.2f')}"
        )
    return ", ".join(words) + (", SLOWER" if document.get("slower") else "")


def main(script: str, lines: Mapping[str, Line], *, gpu: bool = False, repeats: int = 5) -> None:
    """The command line of a benchmark that is a list of lines."""
    parser = argparse.ArgumentParser(prog=script)
    parser.add_argument("--only", help=f"comma-separated, of {', '.join(lines)}")
    parser.add_argument("--against", type=Path, help="an earlier release: a wheel, or a folder")
    parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument("--out", type=Path, help="write all numbers as JSON, line by line")
    asked = parser.parse_args()
    names = asked.only.split(",") if asked.only else list(lines)
    if unknown := set(names) - set(lines):
        parser.error(f"no line {','.join(sorted(unknown))}: need some of {', '.join(lines)}")
    releases = [this_checkout(), *([earlier(asked.against)] if asked.against else [])]
    found: dict[str, Document] = {}
    document = heading(script, gpu=gpu) | {"repeats": asked.repeats, "lines": found}
    for name in names:
        line = lines[name]
        try:
            found[name] = summary(in_turns(releases, line, asked.repeats), line)
            print(f"{name:28} {in_words(found[name])}", flush=True)
        except Missing as reason:  # the other lines go on
            found[name] = {"what": line.what, "missing": str(reason)}
            print(f"{name:28} missing: {reason}", flush=True)
        if asked.out:
            write(asked.out, document)
