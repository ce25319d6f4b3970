"""Imports go one way. Reads the source and fails on a wrong arrow."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Collection
from graphlib import TopologicalSorter
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from favano.records import (
    Participation,
    Row,
    Summary,
    history_to_csv,
    participation_to_json,
    run_record,
    summary_to_json,
    write_together,
)
from favano.records.folder import HISTORY, PARTICIPATION, SPEC, SUMMARY
from favano.records.participation import Listed, Speed, Staleness

SOURCE = Path(__file__).parent.parent / "src" / "favano"

# What each package may import, itself aside. `favano` itself is the version and lazy names.
ALLOWED = {
    "types": set(),
    "errors": set(),
    "notices": set(),
    "page_server": set(),
    "code_digest": {"notices"},
    "file_sizes": {"errors"},
    "notebook": {"types"},
    "forked_calls": {"errors"},
    "rng": {"types"},
    "options": {"errors"},
    "screening": {"types", "errors"},
    "records": {"types", "errors", "file_sizes"},
    "timing": {"types", "errors", "file_sizes", "rng"},
    "user_classes": {"errors", "notices", "code_digest", "options"},
    "policies": {"types", "errors", "options", "rng", "user_classes"},
    "schedule": {"types", "errors", "file_sizes", "rng", "timing", "policies"},
    "theory": {"types", "errors", "rng", "timing", "policies", "schedule"},
    "methods": {
        "types", "errors", "options", "user_classes", "timing", "policies", "schedule", "theory",
    },
    "transforms": {"types", "errors", "options", "user_classes", "methods"},
    "data": {"types", "errors", "notices", "file_sizes", "rng"},
    "models": {"types", "errors"},
    "quantisation": {"types", "errors", "rng"},
    "training": {
        "types", "errors", "notices", "rng", "code_digest", "screening", "data", "models",
        "quantisation",
    },
    "metrics": {"types", "errors", "records", "models", "training"},
    "preflight": {
        "types", "errors", "methods", "quantisation", "training", "metrics",
    },
    "specification": {
        "types", "errors", "file_sizes", "options", "user_classes", "records", "timing", "policies",
        "methods", "transforms", "data", "quantisation", "training", "notebook",
    },
    "aggregation": {
        "preflight",
        "types", "errors", "user_classes", "rng", "records", "policies",
        "schedule", "methods", "transforms", "quantisation",
        "training",
    },
    "engine": {
        "types", "errors", "rng", "user_classes", "timing", "schedule", "methods", "quantisation",
        "training", "records", "aggregation", "screening",
    },
    "planning": {
        "preflight", "forked_calls",
        "types", "errors", "user_classes", "options", "records", "timing", "policies",
        "schedule", "theory", "methods", "data",
        "quantisation", "specification", "engine", "training", "notebook", "report",
    },
    "report": {"types", "errors", "page_server", "notebook", "records", "methods", "specification"},
    "results": {
        "errors", "user_classes", "records", "policies", "methods", "training", "specification",
        "report", "data", "models",
    },
    "run": {
        "preflight", "forked_calls",
        "types", "errors", "rng", "code_digest", "notices", "options", "user_classes", "records",
        "timing", "policies", "schedule", "theory", "methods", "data", "models", "quantisation",
        "training", "metrics", "specification", "aggregation", "engine", "planning", "results",
        "transforms", "report",
    },
    "flower": {
        "preflight",
        "types", "errors", "page_server", "user_classes", "rng", "screening", "records", "timing",
        "policies",
        "schedule", "theory", "methods",
        "data", "quantisation", "training", "metrics", "specification", "aggregation", "run",
        "planning", "transforms",
    },
    "cluster": {
        "types", "errors", "notices", "options", "code_digest", "user_classes", "records",
        "methods", "data",
        "training", "metrics", "specification",
        "planning", "results", "run", "forked_calls",
    },
    "studies": {
        "types", "errors", "notices", "options", "records", "timing", "policies",
        "schedule", "theory", "methods", "data",
        "quantisation", "training", "specification", "engine", "planning", "results", "run",
        "forked_calls",
    },
    "cli": {
        "types", "errors", "code_digest", "notices", "options", "user_classes", "records",
        "policies", "schedule", "theory", "methods", "transforms", "quantisation", "specification",
        "planning", "run", "flower", "studies", "report", "results", "cluster",
    },
}  # fmt: skip


def modules() -> dict[str, Path]:
    """Our modules by their names; a package has the name of its folder."""
    paths = {path.relative_to(SOURCE.parent).with_suffix(""): path for path in SOURCE.rglob("*.py")}
    return {".".join(name.parts).removesuffix(".__init__"): path for name, path in paths.items()}


def imported(path: Path, known: Collection[str], *, types: bool = True) -> set[str]:
    """Modules of ours that a file imports, wherever in the file; `types`: also for types alone."""
    names, nodes = set(), list(ast.walk(ast.parse(path.read_text())))
    checked = [
        node for node in nodes if isinstance(node, ast.If) and "TYPE_" in ast.dump(node.test)
    ]
    unread = {inner for node in checked for part in node.body for inner in ast.walk(part)}
    for node in nodes:
        if node in unread and not types:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in known else node.module for name in inner}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names & set(known)


def test_every_arrow_is_allowed() -> None:
    wrong, known = [], modules()
    for name, path in known.items():
        room = f"{name}.".split(".")[1]
        if room in ("", "__main__"):
            continue
        assert room in ALLOWED, f"{room}: say in this test what it may import"
        others = {f"{other}.".split(".")[1] for other in imported(path, known)} - {"", room}
        wrong += [f"{name} imports {other}" for other in others - ALLOWED[room]]
    assert not wrong


def test_no_module_imports_the_package_that_it_is_in() -> None:
    """A package imports its modules, so that would be a circle; `favano` has the version."""
    known = modules()
    upward = [
        f"{name} imports {other}"
        for name, path in known.items()
        for other in imported(path, known)
        if other != "favano" and name.startswith(f"{other}.")
    ]
    assert not upward


def test_no_circles() -> None:
    """Not even of imports that wait until they are needed; names of types aside."""
    inner = {name: path for name, path in modules().items() if name != "favano"}
    arrows = {name: imported(path, inner, types=False) for name, path in inner.items()}
    TopologicalSorter(arrows).prepare()  # raises CycleError with the modules of a circle


# Data flow down this list: a room imports from rooms above its own. `root` are modules in no room;
# `last` are the names of `import favano`.
ORDER = [
    {"root"}, {"options", "specification"}, {"fleet", "timing"}, {"policies"}, {"schedule"},
    {"theory"}, {"problem", "data", "models", "metrics"}, {"methods", "transforms"},
    {"training", "quantisation"}, {"engine", "aggregation"}, {"planning"}, {"results", "records"},
    {"run", "preflight"}, {"report"}, {"reproduce", "studies"}, {"flower"}, {"cluster"}, {"cli"},
    {"last"},
]  # fmt: skip


def statements(path: Path) -> list[str]:
    """What each import of ours names, also for types alone and inside of functions."""
    return [
        node.module
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("favano")
    ]


@pytest.mark.parametrize(
    ("what", "most"),
    [
        ("files in a circle of imports", 32),
        ("pairs of rooms against the order", 18),
        ("imports against the order", 68),
        ("imports past the front door of a room", 632),
    ],
)
def test_the_house_only_gets_tidier(what: str, most: int) -> None:
    """None of these numbers may rise; whoever lowers one writes the new number here.

    Of circles, `import favano` in `errors`, for types, is left out: it closes one of most files.
    """
    known = modules()
    rooms = {path.parent.name for name, path in known.items() if path.name == "__init__.py"} - {
        "favano"
    }
    place = {room: number for number, some in enumerate(ORDER) for room in some}

    def room_of(name: str) -> str:
        first = f"{name}..".split(".")[1]
        return first if first in rooms else "last" if first in ("", "__main__") else "root"

    between = [
        (room_of(name), room_of(target), target)
        for name, path in known.items()
        for target in statements(path)
        if room_of(target) not in ("root", "last", room_of(name))
    ]
    back = [(here, there) for here, there, _ in between if place[there] > place[here]]
    names = sorted(known)
    arrows = np.zeros((len(names), len(names)))
    for name, path in known.items():
        met = imported(path, known) - ({"favano"} if name == "favano.errors" else set())
        arrows[names.index(name), [names.index(other) for other in met]] = 1
    _, group = connected_components(arrows, connection="strong")
    counted = {
        "files in a circle of imports": int((np.bincount(group)[group] > 1).sum()),
        "pairs of rooms against the order": len(set(back)),
        "imports against the order": len(back),
        "imports past the front door of a room": sum(
            target.count(".") > 1 for *_, target in between
        ),
    }
    assert counted[what] == most, f"{what}: {counted[what]}, {most} before"


def test_ray_is_for_clusters_alone() -> None:
    outside = [path for path in SOURCE.rglob("*.py") if path.parent.name != "cluster"]
    names = {
        name for path in outside for name in re.findall(r"(?:import|from) (\w+)", path.read_text())
    }
    assert "ray" not in names
    assert "ray" in re.findall(r"import (\w+)", (SOURCE / "cluster/ray_cluster.py").read_text())


def loaded(modules: str, heavy: set[str]) -> str:
    """Which of the heavy packages a fresh interpreter has after importing these modules."""
    program = f"import sys, {modules}; print(*sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_importing_favano_is_light() -> None:
    heavy = {
        "torch",
        "numpy",
        "scipy",
        "pydantic",
        "sklearn",
        "datasets",
        "rich",
        "typer",
    }
    assert loaded("favano", heavy) == ""


def test_the_schedule_half_needs_numpy_only() -> None:
    assert loaded("favano.schedule, favano.timing", {"torch", "scipy", "pydantic"}) == ""
    assert loaded("favano.schedule", {"numpy"}) == "numpy"


def test_theory_needs_no_more_than_numpy_and_scipy() -> None:
    parts = [f"favano.theory.{path.stem}" for path in (SOURCE / "theory").glob("[!_]*.py")]
    assert loaded(", ".join(parts), {"torch", "pydantic", "rich"}) == ""


def test_help_does_not_load_scipy() -> None:
    assert loaded("favano.cli.app", {"torch", "scipy", "sklearn", "matplotlib"}) == ""


def test_a_run_loads_no_more_of_scipy_than_its_weights_need(tmp_path: Path) -> None:
    heavy = {
        "scipy.stats", "scipy.sparse", "scipy.fft", "scipy.optimize", "pandas", "matplotlib",
        "sklearn", "torch._dynamo", "torch._inductor", "triton", "flwr", "ray",
    }  # fmt: skip
    words = ["favano", "run", "--horizon", "60", "--out", str(tmp_path)]
    program = (
        f"import sys; sys.argv = {words!r}; from favano.cli import main\n"
        "try: main()\n"
        f"finally: print(*sorted({heavy!r} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "Results:" in done.stdout
    assert done.stderr.splitlines()[-1] == ""


def test_reading_files_needs_neither_torch_nor_scipy() -> None:
    assert loaded("favano.records", {"torch", "numpy", "scipy", "matplotlib", "rich"}) == ""
    assert loaded("favano.report", {"torch", "scipy", "matplotlib"}) == ""
    everything = [f"favano.report.{path.stem}" for path in (SOURCE / "report").glob("[!_]*.py")]
    assert loaded(", ".join(everything), {"torch", "scipy", "matplotlib"}) == ""


def test_the_report_reads_files_through_records_alone() -> None:
    """The page's own style and script aside, which are part of the package."""
    opened = [
        f"{path.name}:{node.lineno}"
        for path in (SOURCE / "report").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in ("open", "read_text", "read_bytes")
    ]
    assert [place.partition(":")[0] for place in opened] == ["page.py"]


@pytest.mark.quick("compare*", "theory*")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--help"], 0),
        (["--version"], 0),
        (["run", "--help"], 0),
        (["run", "--colour", "red"], 2),
        (["run", "--algorithm", "fedavg", "--mixing", "0.3"], 2),
        (["compare", "--algorithms", "favano,fedavg", "--mixing", "0.3"], 2),
        (["reproduce", "table-3"], 2),
        (["plan", "--clients", "8", "--selected", "2", "--horizon", "200"], 0),
        (["plan", "--algorithm", "scaffold", "--clients", "8", "--selected", "2"], 0),
        (["plan", "--algorithm", "quafl", "--no-client-averaging", "--horizon", "200"], 0),
        (["plan", "--algorithm", "fedavg", "--sample-weights", "--json"], 0),
        (["theory", "steps"], 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_what_trains_nothing_does_not_load_torch(arguments: list[str], code: int) -> None:
    call_without_torch(arguments, code)


def test_drawing_a_page_does_not_load_torch(tmp_path: Path) -> None:
    """Of a result folder with every file that a page reads."""
    row = Row(0, 10.0, 1, 5, 64, 64, 0.5, {"accuracy": 0.75}, 2.0, 1.0, 5)
    clients = Listed((0,), (0,), (1,), (5,), (0.0,), (1.0,))
    staleness = Staleness(width=1, counts=((1,),), mean=0.0, median=0.0, most=0)
    who = Participation(0, 1, (Speed("fast", 1, 1, 5, 1.0),), clients, staleness)
    summary = Summary(status="complete", runs=(run_record("favano", row, "complete"),))
    contents = {
        SPEC: '[[method]]\nname = "favano"\n[run]\nhorizon = 10.0\nseeds = 1\n',
        HISTORY: history_to_csv([row]),
        SUMMARY: summary_to_json(summary),
        PARTICIPATION: participation_to_json(who),
    }
    write_together(tmp_path / "favano", contents)
    page = tmp_path / "page.html"
    call_without_torch(["report", str(tmp_path), "--out", str(page)], 0)
    assert "FAVANO" in page.read_text(encoding="utf-8")


def call_without_torch(arguments: list[str], code: int) -> None:
    """Call the program in a process of its own, and see that it has not loaded PyTorch."""
    program = (
        "import sys\n"
        "from favano.cli import main\n"
        f"sys.argv[1:] = {arguments!r}\n"
        "try:\n    main()\n"
        "except SystemExit as end:\n    assert (end.code or 0) == " + str(code) + ", end.code\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
