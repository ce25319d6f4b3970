"""Methods by name: ours, those in files, and those of installed packages."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import favano.methods
from favano import user_classes
from favano.errors import BadInput
from favano.methods import (
    Method,
    all_methods,
    make_method,
    method_class,
    our_methods,
    registry,
)
from favano.methods.fedavg import FedAvg
from favano.user_classes import is_ours, source_digest
from tests.methods.bound import any_method

SOURCE = '''"""Half: a step half as long (Nobody 2000)."""

from favano import ClientUpdates, Method, ModelState, option


class Half(Method[ModelState]):
    """The mean of the clients and the server."""

    part: float = option(0.5, "how far the server goes")

    def policy(self):
        return self.context.rounds()

    def aggregate(self, state, updates):
        return ModelState(state.model + self.part * (updates.end.mean(0) - state.model))
'''


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """What a test finds is forgotten after it."""
    modules, path = set(sys.modules), list(sys.path)
    yield
    for cached in (our_methods, registry.installed_methods, user_classes._load):
        cached.cache_clear()
    for name in set(sys.modules) - modules:
        del sys.modules[name]
    sys.path[:] = path


def written(folder: Path, name: str, text: str = SOURCE) -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    (folder / name).write_text(text)
    return folder / name


def test_ours_are_in_the_order_of_their_colours() -> None:
    looks = [method.plot_style for method in our_methods().values()]
    assert looks == list(range(len(looks)))
    assert list(our_methods())[:4] == ["favano", "fedavg", "quafl", "fedbuff"]
    assert all(name == method.name for name, method in our_methods().items())
    assert method_class("fedavg") is FedAvg
    assert is_ours(FedAvg)


def test_one_file_beside_the_others_is_all_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After ours, which have a place of their own."""
    before = list(our_methods())
    written(tmp_path, "half.py")
    monkeypatch.setattr(favano.methods, "__path__", [*favano.methods.__path__, str(tmp_path)])
    monkeypatch.setattr(favano.methods, "half", None, raising=False)  # taken back afterwards
    our_methods.cache_clear()
    assert list(our_methods()) == [*before, "half"]
    made = make_method("half", {"part": "0.25"})
    assert made.given == {"part": 0.25}
    assert is_ours(made)
    assert source_digest(made) is None


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    """By its path, with or without the name of the class; its contents belong to the digest."""
    place = written(tmp_path, "mine.py")
    half = method_class(f"{place}:Half")
    assert (half.name, half.title, half.__name__) == ("half", "Half", "Half")
    assert half.import_path == f"{place}:Half"
    assert method_class(str(place)) is half
    assert half.import_path == f"{place}:Half"
    assert not is_ours(half)
    digest = source_digest(half())
    assert digest is not None
    assert len(digest) == 64
    other = written(tmp_path, "other.py", SOURCE.replace("0.5", "0.6"))
    assert source_digest(method_class(str(other))()) != digest
    assert "half" not in all_methods()


def test_two_methods_of_a_file_come_from_one_module(tmp_path: Path) -> None:
    second = SOURCE.replace("class Half", "class Third").split("option\n", 1)[1]
    place = written(tmp_path, "two.py", SOURCE + second)
    half, third = method_class(f"{place}:Half"), method_class(f"{place}:Third")
    assert half.__module__ == third.__module__
    assert sys.modules[half.__module__].Half is half
    with pytest.raises(BadInput, match=r"two.py holds Half, Third; need .*two.py:NAME"):
        method_class(str(place))


def test_a_file_may_import_what_lies_beside_it(tmp_path: Path) -> None:
    written(tmp_path, "parts_of_half.py", "PART = 0.125\n")
    text = SOURCE.replace("option(0.5", "option(PART")
    text = text.replace("from favano", "from parts_of_half import PART\nfrom favano", 1)
    method = method_class(f"{written(tmp_path, 'mine.py', text)}:Half")()
    assert getattr(method, "part") == 0.125  # noqa: B009


@pytest.mark.parametrize(
    ("text", "name", "rule"),
    [
        (SOURCE, ":Thrid", r"mine.py holds Half; need .*mine.py:NAME"),
        ("x = 1\n", "", "mine.py holds no Method; need"),
        ("x = 1\n", ":Half", "mine.py holds no Method; need"),
        ("from favano import FedAvg\n", ":FedAvg", "mine.py holds no Method; need"),
        ("x = 1 / 0\n", ":Half", "cannot be loaded: ZeroDivisionError: division by zero"),
        ("import nowhere_to_be_found\n", "", "cannot be loaded: ModuleNotFoundError: No module"),
        ("def broken(:\n", ":Half", "cannot be loaded: SyntaxError"),
    ],
)
def test_files_without_the_method_are_refused(
    tmp_path: Path, text: str, name: str, rule: str
) -> None:
    place = written(tmp_path, "mine.py", text)
    with pytest.raises(BadInput, match=f"^algorithm=.*mine.py.*: .*{rule}"):
        method_class(f"{place}{name}")


def test_a_file_that_cannot_be_loaded_leaves_nothing_behind(tmp_path: Path) -> None:
    place, before = written(tmp_path, "mine.py", "x = 1 / 0\n"), set(sys.modules)
    with pytest.raises(BadInput, match="cannot be loaded"):
        method_class(f"{place}:Half")
    assert set(sys.modules) == before
    place.write_text(SOURCE)  # it was mended
    assert method_class(f"{place}:Half").name == "half"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"algorithm=.*gone.py:Half: no such file: .*gone.py$"):
        method_class(f"{tmp_path / 'gone.py'}:Half")


def test_contradictions_in_a_file_are_said_as_they_are(tmp_path: Path) -> None:
    text = SOURCE.replace("    part: float", "    memory = 2\n    part: float")
    place = written(tmp_path, "mine.py", text)
    with pytest.raises(BadInput, match="method=half: memory and local_step require each other"):
        method_class(f"{place}:Half")


INIT = """

class Odd(Method[ModelState]):
    def __init__(self, part):
        self.part = part

    def policy(self):
        return self.context.rounds()

    def aggregate(self, state, updates):
        return state


class Heir(Odd):
    pass
"""


def test_a_bad_class_is_refused_alone(tmp_path: Path) -> None:
    """The others of its file can be used; its heirs cannot."""
    forgetful = SOURCE.replace("class Half", "class Forgetful").split("option\n", 1)[1]
    forgetful = forgetful.replace("    part: float", "    memory = 2\n    part: float")
    place = written(tmp_path, "mine.py", SOURCE + INIT + forgetful)
    assert method_class(f"{place}:Half")().name == "half"
    for name in ("Odd", "Heir"):
        with pytest.raises(BadInput, match=r"^class=Odd: has an __init__ of its own; declare"):
            method_class(f"{place}:{name}")
    with pytest.raises(
        BadInput, match=r"^method=forgetful: memory and local_step require each other"
    ):
        method_class(f"{place}:Forgetful")


def test_unknown_names_are_refused_with_what_was_probably_meant() -> None:
    with pytest.raises(BadInput, match="algorithm=fedbuf: unknown; did you mean fedbuff"):
        method_class("fedbuf")
    with pytest.raises(BadInput, match="algorithm=xyz: unknown; known: favano, fedavg"):
        method_class("xyz")


def installed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *points: str, text: str = SOURCE
) -> None:
    """A package as pip leaves it, with these entry points."""
    written(folder, "half_package.py", text)
    about = folder / "half_package-1.0.dist-info"
    written(about, "METADATA", "Metadata-Version: 2.1\nName: half-package\nVersion: 1.0\n")
    written(about, "entry_points.txt", "\n".join(["[favano.methods]", *points, ""]))
    monkeypatch.syspath_prepend(str(folder))
    registry.installed_methods.cache_clear()


def test_installed_packages_bring_methods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, monkeypatch, "half = half_package:Half")
    assert list(all_methods()) == [*our_methods(), "half"]
    made = make_method("half", {"part": 0.25})
    assert made.title == "Half"
    assert not is_ours(made)
    assert source_digest(made) is not None
    with pytest.raises(BadInput, match="part=1: is a key of half, not of fedavg"):
        make_method("fedavg", {"part": 1})


@pytest.mark.parametrize(
    ("points", "text", "rule"),
    [
        (["a = half_package:Gone"], SOURCE, ".*Gone"),
        (["a = half_package:Half"], "x = 1 / 0\n", "division by zero"),
        (["a = half_package:Half"], "Half = 3\n", "method=half_package:Half: need a class that"),
        (
            ["a = half_package:Half"],
            SOURCE.replace("    part: float", '    name = "fedavg"\n    part: float'),
            "method=half_package:Half: fedavg is taken already",
        ),
        (
            ["a = half_package:Half", "b = half_package:Half"],
            SOURCE,
            "method=half_package:Half: half is taken already",
        ),
    ],
)
def test_broken_packages_are_named_and_left_out(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    points: list[str],
    text: str,
    rule: str,
) -> None:
    installed(tmp_path, monkeypatch, *points, text=text)
    assert set(all_methods()) - {"half"} == set(our_methods())
    assert re.search(f"entry point [ab] is left out: {rule}", caplog.text)
    assert method_class("fedavg") is FedAvg


def test_a_class_in_a_test_belongs_to_its_file() -> None:
    class Here(FedAvg):
        """FedAvg under another name."""

    assert issubclass(Here, Method)
    assert not is_ours(any_method(Here()))
    assert source_digest(any_method(Here())) is not None
