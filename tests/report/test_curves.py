from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from favano.records import history_to_csv
from favano.report.curves import curve
from favano.results import read_result

from .conftest import Writer, a_row


@pytest.fixture
def uneven(tmp_path: Path, write: Writer) -> Path:
    accuracies = [[0.1, 0.4, 0.5], [0.3, 0.6]]
    return write(tmp_path / "favano", {"algorithm": "favano"}, accuracies, "complete")


def test_a_complete_result_ends_where_all_seeds_are(uneven: Path) -> None:
    drawn = curve(read_result(uneven))
    assert drawn.seeds == [2, 2]
    np.testing.assert_allclose(drawn.bands["accuracy"].mean, [20, 50])
    spread = 20 / np.sqrt(2)
    np.testing.assert_allclose(drawn.bands["accuracy"].low, [20 - spread, 50 - spread])
    np.testing.assert_allclose(drawn.bands["accuracy"].high, [20 + spread, 50 + spread])


def test_a_partial_result_is_drawn_to_its_end(uneven: Path) -> None:
    (uneven / "summary.json").unlink()
    drawn = curve(read_result(uneven))
    assert drawn.seeds == [2, 2, 1]
    np.testing.assert_allclose(drawn.bands["accuracy"].mean, [20, 50, 50])
    assert np.isnan(drawn.bands["accuracy"].low[2])


def test_axes_are_averaged_at_equal_index(uneven: Path) -> None:
    rows = [a_row(0, 0, 0.1), a_row(0, 1, 0.2), a_row(1, 0, 0.1), a_row(1, 2, 0.2)]
    (uneven / "history.csv").write_text(history_to_csv(rows))
    along = curve(read_result(uneven)).along
    assert {axis: values.tolist() for axis, values in along.items()} == {
        "time": [0, 15],
        "server_steps": [0, 1.5],
        "local_steps": [0, 7.5],
        "bits": [0, 3e9],
    }


def test_a_logarithmic_axis_gets_positive_numbers_only(uneven: Path) -> None:
    rows = [
        a_row(seed, step, 0.1)._replace(variance=variance)
        for seed, variances in enumerate([(0.0, 1.0, 5.0), (0.0, 9.0, 7.0)])
        for step, variance in enumerate(variances)
    ]
    (uneven / "history.csv").write_text(history_to_csv(rows))
    band = curve(read_result(uneven)).bands["variance"]
    assert np.isnan(band.mean[0])
    assert band.low[1] == 1.0  # 5 - 5.7 is not positive
    assert band.low[2] == pytest.approx(6 - np.sqrt(2))


def test_nothing_to_draw(compared: Path) -> None:
    drawn = curve(read_result(compared / "quafl"))
    assert drawn.seeds == []
    assert drawn.bands["loss"].mean.size == 0
