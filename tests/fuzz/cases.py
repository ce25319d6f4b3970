"""Cases in a process of their own: `python -m tests.fuzz.cases SAMPLES FIRST COUNT KIND...`.

A case that hangs, or that asks for very much memory, ends the process. Standard output has one JSON
line for each case that went wrong, and ends with the line `done`.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import sys
import traceback
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from favano.errors import BadInput
from tests.fuzz.command_lines import LINES, command_line
from tests.fuzz.damage import damage, fresh_copy
from tests.fuzz.kinds import KINDS, command

_MEMORY = 4 << 30  # bytes that cases may use beyond what Python has at the start
_LONGEST = float(os.environ.get("FUZZ_LONGEST", "300"))  # seconds; far more than any case takes
_MOST = 2000  # characters of a message


def problem_of(read: Callable[[], object], named: str, place: Path) -> str:
    """What is wrong with the way in which a file is read; nothing if it is used or refused."""
    before = _listing(place)
    try:
        read()
    except BadInput as error:
        said = str(error)
        if len(said.splitlines()) != 1 or not said.isprintable():
            return f"not one line: {said[:300]!r}"
        if len(said) > _MOST:
            return f"a line of {len(said)} characters: {said[:300]}"
        if named not in said:
            return f"does not name {named}: {said}"
        if left := _listing(place) ^ before:
            return f"left {sorted(left)}: {said}"
    except BaseException:
        return "\n".join(line[:200] for line in traceback.format_exc(limit=-4).splitlines())
    return ""


def _listing(place: Path) -> set[tuple[str, int]]:
    return {
        (str(path.relative_to(place)), path.stat().st_size)
        for path in place.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def run_case(samples: Path, name: str, number: int, place: Path) -> str:
    """Damage a fresh copy of the file, and read it; case 0 is the file as it should be."""
    random = Random(f"{name} {number}")
    if name == LINES:
        fresh_copy(samples / "specification", place / "lines")
        os.chdir(place / "lines")
        return problem_of(lambda: command(*command_line(random)), "", place / "lines")
    kind = KINDS[name]
    work = place / kind.folder
    fresh_copy(samples / kind.folder, work)
    os.chdir(work)
    path = random.choice(sorted(place.glob(kind.file)))
    if number == 0:
        kind.read(path)
        return ""
    damage(path, random)
    return problem_of(
        lambda: kind.read(path), path.name if kind.named is None else kind.named, work
    )


def main(samples: Path, first: int, count: int, names: list[str]) -> None:
    """Run cases one after the other."""
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", "'click", DeprecationWarning)  # of Typer's own imports
    os.environ["FUZZ_SAMPLES"] = str(samples)
    with TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY,) * 2)
        for name, number in product(names, range(first, first + count)):
            faulthandler.dump_traceback_later(_LONGEST, exit=True)
            print(json.dumps({"begins": name, "case": number}), flush=True)
            if problem := run_case(samples, name, number, Path(folder)):
                print(json.dumps({"kind": name, "case": number, "problem": problem}), flush=True)
        faulthandler.cancel_dump_traceback_later()
        os.chdir("/")
    print("done", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
