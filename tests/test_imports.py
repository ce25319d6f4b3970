"""Imports go one way. Reads the source and fails on a wrong arrow."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "favano"

# What each package may import, itself aside. `favano` itself is the version and lazy names.
ALLOWED = {
    "types": set(),
    "errors": set(),
    "rng": {"types"},
    "timing": {"types", "errors", "rng"},
    "schedule": {"types", "errors", "rng", "timing"},
    "theory": {"types", "errors", "rng", "timing", "schedule"},
    "algorithms": {"types", "errors", "schedule"},
    "data": {"types", "errors", "rng"},
    "models": {"types", "errors"},
    "quantisation": {"types", "errors", "rng"},
    "training": {"types", "errors", "rng", "data", "models", "quantisation"},
    "metrics": {"types", "errors", "training"},
    "engine": {
        "types", "errors", "rng", "timing", "schedule", "algorithms", "quantisation", "training",
        "metrics",
    },
    "experiments": {
        "types", "errors", "rng", "timing", "schedule", "theory", "algorithms", "data", "models",
        "quantisation", "training", "metrics", "engine",
    },
    "report": {"types", "errors", "metrics"},
    "cli": {
        "types", "errors", "timing", "schedule", "theory", "algorithms", "metrics", "engine",
        "experiments", "report",
    },
}  # fmt: skip


def imported(path: Path) -> set[str]:
    """Packages of ours that a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{name.name}" for name in node.names]
        elif isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "favano" and len(parts) > 1 and parts[1] in ALLOWED:
                found.add(parts[1])
    return found


def test_every_arrow_is_allowed() -> None:
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        package = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if package in ("__init__", "__main__"):
            continue
        assert package in ALLOWED, f"{package}: say in this test what it may import"
        wrong += [
            f"{path.relative_to(SOURCE)} imports {other}"
            for other in imported(path) - ALLOWED[package] - {package}
        ]
    assert not wrong


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
    assert loaded("favano.theory", {"torch", "pydantic", "rich"}) == ""


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
)
def test_what_trains_nothing_does_not_load_torch(arguments: list[str], code: int) -> None:
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
