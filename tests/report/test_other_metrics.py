"""Results of problems with metrics of their own: an error in kilowatts, best if low."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path

import pytest
import tomli_w
from rich.console import Console

from favano.records import (
    MetricRecord,
    Row,
    Summary,
    history_to_csv,
    run_record,
    summary_to_json,
)
from favano.report import final_table, paired, sentence, write_page
from favano.report.cells import cells, columns
from favano.report.curves import curve, measures
from favano.report.palette import Look
from favano.report.payload import payload
from favano.report.settings import by_setting
from favano.results import collect
from favano.specification.config import spec_tables

LOOK = Look(0, 0, 0)
METRICS = (MetricRecord("mae", "low", "kW"), MetricRecord("r2"))


def row(seed: int, step: int, mae: float) -> Row:
    metrics = {"mae": mae, "r2": 1 - mae}
    return Row(seed, 10.0 * step, step, 5 * step, 8, 8, mae**2, metrics, 1.0, 1.0, step)


def write(folder: Path, algorithm: str, errors: list[list[float]], described: bool = True) -> None:
    folder.mkdir(parents=True)
    spec = {"algorithm": algorithm, "dataset": "own", "horizon": 10.0, "seeds": len(errors)}
    (folder / "spec.toml").write_text(tomli_w.dumps(spec_tables(spec)))
    histories = [
        [row(seed, step, error) for step, error in enumerate(some)]
        for seed, some in enumerate(errors)
    ]
    text = history_to_csv([entry for history in histories for entry in history])
    (folder / "history.csv").write_text(text)
    if described:
        runs = tuple(run_record(algorithm, history[-1], "complete") for history in histories)
        summary = Summary(status="complete", metrics=METRICS, command="python", runs=runs)
        (folder / "summary.json").write_text(summary_to_json(summary))


@pytest.fixture
def three(tmp_path: Path) -> Path:
    write(tmp_path / "favano", "favano", [[2.0, 0.5], [2.0, 0.7]])
    write(tmp_path / "fedavg", "fedavg", [[2.0, 0.8], [2.0, 1.2]])
    write(tmp_path / "fedbuff", "fedbuff", [[2.0, 0.1], [2.0, 0.3]])
    return tmp_path


def test_the_lowest_is_the_best(three: Path) -> None:
    favano, fedavg, fedbuff = collect([three])
    assert sentence([favano, fedavg]) == (
        "After 10 units of time FAVANO reaches mae 0.6 kW, 0.4 kW below FedAvg, with as many "
        "local steps and bits (2 seeds, lower in 2 of 2, too few seeds to say how sure)."
    )
    assert sentence([favano, fedavg, fedbuff]) == (
        "After 10 units of time FedBuff reaches mae 0.2 kW, the lowest mae; "
        "FAVANO 0.6 kW, 0.4 kW above, with as many local steps and bits "
        "(2 seeds, higher in 2 of 2, too few seeds to say how sure)."
    )
    assert sentence([favano]) == "After 10 units of time FAVANO reaches mae 0.6 kW (2 seeds)."


def test_equal_as_printed(tmp_path: Path) -> None:
    write(tmp_path / "favano", "favano", [[2.0, 0.50001]])
    write(tmp_path / "fedavg", "fedavg", [[2.0, 0.5]])
    assert "FAVANO reaches mae 0.5 kW, level with FedAvg, with" in sentence(collect([tmp_path]))


def test_the_table(three: Path) -> None:
    results = collect([three])
    headings = columns(results)
    assert list(headings.items())[:4] == [
        ("mae", "mae, kW"),
        ("difference", "against FAVANO, kW"),
        ("r2", "r2"),
        ("loss", "loss"),
    ]
    words = cells(results[1], results[0])
    assert words["mae"] == "1 ± 0.283"
    assert words["difference"] == "+0.4 ± 0.141 (2)"
    pair = paired(results[1], results[0])
    assert pair is not None
    assert pair.mean == pytest.approx(0.4)
    console = Console(width=44, file=io.StringIO())
    with console.capture() as screen:
        console.print(final_table(results, width=44))
    text = " ".join(screen.get().split())
    assert "mae, kW" in text
    assert "no room here for r2, loss, server steps, local steps and gigabits sent" in text


def test_curves_and_the_data_of_a_page(three: Path) -> None:
    results = collect([three])
    drawn = curve(results[0])
    assert list(drawn.bands)[:3] == ["mae", "r2", "loss"]
    assert drawn.bands["mae"].mean.tolist() == pytest.approx([2.0, 0.6])
    shown = measures(METRICS)
    assert (shown["mae"].title, shown["mae"].kind) == ("Test mae, kW", "significant")
    document = json.loads(
        payload(by_setting(results), {result.title: LOOK for result in results}, shown)
    )
    assert document["measures"]["r2"] == {"name": "Test r2", "kind": "significant"}
    assert document["settings"][0]["unit"] == "kW"


def test_a_page_without_accuracy(three: Path, tmp_path: Path) -> None:
    write_page(collect([three]), tmp_path / "page.html", "Regression")
    text = (tmp_path / "page.html").read_text()
    assert "ccuracy" not in text
    assert text.count('name="measure"') == 6
    assert 'value="mae" autocomplete="off" checked>' in text


def test_without_a_summary_the_columns_say_the_names(tmp_path: Path) -> None:
    write(tmp_path / "favano", "favano", [[2.0, 0.5]], described=False)
    (result,) = collect([tmp_path])
    assert result.metrics == (MetricRecord("mae"), MetricRecord("r2"))
    assert result.final() == [0.5]


def test_results_of_other_metrics_are_another_setting(three: Path) -> None:
    write(three / "other", "quafl", [[2.0, 0.5]], described=False)
    settings = by_setting(collect([three]))
    assert [len(setting.results) for setting in settings] == [3, 1]


def test_not_a_number_is_said(tmp_path: Path) -> None:
    write(tmp_path / "favano", "favano", [[2.0, float("nan")]])
    results = collect([tmp_path])
    assert "Nothing to rank: FAVANO (without a finite mae)." in sentence(results)
    assert results[0].remarks == ["diverged: the loss is not finite; lower the learning rate"]


def test_names_of_metrics_are_text(tmp_path: Path) -> None:
    evil = '"><script>hacked</script>'
    write(tmp_path / "favano", "favano", [[2.0, 0.5]])
    for name in ("history.csv", "summary.json"):
        path = tmp_path / "favano" / name
        word = (
            json.dumps(evil)[1:-1]
            if name == "summary.json"
            else '"' + evil.replace('"', '""') + '"'
        )
        path.write_text(path.read_text().replace("r2", word))
    write_page(collect([tmp_path]), tmp_path / "page.html", "Evil")
    text = (tmp_path / "page.html").read_text()
    assert "hacked" in text
    assert "<script>hacked" not in text


def test_a_metric_that_is_not_a_number_is_named(tmp_path: Path) -> None:
    write(tmp_path / "favano", "favano", [[2.0, 0.5], [2.0, math.nan]])
    text = (tmp_path / "favano" / "summary.json").read_text()
    (tmp_path / "favano" / "summary.json").write_text(text.replace('"loss": null', '"loss": 1.0'))
    (result,) = collect([tmp_path])
    assert result.remarks == ["has no finite mae in 1 of 2 seeds (1)"]
    assert cells(result, None)["mae"] == "not finite"


def test_a_small_loss_that_leads_has_digits(tmp_path: Path) -> None:
    rows = [[Row(0, 10.0 * k, k, k, 8, 8, loss, {}, 1.0, 1.0, k) for k, loss in enumerate(some)]
            for some in ([1.0, 0.00012], [1.0, 0.00034])]  # fmt: skip
    for name, some in zip(("favano", "fedavg"), rows, strict=True):
        (tmp_path / name).mkdir()
        spec = {"algorithm": name, "dataset": "own", "horizon": 10.0}
        (tmp_path / name / "spec.toml").write_text(tomli_w.dumps(spec_tables(spec)))
        (tmp_path / name / "history.csv").write_text(history_to_csv(some))
        summary = Summary(
            status="complete", metrics=(), runs=(run_record(name, some[-1], "complete"),)
        )
        (tmp_path / name / "summary.json").write_text(summary_to_json(summary))
    favano, fedavg = collect([tmp_path])
    assert cells(favano, None)["loss"] == "0.00012 ± \u2013"
    assert cells(fedavg, favano)["difference"] == "+0.00022 ± \u2013 (1)"
    assert measures(())["loss"].kind == "significant"
