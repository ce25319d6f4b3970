"""The final table in numbers and in LaTeX."""

from __future__ import annotations

import math
import re
import runpy
from pathlib import Path

import pytest

from favano.errors import BadInput
from favano.results import Comparison, collect

from .conftest import Writer


def compared(folder: Path, write: Writer, seeds: int = 5) -> Comparison:
    gains = [0.01 * (seed + 1) for seed in range(seeds)]
    write(
        folder / "favano",
        {"algorithm": "favano"},
        [[0.1, 0.6, 0.8 - gain] for gain in gains],
        "complete",
    )
    write(folder / "fedbuff", {"algorithm": "fedbuff", "label": "A_b & 5 %"},
          [[0.1, 0.2, 0.8]] * seeds, "complete")  # fmt: skip
    return Comparison(collect([folder]))


def test_the_numbers(tmp_path: Path, write: Writer) -> None:
    """Gaps 1..5 points: 3 -+ 1.963, with t_4 = 2.776."""
    table = compared(tmp_path, write).table()
    assert table["method"] == ["favano", "A_b & 5 %"]
    assert table["accuracy"] == pytest.approx([0.77, 0.8])
    assert table["difference"] == pytest.approx([0.0, 0.03])
    assert table["difference_low"][1] == pytest.approx(0.03 - 0.01963, abs=1e-5)
    assert table["difference_high"][1] == pytest.approx(0.03 + 0.01963, abs=1e-5)
    assert math.isnan(float(str(table["difference_low"][0])))
    assert table["target"] == pytest.approx([0.72, 0.72])
    assert table["time_to_target"] == [20.0, 20.0]
    assert table["gigabits_to_target"] == [4.0, 4.0]
    assert table["seeds_at_target"] == [5, 5]
    assert table.frame().shape == (2, len(table))
    first, *others = str(table).splitlines()
    assert first.split()[:3] == ["method", "seeds", "accuracy"]
    assert {len(line) for line in others} == {len(first)}


def test_too_few_seeds_have_no_interval(tmp_path: Path, write: Writer) -> None:
    table = compared(tmp_path, write, seeds=4).table(target=0.5)
    assert math.isnan(float(str(table["difference_low"][1])))
    assert table["target"] == [0.5, 0.5]
    assert table["time_to_target"] == [10.0, 20.0]


def test_latex_is_balanced_and_escaped(tmp_path: Path, write: Writer) -> None:
    text = compared(tmp_path, write).to_latex()
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert r"A\_b \& 5 \% & " in text
    assert r"$+$" not in text
    assert "+3.0 $\\pm$ 1.6 (5), +1.0 to +5.0 points" in text
    (columns,) = re.findall(r"\\begin\{tabular\}\{(l r*)\}".replace(" ", ""), text)
    for row in rows[1:]:  # all but the one that spans columns
        assert len(re.findall(r"(?<!\\)&", row)) == len(columns) - 1
    span = int(re.findall(r"\\multicolumn\{(\d+)\}", rows[0])[0])
    assert len(re.findall(r"(?<!\\)&", rows[0])) == len(columns) - span
    assert rf"\cmidrule(l){{{len(columns) - span + 1}-{len(columns)}}}" in text
    for line in text.splitlines():
        assert line.isascii()
        assert line.startswith("%") or not re.search(r"(?<!\\)%", line)


def test_results_of_several_settings_are_no_table(tmp_path: Path, write: Writer) -> None:
    for dataset in ("digits", "mnist"):
        spec = {"algorithm": "favano", "dataset": dataset}
        write(tmp_path / dataset, spec, [[0.1, 0.2, 0.3]], "complete")
    comparison = Comparison(collect([tmp_path]))
    with pytest.raises(BadInput, match="need results of one setting"):
        comparison.table()
    with pytest.raises(BadInput, match="need results of one setting"):
        comparison.to_latex()


@pytest.mark.slow
def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """Sample weights, the table and LaTeX, in a script of 30 lines through public names."""
    example = Path(__file__).parents[2] / "examples" / "sample_weights.py"
    text = example.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 30
    assert re.findall(r"^(?:import|from) (.*)", text, re.MULTILINE) == ["favano"]
    runpy.run_path(str(example))
    out = capsys.readouterr().out
    assert "their share of all samples is" in out
    assert "FedBuff reaches 50 % after" in out
    assert out.count("\\begin{tabular}") == out.count("\\end{tabular}") == 1
