"""Clients over time, on the page as it is written."""

from __future__ import annotations

import json
import re
from pathlib import Path

from favano.report import write_page
from favano.report.cells import cells, columns
from favano.report.terminal import final_table
from favano.results import Result, collect
from tests.report.conftest import Writer, with_charts


def text_of(results: list[Result], path: Path) -> str:
    write_page(results, path, "Page")
    return path.read_text(encoding="utf-8")


def charts_of(text: str) -> list[str]:
    return re.findall(r'data-chart="(\w+)"', text)


def test_pages_of_older_files_have_no_such_part(compared: Path, tmp_path: Path) -> None:
    text = text_of(collect([compared]), tmp_path / "page.html")
    assert 'id="times"' not in text
    assert "#times" not in text
    assert 'value="energy"' not in text
    assert set(charts_of(text)) == {"curves", "clients", "staleness"}


def test_what_is_said_of_the_plots(compared: Path, tmp_path: Path) -> None:
    for name in ("favano", "fedavg"):
        (compared / name / "participation.json").write_text(json.dumps(with_charts()))
    text = text_of(collect([compared]), tmp_path / "page.html")
    assert charts_of(text).count("availability") == 1  # both methods meet the same
    assert charts_of(text).count("jobs") == 2
    assert "Clients are there for 62.5 % of the time (median 60.0 %); all 3 clients" in text
    assert "up to time 20, 1 server step; all 3 clients" in text
    assert 'href="#times"' in text
    document = json.loads(re.findall(r'id="results">(.*?)</script>', text)[0])
    first, second, *_ = (result["participation"] for result in document["settings"][0]["results"])
    assert first["availability"]["digits"] == ["9999", "9940", "9000"]
    assert "availability" not in second
    assert first["jobs"]["steps"] == second["jobs"]["steps"] == [5, 2, 4, 1]


def test_another_availability_has_its_own_plot(compared: Path, tmp_path: Path) -> None:
    for name, mean in (("favano", 0.5), ("fedavg", 0.25)):
        document = with_charts()
        document["availability"]["mean"] = mean  # type: ignore[index]
        (compared / name / "participation.json").write_text(json.dumps(document))
    text = text_of(collect([compared]), tmp_path / "page.html")
    assert charts_of(text).count("availability") == 2


def test_a_sample_and_a_window_are_named(compared: Path, tmp_path: Path) -> None:
    document = with_charts()
    document |= {"clients": 10_000}
    document["jobs"] |= {"at_work": 400, "end": 18.0}  # type: ignore[operator]
    path = compared / "favano" / "participation.json"
    path.write_text(json.dumps(document))
    text = text_of(collect([compared]), tmp_path / "page.html")
    assert "3 of 10,000 clients, an even sample by availability" in text
    assert "up to time 18 of 20, 1 server step; 3 of 400 clients with jobs, an even sample" in text
    document["jobs"] |= {"at_work": 3}  # type: ignore[operator]
    path.write_text(json.dumps(document))
    text = text_of(collect([compared]), tmp_path / "page.html")
    assert "3 of 10,000 clients; the others have no job" in text


def test_energy_is_a_column_where_it_is_counted(tmp_path: Path, write: Writer) -> None:
    for name in ("favano", "fedavg"):
        write(tmp_path / name, {"algorithm": name}, [[0.1, 0.5], [0.1, 0.6]], "complete")
    results = collect([tmp_path])
    assert "energy" not in columns(results)
    path = tmp_path / "favano" / "summary.json"
    summary = json.loads(path.read_text())
    for place, run in enumerate(summary["runs"]):
        run["energy"] = 1000.0 + 500 * place
    path.write_text(json.dumps(summary))
    results = collect([tmp_path])
    assert list(columns(results))[-2:] == ["energy", "seeds"]
    assert [cells(result, None)["energy"] for result in results] == ["1,250", "–"]
    table = final_table(results, width=200)
    assert "joules" in str(table.columns[-2].header)
    assert "and energy, joules" in str(final_table(results, width=72).caption)
