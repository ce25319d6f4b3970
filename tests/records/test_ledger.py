from __future__ import annotations

import pytest

from favano.records import Entry, Rates, entries_from_csv, entries_to_csv, rates_tried

ONE = Entry(
    "paper", "favano", "non-iid-1/9-fast", 3, "complete", 0.5, 1.0, 0.1 + 0.2, 1e-17, None, 3e9,
    5000.0, 714, 129642, 4.3, None, None, None, "x86, 2 cores", "0.1.0", "ab12",
)  # fmt: skip


def test_entries_read_back_as_they_were() -> None:
    missing = Entry("s = 5, QNN", "favano", "iid", 0, "missing")
    assert entries_from_csv(entries_to_csv([ONE, missing])) == [ONE, missing]
    assert type(entries_from_csv(entries_to_csv([ONE]))[0].server_steps) is int


def test_an_unknown_status_is_refused() -> None:
    text = entries_to_csv([ONE]).replace("complete", "done")
    with pytest.raises(ValueError, match="status done: need one of complete, diverged, missing"):
        entries_from_csv(text)


def test_rates_are_ranked_by_mean_accuracy() -> None:
    def entry(rate: float, accuracy: float) -> Entry:
        return ONE._replace(learning_rate=rate, accuracy=accuracy)

    tried = [entry(0.5, 0.8), entry(0.5, 0.6), entry(1.0, 0.9), entry(1.0, 0.7)]
    (ranked,) = rates_tried(tried).values()
    assert [rates[:2] for rates in ranked] == [(1.0, 1.0), (0.5, 1.0)]
    assert [rates.accuracy for rates in ranked] == pytest.approx([0.8, 0.7])
    lost = [*tried, entry(2.0, 0.99)._replace(status="diverged")]
    assert rates_tried(lost)["favano", ONE.column][-1] == Rates(2.0, 1.0, 0.0)
