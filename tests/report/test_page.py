"""The page as text: whole, self-contained and safe."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from favano.errors import BadInput
from favano.report import write_page
from favano.results import collect

from .conftest import Writer


class Tags(HTMLParser):
    """Every opening tag with its attributes."""

    def __init__(self, text: str) -> None:
        HTMLParser.__init__(self)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.fixture
def page(compared: Path, tmp_path: Path) -> Path:
    path = tmp_path / "new" / "report.html"
    write_page(collect([compared]), path, "Four algorithms")
    return path


def test_one_small_file(page: Path) -> None:
    assert [path.name for path in page.parent.iterdir()] == ["report.html"]
    assert page.stat().st_size < 110_000


def test_nothing_is_loaded_from_anywhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\s\"']*", text)) == {"http://www.w3.org/2000/svg"}  # a name
    for tag, attributes in Tags(text).found:
        assert not {"src", "srcset", "style"} & attributes.keys(), tag
        assert str(attributes.get("href", "#")).startswith("#"), tag
        assert not any(name.startswith("on") for name in attributes), tag
        assert tag not in {"link", "iframe", "base", "object"}


def test_the_policy_admits_this_script_and_this_style_alone(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.group(1).split(";"))
    assert rules["default-src"] == "'none'"
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        match = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert match is not None
        digest = base64.b64encode(hashlib.sha256(match.group(1).encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"


def test_every_part_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    tags = Tags(text).found
    assert [a["id"] for tag, a in tags if tag == "section"] == [
        "curves",  # first, so that a plot is seen at once
        "final",
        "caveats",
        "clients",
        "staleness",
        "again",
    ]
    links = [str(a["href"]).removeprefix("#") for tag, a in tags if tag == "a"]
    assert set(links) <= {a["id"] for _, a in tags if "id" in a}
    charts = [a["data-chart"] for tag, a in tags if tag == "figure"]
    assert charts == ["curves", *["clients"] * 2, *["staleness"] * 2]
    assert text.count("<caption") == sum(tag == "table" for tag, _ in tags)


def test_references_are_the_methods_with_numbers(page: Path) -> None:
    match = re.search(r'<select id="reference".*?</select>', page.read_text(), re.DOTALL)
    assert match is not None
    assert re.findall(r">([^<]+)</option>", match.group()) == ["FAVANO", "FedAvg", "FedBuff"]


def test_partial_and_missing_are_marked(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert 'FedBuff <span class="badge badge-partial">partial</span>' in text
    assert 'QuAFL <span class="badge badge-missing">missing</span>' in text
    assert "<li>QuAFL is missing: no evaluation was found in its folder.</li>" in text
    header = text[: text.index("</header>")]
    assert "<strong>Partial:</strong> 2 of 4 results not complete." in header


def test_nothing_missing_takes_no_room(compared: Path, tmp_path: Path) -> None:
    results = collect([compared / "favano", compared / "fedavg"])
    write_page(results, tmp_path / "page.html", "Two")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert 'id="caveats"' not in text
    assert "What is missing" not in text
    assert "Partial" not in text


def test_the_data_are_valid_json(page: Path) -> None:
    match = re.search(r'id="results">(.*?)</script>', page.read_text(), re.DOTALL)
    assert match is not None
    data = json.loads(match.group(1))
    assert [method["title"] for method in data["methods"]] == [
        "FAVANO",
        "FedAvg",
        "FedBuff",
        "QuAFL",
    ]
    favano = data["settings"][0]["results"][0]
    assert favano["y"]["accuracy"]["mean"] == [10, 60, 75]
    assert favano["y"]["variance"]["mean"][0] is None
    assert favano["y"]["contributed_steps"]["mean"] == [0, 1, 2]
    assert favano["participation"]["listed"]["contacts"] == [1, 3, 1]
    assert data["settings"][0]["differences"]["FedAvg"][:2] == ["+20.0 ± 14.1 (2)", "reference"]


def test_names_cannot_inject(tmp_path: Path, write: Writer) -> None:
    evil = "<b>x</script><img src=y onerror=z>\"'&\u2028"
    for name, dataset in (("one", evil), ("two", "digits")):
        spec = {"algorithm": evil, "dataset": dataset, evil: evil}
        write(tmp_path / name, spec, [[0.1, 0.2]], "complete")
    write_page(collect([tmp_path]), tmp_path / "report.html", evil)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<b>" not in text
    assert "<img" not in text
    assert text.count("</script>") == 2
    assert "&lt;b&gt;x" in text


def test_an_old_page_is_replaced_and_a_failure_leaves_it(compared: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    write_page(collect([compared]), path, "new")
    assert "<h1>new</h1>" in path.read_text(encoding="utf-8")
    with pytest.raises(BadInput, match="cannot be written"):
        write_page(collect([compared]), path / "below" / "report.html", "new")
    with pytest.raises(BadInput, match="at least one"):
        write_page([], path, "empty")
    assert "<h1>new</h1>" in path.read_text(encoding="utf-8")
