"""What is almost a hook is refused with the hook that was meant, since it would be ignored."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np
import pytest

import favano
from favano.errors import BadInput
from favano.methods import Context, method_class
from favano.options import Options, did_you_mean, options_of, refuse_unread
from favano.policies import Policy, Rounds
from tests.methods.bound import bound
from tests.problems import answers_of

HOOKS = ["policy", "aggregate", "init", "next_client_model", "gradient_correction", "local_step",
         "aggregate_buffers", "rates", "check"]  # fmt: skip
EVENTS = ["join", "leave", "receive", "act", "wakes", "start", "lost"]
SHORT = 4  # letters; with one of them missing, a shorter name is another word


def without_a_letter(name: str) -> str:
    return name[: len(name) // 2] + name[len(name) // 2 + 1 :]


@pytest.mark.parametrize("hook", HOOKS)
def test_a_misspelt_hook_of_a_method(hook: str) -> None:
    with pytest.raises(BadInput, match=f"^method=mine: .*did you mean {hook}\\?"):
        type("Mine", (favano.Method,), {without_a_letter(hook): lambda self: None})


@pytest.mark.parametrize("hook", [hook for hook in EVENTS if len(hook) >= SHORT])
def test_a_misspelt_hook_of_a_policy(hook: str) -> None:
    with pytest.raises(BadInput, match=f"^policy=mine: .*did you mean {hook}\\?"):
        type("Mine", (Policy,), {without_a_letter(hook): lambda self: None})


def test_a_misspelt_constant() -> None:
    with pytest.raises(BadInput, match=r"liner is nothing .* did you mean linear\?"):
        type("Mine", (favano.Method,), {"liner": True})


def test_helpers_and_options_are_free() -> None:
    class Mine(favano.Method[favano.ModelState]):
        ratez: float = favano.option(1.0, "an option")

        def _agregate(self) -> None: ...

        def mean_of_all(self) -> None: ...

        def aggregate(
            self, state: favano.ModelState, updates: favano.ClientUpdates
        ) -> favano.ModelState:
            self.mean_of_all()
            return state

    assert list(options_of(Mine)) == ["ratez"]
    with pytest.raises(BadInput, match="agregate is nothing"):
        refuse_unread(type("Other", (Options,), {"agregate": 1}), favano.Method, "method", ())


class Step(favano.Method[favano.ModelState]):
    """Whole, and what it inherits from may call what others define."""

    def aggregate(
        self, state: favano.ModelState, updates: favano.ClientUpdates
    ) -> favano.ModelState:
        return self.weighted(state)

    def weighted(self, state: favano.ModelState) -> favano.ModelState:
        return state


def test_a_function_that_nobody_calls_is_refused() -> None:
    rule = "train is no hook of favano.Method, and nothing in the class calls it; hooks: check, p"
    with pytest.raises(BadInput, match=f"^method=mine: {rule}.* begins with an underscore"):
        type("Mine", (Step,), {"train": lambda self, model: model})
    rule = "choose is no hook of favano.Policy.* hooks: check, start, join, "
    with pytest.raises(BadInput, match=f"^policy=mine: {rule}"):
        type("Mine", (Rounds,), {"choose": lambda self: None})
    rule = "after is no hook of favano.ServerTransform.* hooks: check, init, deltas, step "
    with pytest.raises(BadInput, match=f"^server=mine: {rule}"):
        type("Mine", (favano.ServerTransform,), {"step": max, "after": lambda self: None})


def test_what_may_be_called_is_not() -> None:
    class Base(favano.Method[favano.ModelState]):  # others inherit from it, and call it
        def shared(self) -> float:
            return 1.0

    class Mine(Base):
        def aggregate(
            self, state: favano.ModelState, updates: favano.ClientUpdates
        ) -> favano.ModelState:
            parts = [self.of_row(row) for row in range(2)] + [getattr(self, "by_name")()]  # noqa: B009
            return state._replace(model=state.model * sum(parts) * self.once)

        def of_row(self, row: int) -> float:
            return float(row)

        def by_name(self) -> float:
            return self.shared()

        def _read(self) -> float:
            return self.in_property()

        def in_property(self) -> float:
            return 2.0

        @property
        def unread(self) -> float:
            return self.in_property()

        @cached_property
        def once(self) -> float:
            return 1.0

        @staticmethod
        def without_self() -> float:
            return 1.0

        @classmethod
        def of_class(cls) -> float:
            return 1.0

    class Weighs(Step):
        def weighted(self, state: favano.ModelState) -> favano.ModelState:
            return state

    assert (Mine().name, Weighs().name) == ("mine", "weighs")


def test_a_file_says_what_its_class_lacks(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "import favano\n"
        "class Bad(favano.Method):\n    def agregate(self, state, updates): ...\n"
        "class Lacks(favano.Method):\n    def policy(self): ...\n"
        "class Good(favano.Method):\n    def aggregate(self, state, updates): ...\n"
    )
    assert method_class(f"{path}:Good").name == "good"
    with pytest.raises(BadInput, match=r"did you mean aggregate\?"):
        method_class(f"{path}:Bad")
    with pytest.raises(BadInput, match=r"lacks aggregate, which every favano\.Method needs"):
        method_class(f"{path}:Lacks")


def test_unknown_attributes_name_the_nearest() -> None:
    context = bound(favano.FedAvg(), 4).context
    with pytest.raises(
        AttributeError, match=r"self\.context has no client; did you mean clients\?"
    ):
        getattr(context, "client")  # noqa: B009
    with pytest.raises(AttributeError, match="known: accumulation, buffered, clients, "):
        getattr(context, "answers")  # noqa: B009
    updates = answers_of([0], [1], [0])
    with pytest.raises(AttributeError, match=r"has no clients; did you mean client\?"):
        getattr(updates, "clients")  # noqa: B009
    assert not hasattr(context, "nothing")
    assert np.array_equal(updates.client, [0])


def test_the_context_is_short_enough_to_be_listed() -> None:
    names = [name for name in dir(Context) if not name.startswith("_")]
    fields = set(Context.__dataclass_fields__)
    assert "others" not in did_you_mean("zzz", {*names, *fields})
