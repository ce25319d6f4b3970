from __future__ import annotations

from pathlib import Path

import pytest

from favano.errors import BadInput
from favano.report.settings import differing_keys, setting
from favano.results import collect
from tests.report.conftest import Writer

FILES = "spec.toml and history.csv, or runs/ of favano reproduce"
NO_RESULT = f"holds no result (need {FILES}, here or in its subfolders)"


def test_a_parent_gives_its_subfolders_with_favano_first(compared: Path) -> None:
    results = collect([compared])
    assert [result.name for result in results] == ["favano", "fedavg", "fedbuff", "quafl"]
    assert [result.status for result in results] == ["complete", "complete", "partial", "missing"]
    assert results[3].rows == []
    assert results[3].runs == ()


def test_paths_keep_their_order(compared: Path) -> None:
    results = collect([compared / "fedavg", compared / "favano"])
    assert [result.title for result in results] == ["FedAvg", "FAVANO"]


def test_a_parent_may_hold_other_folders_and_a_specification(compared: Path) -> None:
    (compared / "spec.toml").write_text("seeds = 2\n")
    (compared / "notes").mkdir()
    assert len(collect([compared])) == 4


def test_bad_folders_are_refused(tmp_path: Path, compared: Path) -> None:
    absent = tmp_path / "absent"
    with pytest.raises(BadInput) as refusal:
        collect([absent])
    assert str(refusal.value) == f"results={absent}: no such folder"
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(BadInput) as refusal:
        collect([empty])
    assert str(refusal.value) == f"results={empty}: {NO_RESULT}"
    with pytest.raises(BadInput) as refusal:
        collect([compared / "quafl"])
    assert str(refusal.value) == f"results={compared / 'quafl'}: {NO_RESULT}"
    with pytest.raises(BadInput, match="given twice"):
        collect([compared, compared / "favano"])
    with pytest.raises(BadInput, match="at least one"):
        collect([])


def test_a_history_without_specification_is_not_passed_over(compared: Path) -> None:
    (compared / "fedavg" / "spec.toml").unlink()
    with pytest.raises(BadInput, match=r"fedavg: history\.csv without spec\.toml"):
        collect([compared])


def test_one_differing_key_names_results_of_one_algorithm(tmp_path: Path, write: Writer) -> None:
    for seed in (0, 3):
        spec = {"algorithm": "favano", "seed": seed}
        write(tmp_path / f"run-{seed}", spec, [[0.1, 0.2, 0.3]], "complete")
    write(tmp_path / "other", {"algorithm": "fedavg"}, [[0.1, 0.2, 0.3]], "complete")
    names = [result.name for result in collect([tmp_path])]
    assert names == ["fedavg", "favano (seed 0)", "favano (seed 3)"]


def test_several_keys_are_used_when_none_suffices(tmp_path: Path, write: Writer) -> None:
    for steps, fast in ((10, 0.5), (10, 0.25), (20, 0.5)):
        spec = {"algorithm": "favano", "local_steps": steps, "fast_fraction": fast}
        write(tmp_path / f"{steps}-{fast}", spec, [[0.1, 0.2, 0.3]], "complete")
    titles = [result.title for result in collect([tmp_path])]
    assert titles[0] == "FAVANO (fast fraction 0.25, local steps 10)"
    assert len(set(titles)) == 3


def test_where_much_differs_the_fewest_keys_that_suffice(tmp_path: Path, write: Writer) -> None:
    variants = [
        {"reweight": "none", "weights": "exact", "precision": "tf32", "kernels": "a"},
        {"reweight": "none", "weights": "given", "precision": "tf32", "kernels": "b"},
        {"reweight": "exact", "weights": "exact", "precision": "tf32", "kernels": "b"},
        {"reweight": "exact", "weights": "given", "precision": "bf16", "kernels": "b"},
    ]
    for number, keys in enumerate(variants):
        seeds = [[0.1, 0.2]] * (number % 2 + 1)
        write(tmp_path / f"{number}", {"algorithm": "favano", **keys}, seeds, "complete")
    names = [result.name for result in collect([tmp_path])]
    assert names[0] == "favano (reweight none, weights exact)"
    assert len(set(names)) == 4
    assert not any("seeds" in name or "kernels" in name for name in names)


def test_equal_specifications_are_told_apart_by_folder(tmp_path: Path, write: Writer) -> None:
    for parent in ("a", "b"):
        write(tmp_path / parent / "favano", {"algorithm": "favano"}, [[0.1, 0.2]], "complete")
    names = [result.name for result in collect([tmp_path / "a", tmp_path / "b"])]
    assert names == ["favano (a/favano)", "favano (b/favano)"]


def test_settings_in_words(tmp_path: Path, write: Writer) -> None:
    spec = {"algorithm": "favano", "rate_decay": False, "given_weights": [1.0, 2.0], "p": 2 / 3}
    write(tmp_path / "one", spec, [[0.1, 0.2]], "complete")
    write(tmp_path / "two", {"algorithm": "fedavg"}, [[0.1, 0.2]], "complete")
    results = collect([tmp_path])
    words = [setting(results[0], key) for key in ("rate_decay", "given_weights", "p", "absent")]
    assert words == ["false", "1.0, 2.0", "0.666667", "not set"]
    assert set(differing_keys(results)) == {"algorithm", "rate_decay", "given_weights", "p"}
