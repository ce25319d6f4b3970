"""Named readings of the paper are sets of keys, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

import favano
from favano.errors import BadInput
from favano.planning.comparison import comparison, keys_with_readings
from favano.planning.planned import plan_seed
from favano.specification.config import read_config
from favano.specification.presets import resolve
from favano.specification.readings import KEYS, READINGS, with_readings
from favano.specification.spec import Spec, make_spec, part_options

POLLS = {"overrun", "step_count", "interruption", "strict_ties", "starts_at_zero"}
OWNER = {  # FAVANO has no exact weights with kept steps
    "one-draw-rounds": "fedavg", "mean-rounds": "fedavg", "no-late-round": "fedavg",
    "kept-steps": "quafl", "simulator": "quafl",
}  # fmt: skip


def spec_with(reading: object, **keys: object) -> Spec:
    return resolve(make_spec(keys_with_readings({"reading": reading, **keys})))


@pytest.mark.parametrize("name", READINGS)
def test_a_reading_is_its_keys(name: str) -> None:
    """The same specification as with its keys, which all exist and differ from their defaults."""
    method = OWNER.get(name, "favano")
    spec = spec_with(name, algorithm=method)
    assert spec == resolve(make_spec({"algorithm": method, **READINGS[name]}))
    assert READINGS[name].items() <= spec.given.items()
    assert READINGS[name].keys() <= part_options().keys()
    plan_seed(spec, 0)


def test_every_such_key_has_a_reading() -> None:
    assert set(KEYS) == {
        "interruption", "starts_at_zero", "idle_in_interaction", "strict_ties", "overrun",
        "step_count", "round_time", "drop_last", "speed_rounding", "speed_order",
    }  # fmt: skip


def test_several_readings() -> None:
    both = spec_with("strict-ties, slow-first")
    assert both == spec_with(["strict-ties", "slow-first"])
    assert (both.clock.strict_ties, both.fleet.speed_order) == (True, "slow-first")


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"reading": "litteral"}, "^reading=litteral: unknown; did you mean literal\\?$"),
        ({"reading": "literal,literal-zero"}, "step_count=literal is given; remove one of them"),
        ({"reading": "kept-steps", "interruption": "resume"}, "interruption=resume is given"),
        ({"reading": "literal", "algorithm": "fedavg"}, "sets step_count, which has no effect"),
        ({"reading": "mean-rounds"}, "sets round_time, which has no effect"),
        ({"reading": 3}, "^reading=3: need a name, or a list of names$"),
        ({"reading": ""}, "^reading=: unknown"),
    ],
)
def test_a_reading_is_refused(keys: dict[str, object], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        keys_with_readings(keys)


def test_what_is_given_twice_alike_is_no_contradiction() -> None:
    keys = {"reading": "kept-steps", "interruption": "keep"}
    assert with_readings(keys, lambda: POLLS) == {"interruption": "keep"}


def test_the_simulator_is_read_as_far_as_a_method_goes() -> None:
    """FedAvg has no polls; its fleet is the simulator's."""
    spec = spec_with("simulator", algorithm="fedavg")
    assert spec.fleet.speed_order == "slow-first"
    assert not spec.clock.strict_ties
    favano, fedavg = comparison(
        {"reading": "simulator"}, [{"algorithm": "favano"}, {"algorithm": "fedavg"}]
    )
    assert (favano.clock.interruption, fedavg.clock.interruption) == ("keep", "redraw")
    assert favano.fleet == fedavg.fleet == spec.fleet


def test_files_and_python_name_readings(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('reading = ["strict-ties", "overrun"]\n[[method]]\nname = "favano"\n')
    made = resolve(make_spec(keys_with_readings(read_config(path).first)))
    planned = favano.plan(horizon=500, reading=["strict-ties", "overrun"]).planned
    assert made.clock == planned.spec.clock
    assert made.clock.overrun
