"""A figure of results for notebooks and papers, drawn with matplotlib when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING

from favano.errors import require
from favano.report.curves import AXES, Measure, curve, has_energy, measures
from favano.report.figure_style import STYLE, Ending, check_matplotlib, label_ends, stroke
from favano.report.palette import COLOURS, looks
from favano.report.reported_result import ReportedResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_AXES = {
    "time": "simulated time",
    "server_steps": "server steps",
    "local_steps": "local steps",
    "bits": "bits sent",
    "energy": "energy, joules",
}


def result_figure(results: Sequence[ReportedResult], metric: str | None, along: str) -> Figure:
    """Means over seeds with bands of one standard deviation, each with its name at its end.

    Args:
        results: of one setting, each with a name of its own.
        metric: a metric of the problem, or loss, variance, potential or contributed_steps; by
            default the leading metric.
        along: time, server_steps, local_steps, bits or energy.
    """
    check_matplotlib()
    from matplotlib import style
    from matplotlib.figure import Figure

    known = measures(results[0].metrics)
    name = results[0].leading.name if metric is None else metric
    require(name in known, "metric", name, f"need one of {', '.join(known)}")
    axes_known = [axis for axis in AXES if axis != "energy" or all(map(has_energy, results))]
    require(along in axes_known, "along", along, f"need one of {', '.join(axes_known)}")
    with style.context(STYLE):
        figure = Figure(figsize=(5.4, 3.4), layout="constrained")
        _draw(figure, results, known[name], name, along)
    # Notebooks show a figure that pyplot does not know only if it makes its own picture.
    setattr(figure, "_repr_png_", partial(_png, figure))  # noqa: B010
    return figure


def _png(figure: Figure) -> bytes:
    picture = BytesIO()
    figure.savefig(picture, format="png", dpi=110)
    return picture.getvalue()


def _draw(
    figure: Figure, results: Sequence[ReportedResult], measure: Measure, name: str, along: str
) -> None:
    axes, styles = figure.subplots(), looks(result.title for result in results)
    ends = []
    for result in results:
        drawn, look = curve(result), styles[result.title]
        x, band, colour = drawn.along[along], drawn.bands[name], COLOURS[look.colour]
        axes.plot(x, band.mean, linestyle=stroke(look), color=colour)
        axes.fill_between(x, band.low, band.high, color=colour, alpha=0.16, linewidth=0)
        shown = [place for place, value in enumerate(band.mean) if value == value]
        if shown and len(results) > 1:
            end = shown[-1]
            ends.append(Ending(float(x[end]), float(band.mean[end]), result.title, colour))
    if measure.kind == "logarithmic":
        axes.set_yscale("log", nonpositive="mask")
    axes.set_xlim(left=0)
    axes.set_xlabel(_AXES[along])
    axes.set_title(measure.title, loc="left")
    label_ends(axes, ends)
