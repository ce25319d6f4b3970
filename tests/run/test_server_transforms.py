"""Runs with chains of server transforms: files, checkpoints, proofs and engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import favano
from favano.errors import BadInput
from favano.specification.config import config_of, read_config, spec_tables, stored_keys
from favano.specification.presets import resolve
from favano.specification.spec import make_spec
from favano.types import Vector

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_server_transform.py"
SMALL: dict[str, Any] = {"clients": 6, "selected": 3, "local_steps": 3, "horizon": 300.0}
CHAIN = ["clip:0.5", "median", "momentum:0.5", "adam:0.05"]


class Kept(favano.ServerTransform[tuple[Vector, int]]):
    """The mean of the last two steps from the third on."""

    share: float = favano.option(0.5, "of the step before")

    def init(self, model: Vector) -> tuple[Vector, int]:
        return torch.zeros_like(model), 0

    def step(self, state: tuple[Vector, int], step: Vector) -> Any:
        last, count = state
        mixed = step if count < 2 else self.share * last + (1 - self.share) * step
        return mixed, (step, count + 1)


@pytest.mark.quick("fedbuff")
@pytest.mark.parametrize("name", ["fedavg", "fedbuff", "favano-delta"])
def test_loop_and_lanes_agree(name: str) -> None:
    server: list[Any] = [*CHAIN, Kept()]
    more: dict[str, Any] = {"buffer": 3} if name == "fedbuff" else {}
    lanes = favano.simulate(name, "digits", server=server, **SMALL, **more)
    loop = favano.simulate(name, "digits", server=server, engine="loop", **SMALL, **more)
    plain = favano.simulate(name, "digits", **SMALL, **more)
    assert lanes.history["loss"] == pytest.approx(loop.history["loss"], rel=1e-6)
    assert lanes.history["loss"][-1] != plain.history["loss"][-1]


def test_flags_and_the_list_are_the_same_run() -> None:
    flags: dict[str, Any] = {
        "robust": "trimmed:0.2",
        "server_optimiser": "yogi",
        "server_beta2": 0.9,
    }
    one = favano.simulate("fedavg", "digits", **SMALL, **flags)
    two = favano.simulate(
        "fedavg", "digits", server=[favano.trimmed_mean(0.2), favano.yogi(beta2=0.9)], **SMALL
    )
    assert one.history["model_digest"] == two.history["model_digest"]


def test_the_order_of_the_list_matters() -> None:
    def last(*server: str) -> object:
        return favano.simulate("fedavg", "digits", server=server, **SMALL).history["loss"][-1]

    assert last("momentum", "adam") != last("adam", "momentum")


def test_the_file_says_the_chain_completely() -> None:
    spec = resolve(make_spec({"algorithm": "fedavg", "server": ["clip:1", "adam:0.1"]}))
    tables = spec_tables(stored_keys(spec))
    adam = "adam:rate=0.1:momentum=0.9:epsilon=0.001:beta2=0.99"
    assert tables["server"] == ["clip:norm=1.0", adam]
    config = config_of(tables)
    assert resolve(make_spec(config.first)) == spec


def test_a_file_has_the_list_at_its_top_or_in_a_method(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(
        'server = ["clip:1.0"]\n[[method]]\nname = "fedavg"\nserver = ["median", "adam:0.1"]\n'
    )
    config = read_config(tmp_path / "run.toml")
    assert config.shared["server"] == ["clip:1.0"]
    assert config.methods[0]["server"] == ["median", "adam:0.1"]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"server": ["clip:1"], "robust": "median"}, "robust=median: is given beside server"),
        ({"server": []}, "need a list of transforms"),
        ({"server": "clip:1"}, "need a list of transforms"),
        ({"server": ["clip:0"]}, "server=clip:0: norm=0: need greater than 0"),
        ({"server": ["clip:1:2"]}, "server=clip:1:2: need clip:norm, or some of these by name"),
        ({"server": ["adam:rate=1:rate=2"]}, "need adam:rate:momentum:epsilon:beta2"),
        ({"server": ["adan"]}, "server=adan: unknown; did you mean adam"),
        ({"server": ["none.py:Noise"]}, "server=none.py:Noise: no such file"),
        ({"server": [3]}, "server=int: need a text such as clip:1.0"),
        ({"server": ["clip:1"], "track_bound": True}, "need plain SGD and no server transforms"),
    ],
)
def test_what_cannot_be_a_chain_is_refused(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        make_spec({"algorithm": "favano", **keys})


def test_options_that_no_text_can_say_are_refused() -> None:
    class Worded(Kept):
        words: str = favano.option("", "any text")

    make_spec({"algorithm": "fedavg", "server": [Worded(words="plain")]})
    for words in ("a:b", "a,b"):
        with pytest.raises(BadInput, match="cannot be written as a text"):
            make_spec({"algorithm": "fedavg", "server": [Worded(words=words)]})


def test_an_own_class_is_proved_if_it_is_given(tmp_path: Path) -> None:
    favano.simulate("fedavg", "digits", server=[Kept(share=0.25)], **SMALL).save(tmp_path / "own")
    assert "kept:share=0.25" in (tmp_path / "own" / "spec.toml").read_text()
    with pytest.raises(BadInput, match="was made with a class of its own, kept; verify"):
        favano.verify(tmp_path / "own")
    assert favano.verify(tmp_path / "own", chain_only=True)[0].outcome == "agrees"
    verdicts = favano.verify(tmp_path / "own", server=[Kept])
    assert {verdict.outcome for verdict in verdicts} == {"proved"}

    class Other(Kept):
        name = "kept"

        def step(self, state: tuple[Vector, int], step: Vector) -> Any:
            return step, state

    assert favano.verify(tmp_path / "own", server=[Other])[0].outcome == "wrong"


def test_a_file_is_executed_only_if_it_is_trusted(tmp_path: Path) -> None:
    server = ["clip:1.0", f"{EXAMPLE}:Noise:0.05"]
    result = favano.simulate("fedavg", "digits", server=server, **SMALL)
    result.save(tmp_path / "noisy")
    with pytest.raises(BadInput, match=r"Noise: would be executed .* add --trust"):
        favano.verify(tmp_path / "noisy")
    verdicts = favano.verify(tmp_path / "noisy", trust=EXAMPLE)
    assert {verdict.outcome for verdict in verdicts} == {"proved"}
    other = favano.simulate("fedavg", "digits", server=["clip:1.0"], **SMALL)
    assert other.history["loss"][-1] != result.history["loss"][-1]
