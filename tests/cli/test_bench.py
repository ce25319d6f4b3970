"""`favano bench` as people call it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest

from favano.cli.bench import benched_spec
from favano.types import Kernels
from tests.cli.test_cli import Program, favano

__all__ = ["favano"]  # the fixture

FEW = ["--clients", "10", "--selected", "3", "--local-steps", "4"]


def test_bench_prints_one_document(favano: Program) -> None:
    code, out, err = favano(
        "bench", *FEW, "--seconds", "0.2", "--repeats", "1", "--workers", "2", "--json"
    )
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert set(document) == {"spec", "repeats", "schedule", "systems", "ratio"}
    assert document["spec"]["clients"] == 10
    assert document["schedule"]["local_steps"] >= document["schedule"]["critical_path"] > 0
    names = [system["name"] for system in document["systems"]]
    assert (names[0], names[-1]) == ("plain loop", "lanes")
    for system in document["systems"]:
        assert set(system["steps_per_second"]) == {"median", "min", "max"}
        assert system["images_per_second"]["median"] > system["steps_per_second"]["median"] > 0
        assert system["kernels"] in get_args(Kernels)
        assert (system["traced"], system["tracing"]) == ([], 0.0)  # too little to do
    assert document["systems"][-1]["start_up"]["warm"]["median"] > 0
    assert set(document["systems"][-1]["shares"]) == {"lane_occupancy", "main_process"}
    assert document["ratio"]["median"] > 0


def test_bench_prints_a_table(favano: Program) -> None:
    code, out, err = favano("bench", *FEW, "--seconds", "0.05", "--repeats", "1")
    assert (code, err) == (0, "")
    assert "local steps/s" in out
    assert "start-up, seconds" in out
    assert "the first time" in out
    assert "autograd" in out
    assert "critical path" in out


def test_several_seeds_share_a_gpu_unless_their_number_is_given(tmp_path: Path) -> None:
    assert benched_spec(None, {}).run.seeds == 1
    assert benched_spec(None, {"device": "cuda"}).run.seeds == 10
    assert benched_spec(None, {"device": "cuda", "seeds": 1}).run.seeds == 1
    config = tmp_path / "run.toml"
    config.write_text('[run]\nseeds = 2\ndevice = "cuda"\n')
    assert benched_spec(config, {}).run.seeds == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--repeats", "0"], "favano: repeats=0: need 1 or more"),
        (["--seconds", "nan"], "favano: seconds=nan: need a positive number"),
        (["--workers", "0"], "favano: workers=0: need 1 or more"),
        (["--horizon", "700"], "favano: horizon=700: bench chooses it by --seconds"),
        (["--synthetic"], "favano: dataset=digits: has no synthetic stand-in"),
        (["--clients", "2000", "--split", "iid"], "favano: split=iid: client 1437 has no"),
    ],
)
def test_bad_input_is_refused(arguments: list[str], message: str, favano: Program) -> None:
    code, out, err = favano("bench", *arguments)
    assert (code, out) == (2, "")
    assert message in err
