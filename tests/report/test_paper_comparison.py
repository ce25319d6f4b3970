"""Our numbers beside the paper's, by hand."""

from __future__ import annotations

from favano.records import Ending, Entry
from favano.report.paper_comparison import (
    beside_paper,
    beside_paper_long,
    cell,
    chosen_rates,
    cost_sentence,
    leads,
    other_readings,
)

NAMES = {"fedavg": "FedAvg", "favano": "FAVANO"}
COLUMNS = {"iid": "IID", "two": "two classes"}
PAPER = {("fedavg", "iid"): (90.0, 2.0), ("favano", "iid"): (95.0, 0.5)}


def entry(
    algorithm: str,
    column: str,
    seed: int,
    accuracy: float | None,
    status: Ending = "complete",
    reading: str = "paper",
) -> Entry:
    return Entry(reading, algorithm, column, seed, status, 0.5, 1.0, accuracy)


RUNS = [
    entry("fedavg", "iid", 0, 0.91),
    entry("fedavg", "iid", 1, 0.93),
    entry("favano", "iid", 0, 0.92),
    entry("favano", "iid", 1, None, "missing"),
    entry("fedavg", "two", 0, None, "missing"),
    entry("fedavg", "two", 1, None, "missing"),
    entry("favano", "two", 0, 0.5, "diverged"),
    entry("favano", "two", 1, 0.7),
]


def test_paper_ours_and_the_difference_in_its_deviations() -> None:
    sheet = beside_paper("", RUNS, NAMES, COLUMNS, PAPER)
    assert sheet.headings[:4] == ["method", "IID: paper", "ours", "difference"]
    fedavg, favano = sheet.rows
    assert fedavg[:4] == ["FedAvg", "90.0 ± 2.0", "**92.0 ± 1.4**", "+1.0 sd"]
    assert favano[:4] == ["FAVANO", "95.0 ± 0.5", "**92.0 (partial: 1 of 2 seeds)**", "−6.0 sd"]
    assert fedavg[4:] == ["", "missing", ""]
    assert favano[4:] == ["", "**70.0 (1 of 2 diverged)**", ""]
    assert "over 2 seeds" in sheet.note


def test_the_note_says_the_time_and_whose_numbers_are_later() -> None:
    runs = [run._replace(time=5000.0) for run in RUNS]
    note = beside_paper("", runs, NAMES, COLUMNS, {}).note
    assert note == (
        "Test accuracy in % of the last model made by time 5,000, mean ± standard deviation over "
        "2 seeds."
    )
    later = [runs[0]._replace(time=5282.0), *runs[1:]]
    assert (
        "time 5,000 (of FedAvg: by time 5,282)"
        in beside_paper("", later, NAMES, COLUMNS, PAPER).note
    )
    assert beside_paper("", runs[:1], NAMES, COLUMNS, {}).note.endswith("5,000, one seed.")


def test_the_long_form_says_the_same() -> None:
    rows = beside_paper_long("", RUNS, NAMES, COLUMNS, PAPER).rows
    assert [row[:2] for row in rows] == [
        ["IID", "FedAvg"], ["", "FAVANO"], ["two classes", "FedAvg"], ["", "FAVANO"],
    ]  # fmt: skip
    assert rows[0][2:] == ["90.0 ± 2.0", "**92.0 ± 1.4**", "+1.0 sd"]


def test_without_the_papers_numbers_ours_stand_alone() -> None:
    sheet = beside_paper("", RUNS, NAMES, COLUMNS, {})
    assert sheet.headings == ["method", "IID", "two classes"]
    assert sheet.rows[0] == ["FedAvg", "**92.0 ± 1.4**", "missing"]


def test_all_diverged_is_not_a_number() -> None:
    gone = [entry("favano", "iid", seed, 0.1, "diverged") for seed in (0, 1)]
    assert cell(gone, "favano", "iid").words == "diverged (2 of 2 diverged)"


def test_leads_are_paired_by_seed() -> None:
    sheet = leads("", [*RUNS[:3], entry("favano", "iid", 1, 0.92)], NAMES, COLUMNS)
    assert sheet.rows == [["FAVANO − FedAvg", "0.0 (1 of 2)", "missing"]]


def test_readings_of_several_methods_name_the_method() -> None:
    entries = [
        entry("favano", "iid", 0, 0.9, reading="plain"),
        entry("favano", "two", 0, 0.8, reading="free"),
        entry("fedavg", "two", 0, 0.7, reading="free"),
    ]
    texts = {"plain": "FAVANO, plain", "free": "free draw"}
    assert other_readings(entries, texts, NAMES, COLUMNS).rows == [
        ["FAVANO, plain", "90.0", ""],
        ["free draw: FAVANO", "", "80.0"],
        ["free draw: FedAvg", "", "70.0"],
    ]


def test_rates_on_the_edge_of_their_grid_are_marked() -> None:
    tried = [
        entry("fedavg", "iid", 1000, accuracy)._replace(learning_rate=rate)
        for rate, accuracy in ((0.1, 0.5), (0.2, 0.9), (0.4, 0.6))
    ] + [
        entry("favano", "iid", 1000, accuracy)._replace(learning_rate=rate)
        for rate, accuracy in ((0.1, 0.5), (0.2, 0.6), (0.4, 0.9))
    ]
    sheet = chosen_rates(tried, NAMES, COLUMNS)
    assert sheet.rows == [
        ["FedAvg", "0.2 / 1", "missing"],
        ["FAVANO", "0.4 / 1 (edge)", "missing"],
    ]
    assert "best of 3 pairs" in sheet.note
    unfinished = [*tried, entry("favano", "iid", 1001, None, "missing")]
    assert chosen_rates(unfinished, NAMES, COLUMNS).rows[1][1] == "partial search"
    assert "seed 1000;" in sheet.note


def test_costs_are_added_up_where_they_are_known() -> None:
    made = [
        entry("favano", "iid", seed, 0.9)._replace(
            machine_seconds=30.0, energy_wh=2.0, co2_grams=0.5, hardware="a desk"
        )
        for seed in (0, 1)
    ]
    missing = entry("favano", "iid", 2, None, "missing")
    assert cost_sentence([*made, missing]) == (
        "2 runs took 60 s of a desk: an estimated 4 Wh and 1 g CO2e."
    )
    assert cost_sentence(RUNS[:3]) == "3 runs."
