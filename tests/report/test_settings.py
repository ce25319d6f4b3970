from __future__ import annotations

from pathlib import Path

from favano.report import by_setting, paired
from favano.results import collect

from .conftest import Writer


def columns(folder: Path, write: Writer) -> None:
    """Two methods in three settings, each method with a rate of its own."""
    for split, fast in (("iid", 2 / 3), ("two-class", 2 / 3), ("two-class", 1 / 9)):
        for algorithm, rate in (("favano", 0.5), ("fedavg", 0.1)):
            spec = {"algorithm": algorithm, "split": split, "fast_fraction": fast}
            place = folder / f"{split}-{fast:.2f}" / algorithm
            write(place, {**spec, "learning_rate": rate}, [[0.1, 0.2, 0.3]], "complete")


def test_a_table_of_the_paper(tmp_path: Path, write: Writer) -> None:
    columns(tmp_path, write)
    settings = by_setting(collect([tmp_path]))
    assert [setting.title for setting in settings] == [
        "split iid, fast fraction 0.667",
        "split two-class, fast fraction 0.111",
        "split two-class, fast fraction 0.667",
    ]
    for setting in settings:
        assert [result.title for result in setting.results] == ["FAVANO", "FedAvg"]


def test_settings_are_not_subtracted_from_each_other(tmp_path: Path, write: Writer) -> None:
    columns(tmp_path, write)
    first, second, _ = by_setting(collect([tmp_path]))
    assert paired(first.results[1], first.results[0]) is not None
    assert paired(first.results[0], second.results[0]) is None


def test_hyperparameters_make_methods_and_not_settings(tmp_path: Path, write: Writer) -> None:
    for steps in (10, 20):
        spec = {"algorithm": "favano", "local_steps": steps}
        write(tmp_path / str(steps), spec, [[0.1, 0.2, 0.3]], "complete")
    (alone,) = by_setting(collect([tmp_path]))
    assert alone.title == ""
    assert [result.title for result in alone.results] == [
        "FAVANO (local steps 10)",
        "FAVANO (local steps 20)",
    ]


def test_a_result_that_says_less_joins_the_first_it_does_not_contradict(compared: Path) -> None:
    (alone,) = by_setting(collect([compared]))
    assert alone.results[3].title == "QuAFL"


def test_data_sets_need_no_key(tmp_path: Path, write: Writer) -> None:
    for dataset in ("digits", "mnist"):
        spec = {"algorithm": "favano", "dataset": dataset}
        write(tmp_path / dataset, spec, [[0.1, 0.2]], "complete")
    assert [setting.title for setting in by_setting(collect([tmp_path]))] == ["digits", "mnist"]
