"""Which keys of local training and of a run go together, at the edges of each rule."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from favano.errors import BadInput
from favano.options import LIMIT
from favano.specification.parts import Fleet, TrainingPart
from favano.specification.spec import changed, make_spec


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"beta2": 0.0}, "beta2=0.0: requires optimiser=adam or adamw"),
        ({"epsilon": 1e-6}, "epsilon=1e-06: requires optimiser=adam or adamw"),
        ({"nesterov": True}, "nesterov=True: requires optimiser=sgd and a momentum"),
        ({"nesterov": True, "momentum": 0.0}, "nesterov=True: requires optimiser=sgd and"),
        ({"nesterov": True, "optimiser": "adam"}, "nesterov=True: requires optimiser=sgd and"),
        ({"optimiser_state": "kept"}, "optimiser_state=kept: requires a momentum"),
        ({"rate_length": 5.0}, "rate_length=5.0: requires a rate_schedule"),
        ({"rate_over": "steps"}, "rate_over=steps: requires a rate_schedule or a warm_up"),
        ({"rate_over": "steps", "rate_schedule": "cosine"}, "rate_over=steps: need rate_length"),
        ({"rate_decay": True, "rate_schedule": "cosine"}, "rate_decay=True: is a schedule of its"),
        ({"weight_bits": 3}, "weight_bits=3: requires quantise=luq"),
        ({"seed": LIMIT - 2, "seeds": 3}, f"need at most {LIMIT - 3} with seeds=3"),
        ({"kernels": "native", "device": "cuda"}, "kernels=native: need auto with device=cuda"),
        ({"codec_bits": 8}, "codec_bits=8: requires a codec"),
        ({"codec": "qsgd", "codec_bits": 1}, "codec_bits=1: need 2..32 for codec=qsgd"),
        ({"codec": "qsgd", "codec_scale": 0.1}, "codec_scale=0.1: requires codec=lattice"),
        ({"codec": "qsgd", "codec_dither": True}, "codec_dither=True: requires codec=lattice"),
        ({"momentum": 0.1, "track_bound": True}, "track_bound=True: need plain SGD"),
        ({"clip": 1.0, "track_bound": True}, "track_bound=True: need plain SGD"),
        ({"weight_decay": 0.1, "track_bound": True}, "track_bound=True: need plain SGD"),
        ({"robust": "median", "track_bound": True}, "track_bound=True: need plain SGD"),
        ({"quantise": "luq", "track_bound": True}, "track_bound=True: need quantise=none"),
        ({"clients": 5, "selected": 6}, r"selected=6: need 1..clients \(5\)"),
        ({"label": "a\tb"}, "need printable characters"),
    ],
)
def test_refused(keys: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=f"{message}"):
        make_spec(keys)


@pytest.mark.parametrize(
    "keys",
    [
        {"beta2": 0.0, "optimiser": "adam"},
        {"nesterov": True, "momentum": 0.5},
        {"optimiser_state": "kept", "momentum": 0.5},
        {"optimiser_state": "kept", "optimiser": "adamw"},
        {"rate_over": "steps", "warm_up": 3.0},
        {"rate_over": "steps", "rate_schedule": "cosine", "rate_length": 5.0},
        {"seed": LIMIT - 3, "seeds": 3},
        {"codec": "qsgd", "codec_bits": 2},
        {"codec": "min-max", "codec_bits": 1},
        {"clients": 5, "selected": 5},
        {"track_bound": True, "momentum": 0.0, "weight_decay": 0.0},
    ],
)
def test_accepted(keys: dict[str, object]) -> None:
    assert make_spec(keys).given.items() >= keys.items()


def test_zero_is_not_the_usual_number() -> None:
    part = TrainingPart(optimiser="adamw", momentum=0.0, weight_decay=0.0, beta2=0.0)
    assert (part.local_optimiser.momentum, part.local_optimiser.weight_decay) == (0.0, 0.0)
    assert part.local_optimiser.beta2 == 0.0
    usual = TrainingPart(optimiser="adamw").local_optimiser
    assert (usual.momentum, usual.weight_decay, usual.beta2) == (0.9, 0.01, 0.999)


def test_a_schedule_ends_at_its_length_or_with_the_run() -> None:
    """Half of the way down, in time or in a client's own steps."""
    time, steps = np.array([0.0, 50.0, 100.0]), np.array([0, 10, 20])
    run = TrainingPart(rate_schedule="linear")
    assert run.rate_factors(time, steps, 100.0).tolist() == [1.0, 0.5, 0.0]
    longer = TrainingPart(rate_schedule="linear", rate_length=200.0)
    assert longer.rate_factors(time, steps, 100.0).tolist() == [1.0, 0.75, 0.5]
    own = TrainingPart(rate_schedule="linear", rate_over="steps", rate_length=40.0)
    assert own.rate_factors(time, steps, 100.0).tolist() == [1.0, 0.75, 0.5]


def test_a_trace_says_how_many_clients_there_are_and_how_fast(tmp_path: Path) -> None:
    path = tmp_path / "fleet.csv"
    path.write_text("client,duration\n0,1.5\n0,2.5\n1,4.0\n2,0.5\n")
    fleet = Fleet.trace(path)
    assert (fleet.clients, fleet.step_law) == (3, f"trace:{path}")
    for key, value in {"fast_fraction": 0.5, "slow_mean": 3.0, "speed_order": "slow-first"}.items():
        with pytest.raises(BadInput, match=f"{key}=.*has no effect with a trace"):
            make_spec({"step_law": f"trace:{path}", key: value})


def test_a_change_keeps_the_label_and_drops_options_of_another_method() -> None:
    spec = make_spec({"algorithm": "fedbuff", "label": "mine", "buffer": 3, "clients": 7})
    other = changed(spec, {"algorithm": "fedavg"})
    assert (other.name, other.method.name, other.fleet.clients) == ("mine", "fedavg", 7)
    assert "buffer" not in other.keys
    assert changed(spec, {"clients": 8}).keys["buffer"] == 3
