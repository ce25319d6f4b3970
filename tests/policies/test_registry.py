"""Policies by name, and what methods say of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from favano.errors import BadInput
from favano.methods import AnyMethod, our_methods
from favano.methods.context import federation
from favano.options import options_of
from favano.policies import Policy, Rounds
from favano.policies.registry import all_policies, as_policy, installed_policies

SOURCE = """import favano
class Never(favano.Policy):
    name = "never"
    def join(self, client, now): ...
    def leave(self, client, now): ...
    def receive(self, update, now): ...
    def act(self, now): ...
    def wakes(self): return 1e9
"""
OTHERS = {
    "check_ins": "poisson",  # another value of each option that is neither a number nor a choice
    "buffer_mode": "block", "latency": "server", "staleness": "constant", "reweight": "none",
    "weights": "empirical", "given_weights": (0.5,), "rate_scale": "none",
    "arrival_weights": "mean", "arrival_fraction": 0.5, "mixing": 0.5,
}  # fmt: skip


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    installed_policies.cache_clear()


def test_installed_packages_bring_policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = tmp_path / "never_package-1.0.dist-info"
    about.mkdir()
    (tmp_path / "never_package.py").write_text(SOURCE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: never-package\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[favano.policies]\nnever = never_package:Never\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    installed_policies.cache_clear()
    assert list(all_policies()) == ["polling", "rounds", "buffered", "windowed", "never"]
    assert type(as_policy("never")).__name__ == "Never"


def test_it_is_a_name_a_class_an_object_or_a_table() -> None:
    made = Rounds(wait_for=2)
    assert as_policy(made) is made
    assert as_policy(Rounds) == as_policy("rounds") == Rounds()
    assert as_policy({"name": "rounds", "wait_for": 2}) == made
    for given, rule in (
        (3, "policy=int: need a name, file.py:Name, or an object of favano.Policy"),
        (Policy, "policy=Policy: need a class with join, leave, receive, act and wakes"),
        ({"wait_for": 2}, "need its name"),
        ({"name": "rounds", "wait": 2}, "unknown key of policy Rounds; did you mean wait_for"),
        ("round", "policy=round: unknown; did you mean rounds"),
    ):
        with pytest.raises(BadInput, match=rule):
            as_policy(given)


COMES: dict[str, Any] = {"buffer_mode": "check-ins", "check_in_rate": 2.0}
REQUIRED = {"check_in_rate": COMES, "check_ins": COMES}  # options that others require


@pytest.mark.parametrize("kind", [kind for kind in our_methods().values() if kind.any_policy])
def test_options_that_only_the_own_policy_reads_are_declared(kind: type[AnyMethod]) -> None:
    context = federation(20, local_steps=4, selected=5)
    read = set()
    for name, option in options_of(kind).items():
        value = OTHERS.get(name, not option.default if option.kind is bool else 3)
        if name != "given_weights":
            usual = kind(**REQUIRED.get(name, {}))
            made = replace(usual, **{name: value})  # type: ignore[arg-type]
            if made.bind(context).run_policy != usual.bind(context).run_policy:
                read.add(name)
    assert read == {*kind.policy_options}
