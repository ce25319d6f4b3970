"""What a method is: names, contradictions, binding, and the standard behaviour of its hooks."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import torch

from favano.errors import BadInput
from favano.methods import AnyMethod, ClientUpdates, Method, ModelState, make_method, our_methods
from favano.methods.clock import ServerClock
from favano.methods.fedbuff import FedBuff
from favano.methods.scaffold import Scaffold
from favano.options import Count, option
from favano.policies import Policy, Polling, Rounds, Windowed
from favano.schedule import Schedule
from favano.types import Floats, Ints, Stack, Vector
from tests.methods.bound import bound, scheduled
from tests.problems import answers_of


class Plain(Method[ModelState]):
    """A method that leaves all hooks as they are."""

    rounds: Count = option(3, "a number of its own")

    def policy(self) -> Policy:
        return self.context.rounds()

    def aggregate(self, state: ModelState, updates: ClientUpdates) -> ModelState:
        return ModelState(updates.end.mean(0))


def test_names_and_titles_follow_from_the_class() -> None:
    class LocalSgd(Plain):
        """A short name of its own."""

        name = "local"

    class Slow(Plain):
        """A title of its own."""

        title = "SLOW"

    assert (Plain.name, Plain.title) == ("plain", "Plain")
    assert (LocalSgd.name, LocalSgd.title) == ("local", "LocalSgd")
    assert (Slow.name, Slow.title) == ("slow", "SLOW")


def test_a_method_is_frozen_and_equal_to_one_with_the_same_options() -> None:
    method = FedBuff(buffer=3)
    assert method == FedBuff(buffer=3) != FedBuff(buffer=4)
    assert hash(method) == hash(FedBuff(buffer=3))
    with pytest.raises(FrozenInstanceError):
        method.buffer = 4  # type: ignore[misc]
    with pytest.raises(TypeError, match="abstract"):
        Method()  # type: ignore[abstract]


def test_options_are_checked_when_a_method_is_made() -> None:
    assert FedBuff(buffer=3, label="mine").given == {"buffer": 3}
    with pytest.raises(BadInput, match="buffer=0: need greater than or equal to 1"):
        FedBuff(buffer=0)
    with pytest.raises(
        BadInput, match="buffer_mode=blok: need concurrency, block, code, reset or check-ins"
    ):
        FedBuff(buffer_mode="blok")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="staleness=hinge:1: need constant, polynomial:A"):
        FedBuff(staleness="hinge:1")


def test_unknown_options_are_refused_with_what_was_probably_meant() -> None:
    with pytest.raises(BadInput, match=r"bufer=3: unknown key; did you mean buffer\?$"):
        make_method("fedbuff", {"bufer": 3})
    with pytest.raises(BadInput, match="mixing=1: is a key of fedasync, not of fedbuff"):
        make_method("fedbuff", {"mixing": 1})
    made = make_method("fedbuff", {"buffer": "4"}, "other")
    assert made == FedBuff(buffer=4, label="other")


def test_corrected_gradients_and_own_models_exclude_each_other() -> None:
    """Otherwise the correction would be that of whatever version the server has by then."""
    rule = "method=both: has a gradient_correction.* newest model; remove next_client_model"
    with pytest.raises(BadInput, match=rule):

        class Both(Plain):
            def gradient_correction(self, state: ModelState, client: Ints) -> Stack:
                return state.model.expand(len(client), -1)

            def next_client_model(self, server: Vector, own: Stack) -> Stack:
                return own.clone()


def test_memory_and_step_go_together() -> None:
    rule = "memory and local_step require each other: give both or neither"
    with pytest.raises(BadInput, match=f"method=remembers: {rule}"):

        class Remembers(Plain):
            memory = 2

    with pytest.raises(BadInput, match=f"method=steps: {rule}"):

        class Steps(Plain):
            def local_step(
                self, gradient: Stack, memory: tuple[Stack, ...]
            ) -> tuple[Stack, tuple[Stack, ...]]:
                return 2 * gradient, memory


class Corrected(Method[ModelState]):
    """A method that adds something to the gradients of its clients, with any policy."""

    way: str = option("rounds", "whom it asks")

    def policy(self) -> Policy:
        every: dict[str, Policy] = {
            "rounds": self.context.rounds(),
            "first": self.context.rounds(selected=4, wait_for=2),
            "poll": self.context.polling(),
            "arrivals": self.context.buffered(buffer=2),
            "window": Windowed(period=7.0, local_steps=3),
        }
        return every[self.way]

    def aggregate(self, state: ModelState, updates: ClientUpdates) -> ModelState:
        return ModelState(updates.end.mean(0))

    def gradient_correction(self, state: ModelState, client: Ints) -> Stack:
        return state.model.expand(len(client), -1)


@pytest.mark.parametrize("way", ["poll", "arrivals", "window"])
def test_corrected_gradients_need_clients_that_start_from_the_newest_model(way: str) -> None:
    rule = "method=corrected: has a gradient_correction.* start from the newest model: need rounds"
    with pytest.raises(BadInput, match=rule):
        bound(Corrected(way=way))


def test_the_clients_of_rounds_start_from_the_newest_model() -> None:
    assert bound(Corrected()).corrects
    assert bound(Corrected(way="first")).policy() == Rounds(selected=4, local_steps=3, wait_for=2)


class Careless(Plain):
    """Has a policy or rates with one mistake."""

    mistake: str = option("none", "what goes wrong")

    def policy(self) -> Policy:
        if self.mistake == "raises":
            raise KeyError("client 7")
        wrong: dict[str, object] = {"word": "rounds", "nothing": None}
        return wrong.get(self.mistake, self.context.rounds())  # type: ignore[return-value]

    def rates(self, schedule: Schedule) -> Floats:
        right = np.ones(len(schedule.client))
        wrong: dict[str, object] = {
            "long": np.ones(len(right) + 1),
            "list": right.tolist(),
            "nan": right * np.nan,
            "negative": -right,
            "words": right.astype(str),
        }
        if self.mistake == "divides":
            raise ZeroDivisionError
        return wrong.get(self.mistake, right)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("mistake", "rule"),
    [
        ("nothing", "policy returns None; need a favano.Policy, such as self.context.rounds()"),
        ("word", "policy returns 'rounds'; need a favano.Policy, such as self.context.rounds()"),
        ("raises", "policy raises KeyError: 'client 7'"),
    ],
)
def test_a_policy_must_be_one(mistake: str, rule: str) -> None:
    with pytest.raises(BadInput, match=re.escape(f"method=careless: {rule}")):
        bound(Careless(mistake=mistake))


@pytest.mark.parametrize(
    ("mistake", "rule"),
    [
        ("long", "rates must return a NumPy array of shape (2,), one factor per job"),
        ("list", "rates must return a NumPy array of shape (2,), one factor per job"),
        ("nan", "rates must return finite factors of at least 0"),
        ("negative", "rates must return finite factors of at least 0"),
        ("words", "rates must return finite factors of at least 0"),
        ("divides", "rates raises ZeroDivisionError"),
    ],
)
def test_rates_are_factors_of_jobs(mistake: str, rule: str) -> None:
    method = bound(Careless())
    schedule = scheduled(method, 10)
    assert method.job_rates(schedule).tolist() == [1.0, 1.0]
    with pytest.raises(BadInput, match=re.escape(f"method=careless: {rule}")):
        bound(Careless(mistake=mistake)).job_rates(schedule)


def test_binding_leaves_the_original_as_it_was() -> None:
    method = FedBuff(buffer=2, label="mine")
    fleet_of_8, fleet_of_9 = bound(method, 8), bound(method, 9)
    assert fleet_of_8 is not method
    assert fleet_of_8 == method == FedBuff(buffer=2, label="mine")
    assert (fleet_of_8.context.clients, fleet_of_9.context.clients) == (8, 9)
    assert bound(fleet_of_8, 5).context.clients == 5
    with pytest.raises(BadInput, match=r"method=fedbuff: has no run yet; use method.bind"):
        method.policy()


def test_a_world_gives_policies_what_its_clock_says() -> None:
    clock = ServerClock(waiting_time=1.0, interaction_time=2.0, interruption="keep", deadline=9.0)
    context = bound(Plain(), 6, 5, selected=4, clock=clock).context
    assert context.polling() == Polling(
        selected=4, local_steps=5, waiting_time=1.0, interaction_time=2.0, interruption="keep"
    )
    assert context.rounds() == Rounds(selected=4, local_steps=5, interaction_time=2.0, deadline=9.0)
    assert context.buffered(buffer=3, local_steps=1).interaction_time == 2.0
    assert (context.clients, context.selected, context.local_steps) == (6, 4, 5)
    with pytest.raises(BadInput, match="at_deadline=take: requires a deadline"):
        ServerClock(at_deadline="take")


def test_hooks_have_a_standard_behaviour() -> None:
    method, model = bound(Plain()), torch.ones(3, dtype=torch.float64)
    own = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=torch.float64)
    state, client = method.init(model), np.array([0, 1])
    assert state == ModelState(model)
    assert state.model is model
    assert method.next_client_model(model, own) is None
    assert method.gradient_correction(state, client) is None
    direction, memory = method.local_step(own, ())
    assert direction is own
    assert memory == ()
    averaged = method.aggregate_buffers(model, own, answers_of([0, 1], [1, 1], [0, 0]))
    assert averaged.tolist() == [6 / 3, 8 / 3, 10 / 3]
    schedule = scheduled(method, 300)
    assert method.rates(schedule).tolist() == [1.0] * len(schedule.client)
    assert not method.corrects


def test_what_a_method_inherits_counts_as_its_own() -> None:
    """Whether it corrects gradients, one level further down."""

    class Mine(Scaffold):
        """SCAFFOLD with another name."""

    assert bound(Mine()).corrects
    assert (Mine.name, Mine.title) == ("mine", "Mine")


def test_only_two_of_ours_are_not_linear_or_correct_gradients() -> None:
    every = our_methods().items()
    assert [name for name, kind in every if not kind.linear] == ["asyncfeded"]
    assert [name for name, kind in every if kind.has("gradient_correction")] == ["scaffold"]
    assert [name for name, kind in every if kind.memory] == ["asofed"]
    assert [name for name, kind in every if kind.has("next_client_model")] == ["quafl"]


def test_answers_add_up_progress() -> None:
    start = torch.tensor([[1.0, 0.0], [2.0, 2.0]], dtype=torch.float64)
    end = torch.tensor([[2.0, 4.0], [0.0, 3.0]], dtype=torch.float64)
    updates = answers_of([0, 1], [1, 1], [0, 0], start, end)
    assert updates.weighted_delta(np.array([0.5, 2.0])).tolist() == [0.5 - 4.0, 2.0 + 2.0]


def made(**content: object) -> type[AnyMethod]:
    """A class of a method with this content."""

    def policy(self: AnyMethod) -> object:
        return self.context.polling()

    def aggregate(self: AnyMethod, state: ModelState, updates: ClientUpdates) -> ModelState:
        return state

    hooks = {"policy": policy, "aggregate": aggregate}
    return type("Mine", (Method,), {"__module__": __name__, **hooks, **content})


def test_what_is_no_option_is_refused_when_a_class_is_made() -> None:
    """It could be given, but no result and no checkpoint would know of it."""
    rule = "declare it by favano.option, or without a type if it is a constant"
    for default in ({"factor": 3.0}, {}):
        with pytest.raises(BadInput, match=f"method=mine: factor: {rule}"):
            made(__annotations__={"factor": float}, **default)
    assert made(factor=3.0)().given == {}
    with pytest.raises(BadInput, match="class=Mine: has an __init__ of its own; declare options"):
        made(__init__=lambda self: None)


def test_a_check_that_raises_is_the_methods_mistake() -> None:
    def check(self: AnyMethod) -> None:
        raise ArithmeticError("never")

    with pytest.raises(BadInput, match="method=mine: check raises ArithmeticError: never"):
        made(check=check)()
