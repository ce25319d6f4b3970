"""The local training of a call: what a server sends is what a client reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from favano.errors import BadInput
from favano.flower.local_training import LocalTraining, from_json, to_json
from favano.methods import make_method
from favano.specification.parts import TrainingPart

ADAM = TrainingPart(optimiser="adam", beta2=0.9, optimiser_state="kept", proximal=0.5)


def test_it_is_read_as_it_was_sent() -> None:
    sent = LocalTraining(16, "continuous", ADAM, make_method("asofed", {"memory_decay": 0.25}))
    assert from_json(to_json(sent)) == sent
    assert from_json(to_json(LocalTraining(4))) == LocalTraining(4)


def test_a_method_without_memory_is_not_sent() -> None:
    assert from_json(to_json(LocalTraining(4, method=make_method("fedavg", {})))).method is None


def test_the_rule_has_the_optimiser_and_the_memory_of_the_method() -> None:
    rule = LocalTraining(4, training=ADAM, method=make_method("asofed", {})).rule(corrected=True)
    assert (rule.proximal, rule.corrected, rule.memory) == (0.5, True, 2)
    assert rule.optimiser == ADAM.local_optimiser
    assert rule.step is not None
    assert LocalTraining(4).rule().plain


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "need JSON"),
        ("[]", "need a table"),
        ("{}", "batch_size"),
        ('{"batch_size": true}', "need a whole number"),
        ('{"batch_size": 0}', "batch_size=0"),
        ('{"batch_size": 1, "batch_order": "sorted"}', "batch_order"),
        ('{"batch_size": 1, "batch_order": 3}', "batch_order"),
        ('{"batch_size": 1, "colour": 3}', "unknown"),
        ('{"batch_size": 1, "training": {"optimiser": "lion"}}', "optimiser"),
        ('{"batch_size": 1, "training": {"colour": 1}}', "unknown key"),
        ('{"batch_size": 1, "training": 3}', "need a table"),
        ('{"batch_size": 1, "method": {"name": "none"}}', "not installed"),
        ('{"batch_size": 1, "method": {"name": 1}}', "not installed"),
        ('{"batch_size": 1, "method": {"name": "asofed", "colour": 1}}', "unknown key"),
    ],
)
def test_anything_else_is_refused(text: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        from_json(text)


def test_a_server_cannot_name_a_file(tmp_path: Path) -> None:
    """A method in a file would be code that a server has a client run."""
    path, ran = tmp_path / "evil.py", tmp_path / "ran"
    path.write_text(f"from pathlib import Path\nPath({str(ran)!r}).touch()\n")
    with pytest.raises(BadInput, match="not installed"):
        from_json(json.dumps({"batch_size": 1, "method": {"name": f"{path}:Evil"}}))
    assert not ran.exists()
