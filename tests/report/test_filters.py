"""Keys that put results into groups, and the lines of single seeds."""

from __future__ import annotations

import json
from math import nan
from pathlib import Path

import numpy as np
import pytest

from favano.records import history_from_csv, history_to_csv
from favano.report import by_setting
from favano.report import payload as payload_of
from favano.report.curves import curve, seed_lines
from favano.report.filters import filter_controls, filters
from favano.report.palette import methods
from favano.results import collect

from .conftest import Writer


def test_keys_that_group(tmp_path: Path, write: Writer) -> None:
    for number, (rate, buffer, split) in enumerate(
        [(0.1, 1, "iid"), (0.1, 2, "iid"), (0.5, 3, "two-class"), (0.5, 4, "two-class")]
    ):
        keys = {"learning_rate": rate, "buffer": buffer, "split": split, "clients": 5}
        some = {"codec": "qsgd"} if number == 0 else {}  # not set in the others
        write(tmp_path / str(number), {"algorithm": "fedbuff", **keys, **some}, [[0.1]], "complete")
    found = filters(collect([tmp_path]))
    assert found == {"learning_rate": ["0.1", "0.5"], "split": ["iid", "two-class"]}
    text = filter_controls({"a_<b>": ['"x"&']})
    assert "<b>" not in text
    assert '<option value="=&quot;x&quot;&amp;">' in text


def test_the_mean_of_the_lines_is_the_curve(compared: Path) -> None:
    results = {result.algorithm: result for result in collect([compared])}
    lines, mean = seed_lines(results["favano"]), curve(results["favano"])
    assert [line.seed for line in lines] == [0, 1]
    for measure, band in mean.bands.items():
        there = ~np.isnan(band.mean)
        np.testing.assert_allclose(
            np.mean([line.values[measure] for line in lines], axis=0)[there], band.mean[there]
        )
    for axis, values in mean.along.items():
        np.testing.assert_allclose(np.mean([line.along[axis] for line in lines], axis=0), values)
    assert seed_lines(results["fedbuff"]) == []  # one seed alone


def test_zeros_are_not_on_a_logarithmic_axis(compared: Path) -> None:
    path = compared / "favano" / "history.csv"
    rows = history_from_csv(path.read_text())
    zero = [row._replace(variance=0.0, loss=0.0, digest="") for row in rows]
    path.write_text(history_to_csv(zero))
    (line, _) = seed_lines(collect([compared / "favano"])[0])
    assert np.array_equal(line.values["variance"], [nan] * 3, equal_nan=True)
    assert line.values["loss"].tolist() == [0, 0, 0]


def test_many_seeds_are_left_out(compared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = by_setting(collect([compared]))
    rows = sum(len(r.rows_to_horizon) for r in settings[0].results if r.title != "FedBuff")
    for most, there in ((rows, True), (rows - 1, False)):
        monkeypatch.setattr(payload_of, "_MOST_POINTS", most)
        assert payload_of.shows_seeds(settings) is there
        text = payload_of.payload(settings, methods(settings), {})
        runs = [len(each["runs"]) for each in json.loads(text)["settings"][0]["results"]]
        assert sum(runs) == 4 * there
