"""Step-time laws: means, supports, and what they refuse."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from favano.errors import BadInput
from favano.timing import (
    Deterministic,
    Exponential,
    Geometric,
    LogNormal,
    StepLaw,
    Trace,
    parse_law,
    read_trace,
)

CLIENTS, INDEX = np.arange(200)[:, None], np.arange(500)


@pytest.mark.parametrize("mean", [1.0, 2.0, 16.0])
@pytest.mark.parametrize(
    "law", [Geometric(), Exponential(), Deterministic(), LogNormal(0.5)], ids=lambda law: repr(law)
)
def test_means(law: StepLaw, mean: float) -> None:
    drawn = law.draw(0, CLIENTS, INDEX, np.array(mean))
    assert drawn.shape == (200, 500)
    error = drawn.std() / np.sqrt(drawn.size)
    assert abs(drawn.mean() - mean) <= 4 * error
    assert (drawn > 0).all()


def test_geometric_is_geometric_on_the_positive_integers() -> None:
    drawn = Geometric().draw(1, CLIENTS, INDEX, np.array(4.0)).ravel().astype(int)
    assert drawn.min() == 1
    counted = np.bincount(np.minimum(drawn, 25))[1:]
    expected = stats.geom.pmf(np.arange(1, 26), 0.25)
    expected[-1] = stats.geom.sf(24, 0.25)
    assert stats.chisquare(counted, expected * len(drawn)).pvalue > 1e-3


def test_lognormal_spread() -> None:
    drawn = np.log(LogNormal(0.5).draw(1, CLIENTS, INDEX, np.array(4.0)))
    assert drawn.std() == pytest.approx(0.5, abs=0.01)


def test_trace_is_replayed_and_repeats() -> None:
    trace = Trace((np.array([1.0, 2.0, 3.0]), np.array([5.0])))
    drawn = trace.draw(0, np.array([[0], [1]]), np.arange(5), trace.means()[:, None])
    assert drawn.tolist() == [[1, 2, 3, 1, 2], [5, 5, 5, 5, 5]]
    assert trace.means().tolist() == [2.0, 5.0]


def test_trace_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    path.write_text("client,duration\n0,1.5\n1,4\n0,2.5\n")
    rows = read_trace(path).rows
    assert [row.tolist() for row in rows] == [[1.5, 2.5], [4.0]]
    parsed = parse_law(f"trace:{path}")
    assert isinstance(parsed, Trace)


HEADER = "client,duration\n"
FIRST_LINE = r"need client,duration as the first line, found '"
LINE = r"need a client \(0, 1, ...\) and a positive duration$"


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ("", f"{FIRST_LINE}'"),
        ("0,1\n1,2\n", f"{FIRST_LINE}0,1'"),
        ("client\n0\n", f"{FIRST_LINE}client'"),
        (HEADER, "holds no step below its first line"),
        (f"{HEADER}\n\n", "holds no step below its first line"),
        (f"{HEADER}0,1\n2,1\n", "client 1 has no line; clients are numbered 0, 1, ... without"),
        (f"{HEADER}0,1\n1e18,1\n", "client 1 has no line; clients are numbered 0, 1, ... without"),
        (f"{HEADER}1,1\n", "client 0 has no line; clients are numbered 0, 1, ... without a gap"),
        (f"{HEADER}0,-1\n", f"line 2, '0,-1': {LINE}"),
        (f"{HEADER}0,1\n0,0\n", f"line 3, '0,0': {LINE}"),
        (f"{HEADER}0,inf\n", f"line 2, '0,inf': {LINE}"),
        (f"{HEADER}0,nan\n", f"line 2, '0,nan': {LINE}"),
        (f"{HEADER}0,x\n", f"line 2, '0,x': {LINE}"),
        (f"{HEADER}0,1,2\n", f"line 2, '0,1,2': {LINE}"),
        (f"{HEADER}0\n", f"line 2, '0': {LINE}"),
        (f"{HEADER}-1,2\n", f"line 2, '-1,2': {LINE}"),
        (f"{HEADER}0.5,2\n", f"line 2, '0.5,2': {LINE}"),
        (f"{HEADER}inf,2\n", f"line 2, 'inf,2': {LINE}"),
    ],
)
def test_bad_traces_are_refused(tmp_path: Path, content: str, rule: str) -> None:
    path = tmp_path / "steps.csv"
    path.write_text(content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(BadInput, match=f"^step_law=trace:{path}: {rule}"):
            read_trace(path)


def test_a_trace_may_be_written_by_numpy_or_a_spreadsheet(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    np.savetxt(path, [[0, 1.5], [1, 4.0], [0, 2.5]], delimiter=",", header="client,duration")
    assert [row.tolist() for row in read_trace(path).rows] == [[1.5, 2.5], [4.0]]
    path.write_text("\ufeffClient, Duration\r\n0, 2\r\n\r\n", encoding="utf-8")
    assert [row.tolist() for row in read_trace(path).rows] == [[2.0]]
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="is not a text file"):
        read_trace(path)


@pytest.mark.parametrize("text", ["", "geometrical", "geometric:2", "lognormal:x", "trace:"])
def test_unknown_laws_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match=f"step_law={text}: need"):
        parse_law(text)


def test_missing_trace_is_refused() -> None:
    with pytest.raises(BadInput, match=r"step_law=trace:nowhere.csv: no such file"):
        parse_law("trace:nowhere.csv")


def test_impossible_means_are_refused() -> None:
    with pytest.raises(BadInput, match=r"geometric steps need a finite mean >= 1"):
        Geometric().check(np.array([0.5]))
    with pytest.raises(BadInput, match="need finite positive means"):
        Exponential().check(np.array([np.inf]))
    with pytest.raises(BadInput, match="need a positive number"):
        LogNormal(0.0)
