"""Where the time of a whole command goes: imports, CUDA, data, plans, updates, records, ...

    python benchmarks/phases.py [--repeats 3] [--against DIR] [--out phases.json] \\
        run --dataset mnist --horizon 200

Runs `favano` with these words in a process of its own, with an empty folder for its results. There
a thread looks at the main thread every few milliseconds: time counts for the innermost function
that the table below names, imports for the package that is imported. What is not named counts for
the innermost function of favano; `start and exit` is what passes outside of the command. `gap` is
the longest time between two looks: while a library holds Python's lock nobody can look, and such a
time counts for what comes next. `--against` takes turns with another checkout and adds the ratio of
both.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter
from types import FrameType
from typing import Any, NamedTuple, cast

from measurement import call, heading, last_document, shown, spread, write

_PERIOD = 0.002  # seconds between two looks
_SHOWN = 0.02  # seconds; shorter phases are not printed
_IMPORTS = ("<frozen importlib._bootstrap>", "_find_and_load")
_NAMED = ("torch", "triton", "scipy", "numpy", "rich", "typer", "favano", "pydantic")
# By the end of the file's path, and functions of it; no function: all of the file.
PHASES: dict[str, Sequence[tuple[str, Sequence[str]]]] = {
    "CUDA": [
        ("torch/cuda/__init__.py", ("_lazy_init", "is_available", "device_count")),
        ("torch/cuda/memory.py", ()),
    ],
    "data": [("run/samples.py", ("samples_of",)), ("run/data.py", ()), ("run/data_digest.py", ())],
    "split": [("data/partition.py", ()), ("run/samples.py", ("make_task",))],
    "plans": [("planning/planned.py", ()), ("schedule/plan.py", ())],
    "checks": [("preflight/task.py", ()), ("preflight/metrics.py", ()), ("run/fitting.py", ())],
    "compile": [("gpu_kernels/compilation.py", ()), ("triton/compiler/compiler.py", ("compile",))],
    "probe": [("training/lane_capacity.py", ())],
    "capture": [("training/cuda_graphs.py", ("_capture", "_captured"))],
    "evaluations": [("metrics/evaluation.py", ()), ("engine/recorder.py", ())],
    "waits for lanes": [
        ("training/stack_lanes.py", ("collect",)),
        ("worker_lanes.py", ("collect",)),
    ],
    "programs are listed": [
        ("engine/program.py", ()),
        ("engine/held_models.py", ()),
        ("engine/wave_table.py", ()),
    ],
    "updates": [
        ("engine/engine.py", ()),
        ("engine/plain_loop.py", ()),
        ("engine/wave_engine.py", ()),
    ],
    "audits": [("planning/audit.py", ("audit",)), ("engine/audit.py", ())],
    "participation": [("planning/participation.py", ()), ("run/client_scores.py", ())],
    "runs are set up": [("run/seed_run.py", ("__init__",)), ("training/gradient_trace.py", ())],
    "records": [
        ("results/result.py", ()),
        ("results/reading.py", ()),
        ("run/checkpoints.py", ()),
        ("studies/archive.py", ()),
        ("run/folder_lock.py", ()),
    ],
    "report": [
        ("report/page.py", ()),
        ("report/reproduction.py", ()),
        ("report/final_tables.py", ()),
    ],
    "command line": [
        ("typer/main.py", ("get_command",)),
        ("click/core.py", ("make_context",)),
        ("cli/flags.py", ("with_spec_flags",)),
    ],
}


class Watch:
    """Looks at the main thread, and adds up what it does."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.longest = 0.0
        self._main, self._over = threading.main_thread().ident, threading.Event()
        self._known: dict[tuple[str, str], str | None] = {}
        found = find_spec("favano")  # which does not import it
        assert found is not None
        assert found.origin is not None
        self._package = f"{Path(found.origin).parent}/"
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._last = perf_counter()
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        assert self._main is not None
        while not self._over.wait(_PERIOD):
            phase, now = self._phase(sys._current_frames().get(self._main)), perf_counter()
            self.seconds[phase] += now - self._last
            self.longest, self._last = max(self.longest, now - self._last), now

    def _phase(self, frame: FrameType | None) -> str:
        """What the innermost named function does; an import counts for the package we import."""
        imported = innermost = None
        while frame is not None:
            place = frame.f_code.co_filename, frame.f_code.co_name
            if place == _IMPORTS:
                package = str(frame.f_locals.get("name")).partition(".")[0]
                imported = package if imported is None or package != "favano" else imported
            elif imported is None and (phase := self._of(place)) is not None:
                return phase
            if innermost is None and place[0].startswith(self._package):
                innermost = f"{place[0].removeprefix(self._package)}:{place[1]}"
            frame = frame.f_back
        if imported is not None:
            return f"import {imported if imported in _NAMED else 'others'}"
        return innermost or "other"

    def _of(self, place: tuple[str, str]) -> str | None:
        """The phase of a function."""
        if place not in self._known:
            file, function = place
            self._known[place] = next(
                (
                    phase
                    for phase, parts in PHASES.items()
                    for end, functions in parts
                    if file.endswith(f"/{end}") and (not functions or function in functions)
                ),
                None,
            )
        return self._known[place]


def watched(words: list[str]) -> None:
    """Run a command here, and print its phases last, unless it fails."""
    watch, began = Watch(), perf_counter()
    sys.argv, code = ["favano", *words], None
    try:
        from favano.cli import main as favano

        favano()
    except SystemExit as end:
        if end.code not in (None, 0, 1):  # 1: a run diverged
            raise
        code = end.code
    watch.end()
    inside = perf_counter() - began
    phases = {"exit": code or 0, "inside": inside, "gap": watch.longest, "phases": watch.seconds}
    sys.stdout.write("\n" + json.dumps(phases) + "\n")
    sys.stdout.flush()
    os._exit(0)  # as the program does


class Sample(NamedTuple):
    """One call of a command."""

    seconds: float  # from start to end
    code: int  # exit code
    gap: float  # the longest time in which nobody looked
    phases: dict[str, float]  # seconds


def measured(words: list[str], source: Path) -> Sample:
    """A command in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = {"PYTHONPATH": os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")])}
        began = perf_counter()
        command = [sys.executable, __file__, "--watched", *words, "--out", folder]
        document = last_document(call(command, None, path))
        seconds = perf_counter() - began
    code, inside, gap, phases = (cast(Any, value) for value in document.values())
    return Sample(seconds, code, gap, {**phases, "start and exit": seconds - inside})


def in_turns(words: list[str], sources: Sequence[Path], repeats: int) -> list[list[Sample]]:
    """Samples of each checkout."""
    samples: list[list[Sample]] = [[] for _ in sources]
    for _ in range(repeats):
        for mine, source in zip(samples, sources, strict=True):
            mine.append(measured(words, source))
    return samples


def print_phases(samples: Sequence[Sample]) -> None:
    """The phases of a checkout, the longest first."""
    names = set().union(*(sample.phases for sample in samples))
    table = {name: [sample.phases.get(name, 0.0) for sample in samples] for name in names}
    for name, seconds in sorted(table.items(), key=lambda pair: -median(pair[1])):
        if median(seconds) >= _SHOWN:
            print(f"  {name:20} {shown(spread(seconds), '.2f')}")


def main() -> None:
    if "--watched" in sys.argv[:2]:
        watched(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--against", type=Path, help="root of another checkout")
    parser.add_argument("--out", type=Path)
    parser.add_argument("words", nargs=argparse.REMAINDER, help="of the command")
    asked = parser.parse_args()
    roots = [Path(__file__).parent.parent, *([asked.against] if asked.against else [])]
    samples = in_turns(asked.words, [root / "src" for root in roots], asked.repeats)
    for name, mine in zip(["here", "there"], samples, strict=False):
        codes = ", ".join(f"exit code {code}" for code in {sample.code for sample in mine} - {0})
        print(f"{name}: {shown(spread([sample.seconds for sample in mine]), '.2f')} s {codes}")
        print_phases(mine)
    kept = [[sample._asdict() for sample in mine] for mine in samples]
    document = heading("phases.py", gpu="cuda" in asked.words) | {"samples": kept}
    if asked.against:
        ratio = spread([a.seconds / b.seconds for a, b in zip(*samples, strict=True)])
        print(f"here / there: {shown(ratio, '.2f')}")
        document["ratio"] = ratio
    if asked.out:
        write(asked.out, document)


if __name__ == "__main__":
    main()
