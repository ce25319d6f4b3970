"""The final table in numbers for Python, and in LaTeX for papers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from favano.records import LOSS
from favano.report.cells import cells, columns
from favano.report.metric_words import interval_words
from favano.report.remarks import remark_sentences
from favano.report.reported_result import ReportedResult
from favano.report.table import CONFIDENCE, over, paired, reference
from favano.report.targets import (
    TARGET_COLUMNS,
    Target,
    TargetCost,
    cost_of,
    target_cells,
    target_of,
)
from favano.report.wording import DASH, MINUS

if TYPE_CHECKING:
    from pandas import DataFrame  # type: ignore[import-untyped]

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "%": r"\%", "&": r"\&", "#": r"\#",
    "_": r"\_", "$": r"\$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$",
    MINUS: "$-$", DASH: "--", "τ": r"$\tau$", "<": "$<$", ">": "$>$",
}  # fmt: skip


class ComparisonTable(dict[str, list[object]]):
    """Final numbers as columns with one entry per method: `table["accuracy"]`.

    Means are over seeds at the horizon, `_deviation` is over seeds, `difference` is against the
    first method, paired by seed, with `difference_low` and `difference_high`, a 95 % t interval
    (NaN below five seeds). `target` and what follows say what it took to reach this value of the
    leading metric; NaN where no seed did. `table.frame()` needs pandas. `remarks` say which of the
    results diverged or learnt nothing.
    """

    remarks: Sequence[str] = ()

    @classmethod
    def of(cls, results: Sequence[ReportedResult], target: float | None = None) -> ComparisonTable:
        """The numbers of results of one setting."""
        against, aim = reference(results), target_of(results, target)
        rows = [_row(result, against, aim) for result in results]
        keys = dict.fromkeys(key for row in rows for key in row)
        table = cls({key: [row.get(key, math.nan) for row in rows] for key in keys})
        table.remarks = remark_sentences(results)
        return table

    def frame(self) -> DataFrame:
        """The columns as a pandas frame."""
        from pandas import DataFrame

        return DataFrame(dict(self))

    def __str__(self) -> str:
        """Columns of text with a method per line, and the remarks."""
        texts = [[key, *map(_text, column)] for key, column in self.items()]
        widths = [max(map(len, column)) for column in texts]
        lines = zip(*texts, strict=True)
        sides = [str.ljust, *[str.rjust] * (len(texts) - 1)]
        rows = [
            "  ".join(
                side(word, width) for side, word, width in zip(sides, line, widths, strict=True)
            )
            for line in lines
        ]
        return "\n".join([*rows, *self.remarks])


def _row(
    result: ReportedResult, against: ReportedResult | None, target: Target | None
) -> dict[str, object]:
    runs = result.final_runs
    row: dict[str, object] = {"method": result.name, "seeds": len(runs)}
    for metric in (*result.metrics, LOSS) if runs else ():
        spread = over(run.value(metric.name) for run in runs)
        row |= {metric.name: spread.mean, f"{metric.name}_deviation": spread.deviation}
    pair = None if against is None or not runs else paired(result, against)
    low, high = (pair and pair.interval) or (math.nan, math.nan)
    if result is against or pair is None:
        row["difference"] = 0.0 if result is against else math.nan
        row |= {"difference_low": math.nan, "difference_high": math.nan}
    else:
        row |= {"difference": pair.mean, "difference_low": low, "difference_high": high}
    if runs:
        row["server_steps"] = over(run.server_steps for run in runs).mean
        row["local_steps"] = over(run.local_steps for run in runs).mean
        row["gigabits"] = over((run.bits_up + run.bits_down) / 1e9 for run in runs).mean
    if target is not None:
        cost: TargetCost = cost_of(result, target)
        row["target"] = target.value
        row["time_to_target"], row["local_steps_to_target"] = cost.time, cost.local_steps
        row["gigabits_to_target"], row["seeds_at_target"] = cost.gigabits, cost.reached
    return row


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def latex_table(results: Sequence[ReportedResult], target: float | None = None) -> str:
    """A `tabular` of the final numbers, for `\\usepackage{booktabs}`."""
    against, aim = reference(results), target_of(results, target)
    headings = {**columns(results), **({} if aim is None else dict(TARGET_COLUMNS))}
    rows = [
        cells(result, against) | ({} if aim is None else target_cells(result, aim))
        for result in results
    ]
    for result, row in zip(results, rows, strict=True):
        pair = None if against is None or result is against else paired(result, against)
        if pair is not None and pair.interval is not None:
            row["difference"] += f", {interval_words(result.leading, pair)}"
    plain = len(headings) - (0 if aim is None else len(TARGET_COLUMNS))
    names = [_escaped(text) for text in headings.values()]
    lines = [
        "% needs \\usepackage{booktabs}",
        f"\\begin{{tabular}}{{l{'r' * len(headings)}}}",
        "\\toprule",
        *_over(aim, plain),
        f"method & {' & '.join(names)} \\\\",
        "\\midrule",
        *(
            " & ".join([_escaped(result.title), *(_escaped(row[key]) for key in headings)]) + r" \\"
            for result, row in zip(results, rows, strict=True)
        ),
        "\\bottomrule",
        "\\end{tabular}",
        "% mean $\\pm$ standard deviation over seeds; differences are paired by seed (number of "
        f"pairs), with a {100 * CONFIDENCE:.0f} \\% t interval from five seeds on",
        *(f"% {_escaped(line)}" for line in remark_sentences(results)),
    ]
    return "\n".join(lines) + "\n"


def _over(target: Target | None, plain: int) -> list[str]:
    """The line above the headings that says what the last columns are about."""
    if target is None:
        return []
    first, last = plain + 2, plain + 1 + len(TARGET_COLUMNS)
    words = _escaped(f"to {target.words}")
    return [
        f"{'&' * plain} & \\multicolumn{{{len(TARGET_COLUMNS)}}}{{c}}{{{words}}} \\\\",
        f"\\cmidrule(l){{{first}-{last}}}",
    ]


def _escaped(text: str) -> str:
    """Text as LaTeX has it."""
    return "".join(_SPECIAL.get(character, character) for character in text)
