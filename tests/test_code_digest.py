"""Digests of functions and classes: what changes them, and what does not."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from favano.code_digest import code_digest, file_digest
from tests.cells import run_cell

START = """
import torch
from dataclasses import dataclass
from functools import partial
from torch import nn
from torch.nn import functional
WEIGHT, LOG, SCALE = torch.tensor([1.0, 2.0]), [], 2.0
def helper(x): return x * 2
"""
FUNCTIONS = {  # a function, and one that differs in what it does
    "constant": ("f = lambda o, t: 0.5 * (o - t)", "f = lambda o, t: 0.4 * (o - t)"),
    "name": (
        "f = lambda o, t: functional.l1_loss(o, t)",
        "f = lambda o, t: functional.mse_loss(o, t)",
    ),
    "closure": (
        "f = (lambda w: lambda o, t: w * o)(1.0)",
        "f = (lambda w: lambda o, t: w * o)(0.1)",
    ),
    "default": ("def f(o, t, w=1.0): return w * o", "def f(o, t, w=0.1): return w * o"),
    "keyword": ("def f(o, t, *, w=1.0): return w * o", "def f(o, t, *, w=0.1): return w * o"),
    "partial": (
        "f = partial(functional.huber_loss, delta=1.0)",
        "f = partial(functional.huber_loss, delta=2.0)",
    ),
    "number": ("def f(o, t): return SCALE * o", "SCALE = 3.0\ndef f(o, t): return SCALE * o"),
    "tensor": (
        "def f(o, t): return WEIGHT * o",
        "WEIGHT = WEIGHT * 2\ndef f(o, t): return WEIGHT * o",
    ),
    "helper": (
        "def f(o, t): return helper(o)",
        "def helper(x): return x * 3\ndef f(o, t): return helper(o)",
    ),
    "inner": (
        "def f(o, t): return [helper(x) for x in o]",
        "def helper(x): return -x\ndef f(o, t): return [helper(x) for x in o]",
    ),
    "set": ("def f(o, t): return o in {1, 2, 'a'}", "def f(o, t): return o in {1, 2, 'b'}"),
    "module": ("f = nn.MSELoss()", "f = nn.MSELoss(reduction='sum')"),
    "buffer": (
        "f = nn.CrossEntropyLoss(weight=WEIGHT)",
        "f = nn.CrossEntropyLoss(weight=2 * WEIGHT)",
    ),
    "method": (
        "class f:\n def forward(self, x): return x.relu()",
        "class f:\n def forward(self, x): return x.tanh()",
    ),
    "value": ("class f:\n rate = 1.0", "class f:\n rate = 0.1"),
    "base": (
        "class b:\n def g(self): return 1\nclass f(b): pass",
        "class b:\n def g(self): return 2\nclass f(b): pass",
    ),
    "property": (
        "class f:\n @property\n def g(self): return 1",
        "class f:\n @property\n def g(self): return 2",
    ),
}


def made(source: str, *, optimise: int = 0) -> object:
    """What `f` is after this source, in a module of its own, as in a notebook."""
    space: dict[str, object] = {"__name__": "__main__"}
    run_cell(START + source, space, optimise=optimise)
    return space["f"]


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_what_it_does_counts(kind: str) -> None:
    code, other = FUNCTIONS[kind]
    assert code_digest(made(code)) == code_digest(made(code)) != code_digest(made(other))


def test_what_changes_while_it_is_used_does_not_count() -> None:
    given = made("def f(o, t):\n LOG.append(1)\n return helper(o)")
    before = code_digest(given)
    given(1, 2)  # type: ignore[operator]
    assert code_digest(given) == before


def test_globals_with_the_name_of_an_attribute_do_not_count() -> None:
    function, other = (made(f"mean = {mean}\ndef f(o, t): return o.mean()") for mean in (1.0, 2.0))
    assert code_digest(function) == code_digest(other)


@pytest.mark.parametrize(
    "text",
    [
        "def f(o, t):\n 'Half of it.'\n assert t\n return helper(o) / 2",
        "@dataclass\nclass f:\n 'Half.'\n w: float = 2.0\n def g(self): return __debug__ or 2",
    ],
)
def test_what_python_makes_of_it_does_not_count(text: str) -> None:
    """Another version makes other bytecode, as an optimised one does."""
    assert code_digest(made(text)) == code_digest(made(text, optimise=2))
    assert code_digest(made(text)) != code_digest(made(text.replace("2", "3")))


def test_lambdas_of_one_line_differ() -> None:
    """Python finds no more than the line."""
    first, second = (made(f"f = [lambda o: 1, lambda o: 2][{number}]") for number in (0, 1))
    pair = "f = (lambda o: 1, lambda o: 2)"
    both: Any = made(pair)
    assert len({code_digest(given) for given in (first, second, *both)}) == 4


@pytest.mark.parametrize("place", ["-c", "-"])
def test_code_without_a_source_is_known_by_its_name_and_said_to_be(place: str) -> None:
    program = """
from favano.code_digest import code_digest
class Net:
    def forward(self, x): return x
def f(x): return Net().forward(x) * {}
print(code_digest(f))
"""
    done = [
        subprocess.run(
            [sys.executable, place, *([text] if place == "-c" else [])],
            input=text, check=True, capture_output=True, text=True,
        )
        for text in map(program.format, (2, 3))
    ]  # fmt: skip
    if sys.version_info < (3, 13):  # which keeps the text of -c
        assert done[0].stdout == done[1].stdout
        name = "<string>" if place == "-c" else "<stdin>"
        for process in done:
            assert process.stderr.startswith(f"favano: code from {name} has no source to compare")
            assert process.stderr.count("\n") == 1


def test_functions_that_name_each_other_end() -> None:
    function = made("def f(o, t): return g(o, t)\ndef g(o, t): return f(o, t) if o else 1")
    other = made("def f(o, t): return g(o, t)\ndef g(o, t): return f(o, t) if o else 2")
    assert code_digest(function) != code_digest(other)


def test_installed_packages_are_known_by_name() -> None:
    assert code_digest(functional.mse_loss) != code_digest(functional.l1_loss)
    assert code_digest(nn.Linear) != code_digest(nn.Conv2d)
    assert code_digest(torch.exp) != code_digest(torch.log)
    assert code_digest(partial(functional.mse_loss, reduction="sum")) != code_digest(
        functional.mse_loss
    )


@pytest.mark.parametrize(
    "number", [torch.tensor(2.0), torch.ones(2, dtype=torch.bfloat16), np.ones(3)]
)
def test_numbers_of_any_kind(number: torch.Tensor | np.ndarray) -> None:
    assert code_digest(number) == code_digest(number + 0) != code_digest(number + 1)


def test_a_file_and_those_beside_it_that_it_imports(tmp_path: Path) -> None:
    path = tmp_path / "method.py"
    contents = {
        "method": "import torch, one\ndef f():\n from two.parts import x",
        "one": "from . import three\nimport method",
        "two/__init__": "",
        "three": "GAIN = 1.0",
        "other": "",
        "torch": "",  # it would be imported instead of the package
    }
    (tmp_path / "two").mkdir()
    for name, content in contents.items():
        (tmp_path / f"{name}.py").write_text(content)
    digest = file_digest(path)
    for name, counts in {name: name != "other" for name in contents}.items():
        changed = tmp_path / f"{name}.py"
        changed.write_text(contents[name] + "\n# changed")
        assert (file_digest(path) != digest) == counts, name
        changed.write_text(contents[name])
    assert file_digest(path) == digest
    path.write_text("no Python")
    assert file_digest(path) == hashlib.sha256(b"no Python").hexdigest()
    assert file_digest(Path(pytest.__file__)) == (
        hashlib.sha256(Path(pytest.__file__).read_bytes()).hexdigest()
    )


def test_another_process_finds_the_same(tmp_path: Path) -> None:
    """Whatever the seed of Python's hashes, and wherever the file lies."""
    text = "\nfrom favano.code_digest import code_digest\nprint(code_digest(f))"
    digests = set()
    for seed in ("1", "2"):
        file = tmp_path / f"program_{seed}.py"
        file.write_text(START + "SOME = frozenset('abc')\ndef f(o, t): return o in SOME" + text)
        command = [sys.executable, str(file)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        digests.add(done.stdout)
    assert len(digests) == 1
