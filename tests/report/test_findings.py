from __future__ import annotations

import json
from pathlib import Path

from favano.report import sentence, setting_sentence, title_of
from favano.results import collect

from .conftest import Writer


def test_favano_above_the_best_of_the_others(compared: Path) -> None:
    assert sentence(collect([compared])) == (
        "After 20 units of time FAVANO reaches 75.0 %, 20.0 points above FedAvg, with as many "
        "local steps and bits (2 seeds, higher in 2 of 2, too few seeds to say how sure). "
        "Not ranked: FedBuff (partial) and QuAFL (missing)."
    )


def test_favano_below_is_said(tmp_path: Path, write: Writer) -> None:
    write(
        tmp_path / "favano", {"algorithm": "favano"}, [[0.1, 0.2, 0.5], [0.1, 0.2, 0.6]], "complete"
    )
    write(
        tmp_path / "fedavg", {"algorithm": "fedavg"}, [[0.1, 0.2, 0.4], [0.1, 0.2, 0.8]], "complete"
    )
    write(
        tmp_path / "quafl", {"algorithm": "quafl"}, [[0.1, 0.2, 0.3], [0.1, 0.2, 0.3]], "complete"
    )
    assert sentence(collect([tmp_path])) == (
        "After 20 units of time FedAvg reaches 60.0 %, the highest accuracy; "
        "FAVANO 55.0 %, 5.0 points below, with as many local steps and bits (2 seeds, lower in 1 "
        "of 2, too few seeds to say how sure)."
    )


def test_without_favano_the_best_is_named(tmp_path: Path, write: Writer) -> None:
    write(tmp_path / "fedavg", {"algorithm": "fedavg"}, [[0.1, 0.2, 0.4]], "complete")
    write(tmp_path / "quafl", {"algorithm": "quafl"}, [[0.1, 0.2, 0.5]], "complete")
    (tmp_path / "favano").mkdir()
    (tmp_path / "favano" / "spec.toml").write_text('[[method]]\nname = "favano"\n')
    assert sentence(collect([tmp_path])) == (
        "After 20 units of time QuAFL reaches 50.0 %, 10.0 points above FedAvg, with as many local "
        "steps and bits (1 seed, too few seeds to say how sure). "
        "Not ranked: FAVANO (missing)."
    )


def test_a_difference_too_small_to_print_is_no_victory(tmp_path: Path, write: Writer) -> None:
    write(tmp_path / "favano", {"algorithm": "favano"}, [[0.1, 0.2, 0.5001]], "complete")
    write(tmp_path / "fedavg", {"algorithm": "fedavg"}, [[0.1, 0.2, 0.5]], "complete")
    assert "level with FedAvg to a tenth of a point, with as" in sentence(collect([tmp_path]))


def test_one_result_alone(compared: Path) -> None:
    alone = sentence(collect([compared / "favano"]))
    assert alone == "After 20 units of time FAVANO reaches 75.0 % (2 seeds)."
    assert sentence(collect([compared / "fedbuff"])) == "Nothing to rank: FedBuff (partial)."


def test_only_common_seeds_decide(tmp_path: Path, write: Writer) -> None:
    write(tmp_path / "favano", {"algorithm": "favano"}, [[0.1, 0.2, 0.5]], "complete")
    accuracies = [[0.1, 0.2, 0.4], [0.1, 0.2, 0.9]]
    write(tmp_path / "fedavg", {"algorithm": "fedavg"}, accuracies, "complete")
    assert "10.0 points above FedAvg, with" in (words := sentence(collect([tmp_path])))
    assert "(1 seed, too few seeds to say how sure)" in words


def test_different_tasks_are_not_ranked(tmp_path: Path, write: Writer) -> None:
    for dataset in ("digits", "mnist"):
        spec = {"algorithm": "favano", "dataset": dataset}
        write(tmp_path / dataset, spec, [[0.1, 0.2, 0.3]], "complete")
    assert "are not ranked" in sentence(collect([tmp_path]))


def test_what_was_compared(tmp_path: Path, write: Writer) -> None:
    spec = {"split": "two-class", "clients": 100, "selected": 20, "learning_rate": 0.5}
    for name, steps in (("favano", 20), ("fedavg", 10)):
        whole = {"algorithm": name, "local_steps": steps, **spec}
        write(tmp_path / name, whole, [[0.1, 0.2, 0.3]] * 3, "complete")
    assert setting_sentence(collect([tmp_path])) == (
        "FAVANO and FedAvg on digits, split two-class, n = 100 clients, s = 20 contacted at a "
        "time, K = 20 or 10 local steps at most, learning rate 0.5, up to time 20, 3 seeds."
    )


def test_a_share_of_the_data_is_said(tmp_path: Path, write: Writer) -> None:
    for name, share in (("favano", 0.1), ("fedavg", 0.1), ("quafl", 1.0)):
        spec = {"algorithm": name, "data_fraction": share}
        write(tmp_path / name, spec, [[0.1, 0.2, 0.3]], "complete")
    folders = [tmp_path / "favano", tmp_path / "fedavg"]
    assert setting_sentence(collect(folders)).startswith("FAVANO and FedAvg on 10 % of digits")
    assert "on 10 % or 100 % of digits" in setting_sentence(collect([tmp_path]))


def test_what_came_after_the_horizon_is_not_ranked(tmp_path: Path, write: Writer) -> None:
    """FedAvg's last round ends at 30, past the horizon of 20, with a better model."""
    favano = write(tmp_path / "favano", {"algorithm": "favano"}, [[0.1, 0.2, 0.5]], "complete")
    fedavg = write(tmp_path / "fedavg", {"algorithm": "fedavg"}, [[0.1, 0.2, 0.4, 0.9]], "complete")
    assert sentence(collect([favano, fedavg])) == (
        "After 20 units of time FAVANO reaches 50.0 %, 10.0 points above FedAvg, with as many "
        "local steps and bits (1 seed, too few seeds to say how sure)."
    )


def test_a_title_names_methods_and_data(tmp_path: Path, compared: Path, write: Writer) -> None:
    assert title_of(collect([compared])) == "FAVANO, FedAvg, FedBuff and QuAFL on digits"
    for number in range(7):
        name = f"method-{number}"
        write(tmp_path / "many" / name, {"algorithm": name}, [[0.1, 0.2, 0.3]], "complete")
    write(tmp_path / "many" / "x", {"algorithm": "x", "dataset": "mnist"}, [[0.1]], "complete")
    assert title_of(collect([tmp_path / "many"])) == "8 methods on digits or mnist"


def finals(values: list[float]) -> list[list[float]]:
    """A history per seed that ends with this accuracy."""
    return [[0.1, 0.2, value] for value in values]


def test_five_seeds_have_an_interval(tmp_path: Path, write: Writer) -> None:
    """By hand: gaps 1..5 points, mean 3, deviation 1.581, t_4 = 2.776: 3 -+ 1.963."""
    write(tmp_path / "favano", {"algorithm": "favano"},
          finals([0.51, 0.52, 0.53, 0.54, 0.55]), "complete")  # fmt: skip
    write(tmp_path / "fedavg", {"algorithm": "fedavg"}, finals([0.5] * 5), "complete")
    words = sentence(collect([tmp_path]))
    assert "3.0 points above FedAvg" in words
    assert "higher in 5 of 5; 95 % interval of the difference +1.0 to +5.0 points)" in words
    assert "too few" not in words


def test_an_interval_around_none_is_said(tmp_path: Path, write: Writer) -> None:
    write(tmp_path / "favano", {"algorithm": "favano"},
          finals([0.45, 0.47, 0.51, 0.55, 0.57]), "complete")  # fmt: skip
    write(tmp_path / "fedavg", {"algorithm": "fedavg"}, finals([0.5] * 5), "complete")
    assert sentence(collect([tmp_path])).endswith(" points, which includes 0).")


def test_four_seeds_are_too_few(tmp_path: Path, write: Writer) -> None:
    for name, value in (("favano", 0.9), ("fedavg", 0.5)):
        write(tmp_path / name, {"algorithm": name}, finals([value, value + 0.01] * 2), "complete")
    words = sentence(collect([tmp_path]))
    assert "higher in 4 of 4, too few seeds to say how sure)" in words
    assert "interval" not in words


def test_the_cost_is_beside_the_difference(tmp_path: Path, write: Writer) -> None:
    """FAVANO makes 7 times the steps, and sends 16 times the bits."""
    for name, value, steps, bits in (("favano", 0.9, 7, 16), ("fedavg", 0.5, 1, 1)):
        folder = write(tmp_path / name, {"algorithm": name}, finals([value] * 2), "complete")
        summary = json.loads((folder / "summary.json").read_text())
        for run in summary["runs"]:
            run["local_steps"] *= steps
            run["bits_up"], run["bits_down"] = run["bits_up"] * bits, run["bits_down"] * bits
        (folder / "summary.json").write_text(json.dumps(summary))
    words = sentence(collect([tmp_path]))
    assert ", with 7 times the local steps and 16 times the bits (2 seeds" in words
