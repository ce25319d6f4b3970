from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from plotly.offline import get_plotlyjs

from favano.errors import BadInput
from favano.report import collect, write_page

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


def own_text(path: Path) -> str:
    """The page without the plotting library."""
    return path.read_text(encoding="utf-8").replace(str(get_plotlyjs()), "")


def test_one_file_of_moderate_size(page: Path) -> None:
    assert [path.name for path in page.parent.iterdir()] == ["report.html"]
    assert page.stat().st_size < 6e6
    assert str(get_plotlyjs()) in page.read_text(encoding="utf-8")


def test_nothing_is_loaded_from_anywhere(page: Path) -> None:
    text = own_text(page)
    assert not re.search(r"https?://", text)
    for tag, attributes in Tags(text).found:
        assert not {"src", "href", "srcset"} & attributes.keys(), tag
        assert tag not in {"link", "iframe", "base"}
    assert "default-src 'none'" in text


def test_every_result_and_the_switch_are_there(page: Path) -> None:
    text = own_text(page)
    for title in ("FAVANO", "FedAvg", "FedBuff", "QuAFL"):
        assert f"<summary>{title}" in text
    tags = Tags(text).found
    radios = [each["value"] for tag, each in tags if tag == "input" and each["type"] == "radio"]
    assert radios == ["time", "server_steps", "local_steps", "bits"]
    plots = [each for _, each in tags if each.get("role") == "img"]
    assert [each["id"] for each in plots] == ["accuracy", "loss", "variance"]
    assert "FAVANO 75.0 %" in str(plots[0]["aria-label"])
    assert "favano run --algorithm fedavg" in text


def test_partial_and_missing_are_marked(page: Path) -> None:
    text = own_text(page)
    assert 'FedBuff <span class="badge badge-partial">partial</span>' in text
    assert 'QuAFL <span class="badge badge-missing">missing</span>' in text
    assert "FedBuff: 1 of 2 seeds, at time 10 of 20. Its numbers are those so far." in text
    assert "QuAFL: no evaluation was found in its folder." in text


def test_series_are_valid_json(page: Path) -> None:
    found = re.search(r'id="series">(.*?)</script>', own_text(page), re.DOTALL)
    assert found is not None
    series = json.loads(found.group(1))
    assert [one["title"] for one in series] == ["FAVANO", "FedAvg", "FedBuff", "QuAFL"]
    assert series[0]["y"]["accuracy"]["mean"] == [10, 60, 75]
    assert series[0]["y"]["variance"]["mean"][0] is None


def test_names_cannot_inject(tmp_path: Path, write: Writer) -> None:
    evil = "<b>x</script><img src=y onerror=z>\"'&"
    for name, dataset in (("one", evil), ("two", "digits")):
        write(tmp_path / name, {"algorithm": evil, "dataset": dataset}, [[0.1, 0.2]], "complete")
    write_page(collect([tmp_path]), tmp_path / "report.html", evil)
    text = own_text(tmp_path / "report.html")
    assert "<b>" not in text
    assert "<img" not in text
    assert text.count("</script>") == 3
    assert "&lt;b&gt;x" in text


def test_differing_keys_come_first(page: Path) -> None:
    details = own_text(page).split("<details>")[1]
    keys = re.findall(r'<th scope="row">(\w+)</th>', details)
    assert keys[0] != "seeds"
    assert keys.index("algorithm") < keys.index("seeds")
    assert '<tr class=differs><th scope="row">algorithm</th>' in details


def test_an_old_page_is_replaced_and_a_failure_leaves_it(compared: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    write_page(collect([compared]), path, "new")
    assert "<h1>new</h1>" in own_text(path)
    with pytest.raises(BadInput, match="cannot be written"):
        write_page(collect([compared]), path / "below" / "report.html", "new")
    with pytest.raises(BadInput, match="at least one"):
        write_page([], path, "empty")
    assert "<h1>new</h1>" in own_text(path)
