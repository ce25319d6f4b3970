"""Fault scripts: what they say, and what they refuse."""

from __future__ import annotations

import pytest

pytest.importorskip("flwr")

from favano.errors import BadInput
from tests.flower.fault_script import Fault, late_nodes, play, read_script


def line(who: str = "node 2", when: str = "round 5", what: str = "kill") -> str:
    return f'[[fault]]\nwho = "{who}"\nwhen = "{when}"\nwhat = "{what}"\n'


def test_faults_are_read_in_order() -> None:
    text = line() + line("client app 3", "2.5 s", "hang") + line("server", "0 s", "start")
    assert read_script(text) == [
        Fault("node 2", "round 5", "kill"),
        Fault("client app 3", "2.5 s", "hang"),
        Fault("server", "0 s", "start"),
    ]


def test_a_node_that_is_started_first_is_late() -> None:
    again = line("node 1", what="kill") + line("node 1", what="start")
    assert late_nodes(read_script(again + line("node 2", what="start") + line())) == {2}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("who =", "script=who =: is not TOML"),
        ("", "script=[]: need tables [[fault]]"),
        (line() + "[more]", "script=['fault', 'more']: need tables [[fault]]"),
        ("fault = 3", "script=['fault']: need tables [[fault]]"),
        ('[[fault]]\nwho = "server"', "need who, when and what"),
        (line(who="node"), "who=node: need server, superlink, node N or client app N"),
        (line(who="the server"), "who=the server: need server"),
        (line(when="round five"), "when=round five: need round N or SECONDS s"),
        (line(when="-1 s"), "when=-1 s: need round N"),
        (line(what="murder"), "what=murder: need one of kill, hang, continue, leave, start"),
        (line(who="superlink", what="start"), "who=superlink: is started by others"),
        (line(who="client app 1", what="start"), "who=client app 1: is started by others"),
    ],
)
def test_wrong_words_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_script(text)
    assert sentence in str(refused.value)


def test_a_script_is_played_round_by_round() -> None:
    class Recorder:
        def __init__(self) -> None:
            self.round, self.seen = 0, list[tuple[int, str]]()

        def rounds(self) -> list[int]:
            self.round += 1
            return list(range(self.round))

        def processes(self, who: str) -> list[int]:
            raise AssertionError("nobody is to be killed")

        def start(self, who: str) -> None:
            self.seen.append((self.round - 1, who))

    stage = Recorder()
    starts = [
        ("node 1", "round 3"),
        ("node 2", "round 2"),
        ("server", "0 s"),
        ("node 4", "round 9"),
    ]
    play(read_script("".join(line(who, when, "start") for who, when in starts)), stage)
    assert stage.seen == [(3, "node 1"), (4, "node 2"), (4, "server"), (9, "node 4")]
