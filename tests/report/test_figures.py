"""Print figures, by what matplotlib is given to draw."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text

from favano.records import Entry
from favano.report.figures import cells_figure, curves_figure
from favano.report.palette import COLOURS, looks

NAMES = {"fedavg": "FedAvg", "quafl": "QuAFL", "favano": "FAVANO"}
GRID = (
    (("loss", "time"), ("loss", "server_steps")),
    (("accuracy", "time"), ("accuracy", "server_steps")),
)
HEADER = (
    "reading,algorithm,column,seeds,time,server_steps,local_steps,accuracy,accuracy_low,"
    "accuracy_high,loss,loss_low,loss_high,variance,variance_low,variance_high"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """FedAvg makes its first update at time 200 and four in all, the others one in ten units."""
    lines = [HEADER]
    for number, (name, steps) in enumerate(
        {"fedavg": (0, 0, 2, 4), "quafl": (0, 10, 20, 38), "favano": (0, 10, 20, 40)}.items()
    ):
        for place, step in enumerate(steps):
            accuracy = 0.1 + 0.01 * step + 0.1 * number
            loss = (8.0, -4.0, 20.0) if step == 0 else (2.0 - accuracy,) * 3
            cells = (100 * place, step, step, accuracy, accuracy, accuracy, *loss, 1, 1, 1)
            lines.append(f"paper,{name},iid,3,{','.join(map(str, cells))}")
    (tmp_path / "curves.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def panels(figure: Figure) -> dict[str, Axes]:
    """Panels by their letter."""
    return {axes.get_title(loc="left").split()[0]: axes for axes in figure.axes}


def texts(axes: Axes) -> dict[str, Text]:
    return {text.get_text(): text for text in axes.texts}


def test_the_loss_of_untrained_networks_and_its_band_are_not_drawn(folder: Path) -> None:
    axes = panels(curves_figure(folder, NAMES, GRID, 3))["a"]
    fedavg, favano = axes.lines[0], axes.lines[4]
    assert np.asarray(fedavg.get_xdata()).tolist() == [200, 300]
    assert np.asarray(favano.get_xdata()).tolist() == [100, 200, 300]
    bands = [band for band in axes.collections if isinstance(band, PolyCollection)]
    assert len(bands) == 3
    heights = np.concatenate([np.asarray(p.vertices)[:, 1] for b in bands for p in b.get_paths()])
    low, high = axes.get_ylim()
    assert low < heights.min() <= heights.max() < high < 2


def test_a_name_stands_beside_its_line_where_that_ends_early(folder: Path) -> None:
    axes = panels(curves_figure(folder, NAMES, GRID, 3))["d"]
    named = texts(axes)
    assert named["FAVANO"].get_position()[0] > 1  # in the margin
    x, y = named["FedAvg"].get_position()
    end = axes.transAxes.inverted().transform(axes.transData.transform((4, 14)))
    assert 0 < x - end[0] < 0.1
    assert abs(y - end[1]) < 0.35
    x, _ = named["QuAFL"].get_position()
    assert 0.95 < x < 1  # ends at 38 of 40


def test_names_at_early_ends_do_not_cover_each_other(folder: Path) -> None:
    path = folder / "curves.csv"
    path.write_text(path.read_text().replace("300,4,4", "300,39,4"))
    named = texts(panels(curves_figure(folder, {**NAMES, "favano": "F"}, GRID, 3))["b"])
    heights = sorted(named[name].get_position()[1] for name in ("FedAvg", "QuAFL", "F"))
    assert all(high - low > 0.05 for low, high in pairwise(heights))


def test_panels_have_letters_and_the_figure_says_what_bands_are(folder: Path) -> None:
    figure = curves_figure(folder, {**NAMES, "fedbuff": "FedBuff"}, GRID, 3)
    assert list(panels(figure)) == ["a", "b", "c", "d"]
    below = next(text for text in panels(figure)["c"].texts if isinstance(text, Annotation))
    assert below.get_text().splitlines() == [
        "Lines: mean over 3 seeds; bands: one standard deviation either way.",
        "The loss is drawn from the first update on.",
        "Missing: FedBuff.",
    ]
    alone = curves_figure(folder, NAMES, ((("accuracy", "time"),),), 3)
    assert alone.axes[0].get_title(loc="left") == "test accuracy, %"


def test_lines_have_the_colours_of_the_page_and_differ_in_dash(folder: Path) -> None:
    axes = panels(curves_figure(folder, NAMES, GRID, 3))["c"]
    curves = axes.lines[0:6:2]
    styles = looks(NAMES)
    assert [to_hex(line.get_color()) for line in curves] == [
        COLOURS[styles[name].colour] for name in NAMES
    ]
    dashes = [line._dash_pattern for line in curves]  # type: ignore[attr-defined]
    assert len({str(dash) for dash in dashes}) == 3


def test_cells_have_a_legend_and_a_label_per_axis() -> None:
    entries = [
        Entry("paper", name, column, seed, "complete", accuracy=0.9, time=5000.0)
        for name in NAMES
        for column in ("iid", "two")
        for seed in range(4)
    ]
    columns = {"iid": "IID", "two": "two classes"}
    figure = cells_figure(entries, NAMES, columns, {("favano", "iid"): (90.0, 1.0)})
    legend = figure.axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "one seed of 4", "mean over seeds", "the paper's mean ± standard deviation",
    ]  # fmt: skip
    assert [axes.get_xlabel() for axes in figure.axes] == ["test accuracy, %"] * 2
    assert list(panels(figure)) == ["a", "b"]
    alone = cells_figure(entries, NAMES, columns, {}).axes[0].get_legend()
    assert alone is not None
    assert len(alone.get_texts()) == 2
