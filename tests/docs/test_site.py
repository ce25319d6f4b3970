"""The site: every public name has a docstring and a place, and what is wrong ends the build."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort
from reference_parts import PARTS, public_names

import favano
from favano.methods import our_methods
from tests.docs.pages import ROOT

API = ROOT / "docs" / "reference" / "api"
METHODS = {method.__name__ for method in our_methods().values()}


def directives() -> list[str]:
    """What the pages on Python ask mkdocstrings for."""
    text = "".join(page.read_text(encoding="utf-8") for page in API.glob("*.md"))
    return re.findall(r"^::: favano\.(\w+)$", text, re.MULTILINE)


def without_a_place(names: list[str]) -> list[str]:
    """Names that no page has, or that several have; methods have theirs among the cards."""
    return [name for name in names if name not in METHODS and directives().count(name) != 1]


def test_every_public_name_has_one_place() -> None:
    assert without_a_place(dir(favano)) == []
    assert set(directives()) <= set(dir(favano))


def test_a_name_without_a_place_or_a_docstring_is_found() -> None:
    assert without_a_place(["simulate", "simulate_all"]) == ["simulate_all"]
    added = SimpleNamespace(function=lambda: None, kind=type("kind", (), {}), value=3)
    assert [name for name in vars(added) if documented(added, name)] == []


def test_every_method_has_a_card() -> None:
    cards = PARTS["methods"]()
    assert [name for name in our_methods() if f"{{#{name}}}" not in cards] == []
    assert [name for name in METHODS if f"`favano.{name}`" not in cards] == []
    sources = re.findall(r"\[source\]\(\.\./\.\./(.+?)\)", cards)
    classes = {name for path in sources for name in _classes(ROOT / path)}
    assert len(sources) == len(METHODS)
    assert set(METHODS) <= classes


def _classes(path: Path) -> list[str]:
    return re.findall(r"^class (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("package", ["favano", "favano.flower", "favano.theory"])
def test_every_public_name_has_a_docstring(package: str) -> None:
    """Of its own; a value has one as a string below it, which the source alone shows."""
    module = import_module(package)
    names = dir(favano) if package == "favano" else public_names(package)
    assert [name for name in names if not documented(module, name)] == []


def documented(module: object, name: str) -> bool:
    value = getattr(module, name)
    if inspect.isclass(value) or inspect.isroutine(value):
        return bool(inspect.getdoc(value)) and value.__doc__ != object.__doc__
    below = rf'^{name}\b.*= [^\n]+\n"""\w'
    folder = Path(inspect.getfile(inspect.getmodule(module) or favano)).parent
    return any(
        re.search(below, path.read_text(encoding="utf-8"), re.MULTILINE)
        for path in folder.rglob("*.py")
    )


def test_every_command_is_described() -> None:
    text = PARTS["commands"]()
    for command in ("run", "compare", "serve", "theory bound", "theory advise"):
        assert f"## favano {command}\n" in text
    assert "| `codec_bits` |" in PARTS["keys"]()
    assert text.count("--rate-schedule") > 2  # with all flags, not only the usual ones


def test_names_beside_the_paper_exist() -> None:
    """The functions that the page on the paper names, and a name that is not one."""
    page = (ROOT / "docs" / "reference" / "paper.md").read_text(encoding="utf-8")
    rows = page.partition("## The analysis")[2].partition("```")[0]
    named = {name for row in rows.split("\n| ") for name in re.findall(r"`(\w+)`", row)}
    assert {"bound_full", "server_time"} < named
    assert named - set(public_names("favano.theory")) == set()


def test_every_file_is_described() -> None:
    text = PARTS["files"]()
    assert "| `bits_up` | `int` | from clients to the server |" in text
    assert "noqa" not in text


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A small site with the rules and the hooks of ours."""
    known = yaml.unsafe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    kept = ("strict", "validation", "use_directory_urls", "exclude_docs")
    small = {name: known[name] for name in kept} | {
        "site_name": "small", "hooks": [str(ROOT / "docs" / "site_hooks.py")],
        "nav": ["index.md", "part/index.md"],
    }  # fmt: skip
    pages = {
        "docs/index.md": "# One\n\n[2](part/index.md#part) [code](../code.py) [no](../notes.md)\n",
        "docs/part/index.md": "# Two\n\n## Part\n",
        "code.py": "NUMBER = 3\n",
        "notes.md": "# Notes\n",
        "mkdocs.yml": yaml.dump(small),
    }
    for name, text in pages.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_a_whole_site_is_built_with_what_lies_outside_of_docs(site: Path) -> None:
    build(load_config(str(site / "mkdocs.yml")))
    assert (site / "site" / "repository" / "code.py").read_text() == "NUMBER = 3\n"
    assert 'href="repository/code.py"' in (site / "site" / "index.html").read_text()
    assert (site / "site" / "repository" / "notes.md.txt").read_text() == "# Notes\n"
    assert 'href="repository/notes.md.txt"' in (site / "site" / "index.html").read_text()


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("index.md", "[gone](gone.md)"),
        ("index.md", "[gone](../gone.py)"),
        ("index.md", "[gone](part/index.md#gone)"),
        ("index.md", "[folder](../docs)"),
        ("lonely.md", "# Nobody links to this page"),
    ],
)
def test_a_broken_link_or_a_lonely_page_ends_the_build(page: str, text: str, site: Path) -> None:
    with (site / "docs" / page).open("a", encoding="utf-8") as file:
        file.write(f"\n{text}\n")
    with pytest.raises(Abort):
        build(load_config(str(site / "mkdocs.yml")))


def test_the_page_of_the_design_stays_short() -> None:
    page = ROOT / "docs" / "explanation" / "design.md"
    assert len(page.read_text(encoding="utf-8").split()) <= 3000
