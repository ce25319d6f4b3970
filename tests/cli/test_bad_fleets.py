"""Files of fleets that strangers have made: refused in one sentence, and nothing is executed."""

from __future__ import annotations

import json
import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

from favano.cli import main
from favano.timing import number_pickle

MARK = "executed"  # a file that hostile pickles would make


class Hostile:
    """An object whose pickle calls a function."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {MARK}",)


class Built:
    """An object whose pickle makes it, and sets what it holds."""

    def __init__(self) -> None:
        self.computation = 1.0


def fault(who: str = "node 1", when: str = "10 s", what: str = "leave") -> str:
    return f'[[fault]]\nwho = "{who}"\nwhen = "{when}"\nwhat = "{what}"\n'


def dump(document: object, protocol: int = 4) -> bytes:
    return pickle.dumps(document, protocol)


def devices(**changes: object) -> bytes:
    return dump({7: {"computation": 10.0, "communication": 5000.0, **changes}})


def behaviour(**changes: object) -> bytes:
    return dump({7: {"active": [0, 50], "inactive": [10, 90], "finish_time": 100, **changes}})


def profile(**changes: object) -> str:
    return json.dumps({"0": {"delay": 1.0, "bandwidth": 10.0, **changes}})


LOOP: dict[object, object] = {}
LOOP[1] = LOOP
PICKLES: dict[str, tuple[bytes, str]] = {
    **{
        f"a call, protocol {protocol}": (dump(Hostile(), protocol), "nothing else")
        for protocol in range(6)
    },
    "a call in an entry": (dump({1: {"computation": Hostile()}}), "holds"),
    "an object, protocol 2": (dump(Built(), 2), "nothing else"),
    "an object, protocol 4": (dump(Built(), 4), "holds"),
    "an instance": (b"(ios\nsystem\n.", "holds INST"),
    "an extension": (b"\x80\x02\x82\x01.", "holds EXT1"),
    "a long extension": (b"\x80\x02\x84\x01\x00\x00\x00.", "holds EXT4"),
    "a reference elsewhere": (b"Pabc\n.", "holds PERSID"),
    "a reference on the stack": (b"K\x01Q.", "holds BINPERSID"),
    "a buffer elsewhere": (b"\x80\x05\x97.", "holds NEXT_BUFFER"),
    "bytes without end": (b"\x80\x05\x96" + b"\xff" * 7 + b"\x0f.", "holds BYTEARRAY8"),
    "a number without end": (b"\x80\x02\x8b\xff\xff\xff\x7f\x01.", "holds LONG4"),
    "a word without end": (b"\x80\x02X\xff\xff\xff\xffabc.", "is no pickle, or a damaged one"),
    "a far place in memory": (b"\x80\x02]r\xff\xff\xff\xff.", "need a dictionary of devices"),
    "a place that is not there": (b"\x80\x02h\x09.", "is no pickle, or a damaged one"),
    "a frame without end": (b"\x80\x04\x95" + b"\xff" * 8 + b"}.", "is no pickle"),
    "no number": (b"I1e\n.", "is no pickle"),
    "digits without end": (b"I" + b"9" * 5000 + b"\n.", "is no pickle"),
    "nested tuples": (b"N" + b"\x85" * 2000 + b".", "more than 1,000 lists"),
    "nested lists": (b"]" * 1001 + b".", "more than 1,000 lists"),
    "marks": (b"(" * 1001 + b".", "more than 1,000 lists"),
    "cut short": (devices()[:-9], "is no pickle, or a damaged one"),
    "nothing": (b"", "is no pickle, or a damaged one"),
    "only its end": (b".", "is no pickle, or a damaged one"),
    "a text": (b"client,second,available\n0,0,1\n", "nothing else"),
    "a later protocol": (b"\x80\x63}.", "is no pickle, or a damaged one"),
    "itself": (dump(LOOP), "device"),
    "a list": (dump([1, 2]), "need a dictionary of devices"),
    "a number": (dump(3), "need a dictionary of devices"),
    "no device": (dump({}), "need a dictionary of devices"),
    "numbers of NumPy": (dump({1: {"computation": np.float64(3)}}), "holds"),
}
DEVICES: dict[str, tuple[bytes, str]] = {
    **PICKLES,
    "no rate": (dump({7: {"computation": 1.0}}), "device [0] of 1 needs a positive computation"),
    "a word": (devices(computation="fast"), "device [0] of 1 needs a positive computation"),
    "zero": (devices(computation=0), "device [0] of 1 needs a positive computation"),
    "no number": (devices(computation=float("nan")), "needs a positive computation"),
    "infinity": (devices(communication=float("inf")), "needs a positive computation"),
    "a very long number": (devices(computation=10**500), "needs a positive computation"),
    "true": (devices(computation=True), "needs a positive computation"),
}
BEHAVIOUR: dict[str, tuple[bytes, str]] = {
    "a call": (dump(Hostile()), "nothing else"),
    "no end": (behaviour(inactive=[10]), "device 0 of 1 needs a positive finish_time"),
    "words": (behaviour(active=["a", "b"]), "device 0 of 1 needs"),
    "no list": (behaviour(active=3), "device 0 of 1 needs"),
    "backwards": (behaviour(inactive=[10, 40]), "device 0 of 1 needs"),
    "no length": (behaviour(finish_time=0), "device 0 of 1 needs"),
    "short beyond measure": (behaviour(finish_time=1e-9), "would have more than 30,000,000"),
}
PROFILES = {
    "no JSON": ("{", "is not a file of JSON"),
    "nested": ("[" * 100_000, "is not a file of JSON"),
    "a list": ("[1]", "need clients by number"),
    "nobody": ("{}", "need clients by number"),
    "a gap": ('{"1": {"delay": 1, "bandwidth": 3}}', "client 0 of 1 is not there"),
    "a word": (profile(delay="slow"), "client 0 needs a delay > 0"),
    "zero": (profile(delay=0), "client 0 needs a delay > 0"),
    "true": (profile(delay=True), "client 0 needs a delay > 0"),
    "no bandwidth": ('{"0": {"delay": 1}}', "client 0 needs a bandwidth >= 0"),
    "infinity": (profile(bandwidth=float("inf")), "client 0 needs a bandwidth >= 0"),
    "a very long number": ('{"0": {"delay": 1' + "0" * 400 + "}}", "client 0 needs a delay > 0"),
    "too few": (profile(), "holds 1 clients, need as many as there are (4)"),
}
STATES = {
    "no YAML": ("traces: [", "is not YAML"),
    "an alias": ("a: &a [1]\ntraces: *a\n", "is not YAML"),
    "laughs": ("a: &a [1,1]\nb: &b [*a,*a]\ntraces: [*b,*b]\n", "is not YAML"),
    "code": (f"!!python/object/apply:os.system ['touch {MARK}']", "has no traces"),
    "code in a trace": (
        f"traces: {{a: {{states_2st: !!python/object/apply:os.system ['touch {MARK}']}}}}",
        "a: need pairs of a second and a state",
    ),
    "nested": ("[" * 50, "is not YAML"),
    "nothing": ("", "is not YAML"),
    "two documents": ("traces: {}\n---\ntraces: {}\n", "is not YAML"),
    "a word": ("traces", "has no traces"),
    "no states": ("traces: {a: {b: 1}}", "no device has states_2st"),
    "no pairs": ("traces: {a: {states_2st: [1, 2]}}", "a: need pairs"),
    "no seconds": ("traces: {a: {states_2st: [[x, UN_AVL]]}}", "a: need pairs"),
    "negative": ("traces: {a: {states_2st: [[-1, UN_AVL]]}}", "a: need pairs"),
    "disorder": ("traces: {a: {states_2st: [[5, UN_AVL], [1, AVL_TRAIN]]}}", "a: need pairs"),
    "too few": ("traces: {a: {states_2st: [[0, AVL_TRAIN]]}}", "need 1 clients at most"),
}
RECORDINGS = {
    "no heading": ("1,2,3\n", "need client,second,available as the first line"),
    "nobody": ("client,second,available\n", "holds no client"),
    "a word": ("client,second,available\na,0,1\n", "need a client (0, 1, ...)"),
    "disorder": ("client,second,available\n0,5,1\n0,2,0\n", "not in the order of time"),
    "a gap": ("client,second,available\n1,5,1\n", "client 0 has no line"),
    "too few": ("client,second,available\n0,0,1\n", "need 1 clients at most"),
}
SCRIPTS = {
    "no TOML": ("who =", "is not TOML"),
    "nothing": ("", "need tables [[fault]]"),
    "another table": (fault() + "[more]\n", "need tables [[fault]]"),
    "no words": ('[[fault]]\nwho = "node 1"\n', "need who, when and what"),
    "the server": (fault(who="server"), "is a process of a federation"),
    "the SuperLink": (fault(who="superlink"), "is a process of a federation"),
    "a client app": (fault(who="client app 1"), "is a process of a federation"),
    "nobody": (fault(who="somebody"), "need server, superlink, node N"),
    "beyond all": (fault(who="node 4"), "need nodes of 0..3"),
    "beyond all, several": (fault(who="nodes 2-9"), "need nodes of 0..3"),
    "backwards": (fault(who="nodes 3-1"), "need nodes of 0..3, the lower number first"),
    "more than all": (fault(who="120 % of nodes"), "need more than 0 and at most 100 %"),
    "none": (fault(who="0 % of nodes"), "need more than 0 and at most 100 %"),
    "never": (fault(when="later"), "need round N or SECONDS s"),
    "before": (fault(when="-3 s"), "need round N or SECONDS s"),
    "murder": (fault(what="murder"), "need one of leave, start, crash"),
    "no factor": (fault(what="slow"), "need slow and a positive factor"),
    "a timeout": (fault(what="timeout"), "need one of"),
    "a factor of zero": (fault(what="slow 0"), "need slow and a positive factor"),
    "backwards in time": (fault(what="late -2"), "need late and a positive time"),
    "too much": (fault(what="poison 1e400"), "need poison and a factor"),
    "a factor for nothing": (fault(what="leave 3"), "need leave alone"),
    "lost for ever": (fault(what="lose"), "need a timeout"),
}
CASES = [
    *((f"--fleet=fedscale:{name}", *case) for name, case in DEVICES.items()),
    *((f"--availability=fedscale:{name}", *case) for name, case in BEHAVIOUR.items()),
    *((f"--fleet=appfl:{name}", *case) for name, case in PROFILES.items()),
    *((f"--availability=flame:{name}", *case) for name, case in STATES.items()),
    *((f"--availability=trace:{name}", *case) for name, case in RECORDINGS.items()),
    *((f"--faults={name}", *case) for name, case in SCRIPTS.items()),
]


def refusal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *flags: str
) -> str:
    """What `favano plan` answers, which must be one sentence and exit code 2."""
    words = ["favano", "plan", "--clients", "4", "--selected", "2", "--horizon", "60", *flags]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as ending:
        main()
    printed = capsys.readouterr()
    assert ending.value.code == 2
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return printed.err


@pytest.mark.parametrize(("flag", "content", "sentence"), CASES, ids=[case[0] for case in CASES])
def test_bad_files_are_refused_in_a_sentence(
    flag: str,
    content: str | bytes,
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(number_pickle, "_MOST", 1000)
    Path("file").write_bytes(content if isinstance(content, bytes) else content.encode())
    key, equals, value = flag.partition("=")
    kind, colon, _ = value.partition(":")
    path = f"{kind}:file" if colon else "file"
    assert sentence in refusal(monkeypatch, capsys, f"{key}{equals}{path}")
    assert [name.name for name in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    "flags",
    [
        ["--fleet", "fedscale:none"],
        ["--fleet", "appfl:none"],
        ["--availability", "fedscale:none"],
        ["--availability", "flame:none.yaml"],
        ["--availability", "trace:none.csv"],
        ["--faults", "none.toml"],
    ],
)
def test_files_that_are_not_there_are_named(
    flags: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert refusal(monkeypatch, capsys, *flags) == (
        f"favano: {flags[0][2:]}={flags[1]}: no such file\n"
    )


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--fleet", "tablets"], "fleet=tablets: need phones, appfl:FILE or fedscale:FILE"),
        (["--availability", "often"], "availability=often: need always, phones"),
        (["--availability", "daily:2"], "need a share of the day in (0, 1)"),
        (["--availability", "daily:0.5:1:1e-9"], "would have more than 30,000,000 intervals"),
        (["--availability", "two-state:1e-9:1e-9"], "would have more than 30,000,000 intervals"),
        (["--link", "fast"], "link=fast: need none, home, mobile, UP:DOWN"),
        (["--link", "0:1"], "link=0:1: need none, home"),
        (["--server-link", "5"], "server_link=5: need UP:DOWN"),
        (["--timeout", "0"], "timeout=0: need greater than 0"),
        (["--when-away", "paused"], "when_away=paused: requires availability or faults"),
        (["--flops-per-second", "-1"], "flops_per_second=-1: need greater than 0"),
        (["--flops-per-second", "1e9,2e9"], "clients=4: need the length of flops_per_second (2)"),
        (["--flops-per-score", "1e6"], "flops_per_score=1000000.0: requires fleet=phones"),
        (["--fleet", "phones", "--fast-mean", "3"], "fast_mean=3.0: has no effect with fleet"),
        (["--watts", "2", "--joules-per-step", "1"], "watts=2.0: is another way to give"),
        (["--group", "mean=2"], "need share or clients, and not both"),
        (["--group", "share=1"], "need one of mean, flops_per_second and fleet"),
        (["--group", "share=0.5 mean=2"], "group=0.5: need shares whose sum is 1"),
        (["--group", "share=1 mean=2 speed=3"], "group.speed=3: unknown key"),
        (["--group", "share=1 mean=2", "--mean", "1,2,3,4"], "mean=(1.0, 2.0, 3.0, 4.0): has no"),
        (
            ["--group", "share=1 mean=2 link=home", "--link", "mobile"],
            "link=mobile: is given for the fleet and in a group",
        ),
        (
            ["--group", "share=0.9 mean=2,share=0.1 mean=3", "--clients", "2", "--selected", "1"],
            "a group would have none of 2 clients",
        ),
        (["--availability", "phones", "--variance", "live"], "variance=live: is not known"),
        (["--timeout", "3", "--track-bound"], "track_bound=True: is not known together with"),
        (["--timeout", "3", "--overrun"], "overrun=True: is not known together with timeout"),
        (["--link", "home", "--interruption", "keep"], "interruption=keep: is not known"),
        (["--availability", "daily:0.5", "--step-count", "literal"], "step_count=literal: is not"),
    ],
)
def test_bad_flags_are_refused_in_a_sentence(
    flags: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert sentence in refusal(monkeypatch, capsys, *flags)


def test_a_script_of_faults_is_not_taken_for_a_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("faults.toml").write_text(fault(who="node 9"))
    for flags in (["--faults", "faults.toml"], ["--faults=faults.toml"]):
        assert "who=node 9: need nodes of 0..3" in refusal(monkeypatch, capsys, *flags)
