"""Calls in other processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import sleep

import pytest

import favano
from favano.errors import BadInput
from favano.forked_calls import ForkedCalls, usable_cores
from tests.forks import FORKS

pytestmark = FORKS


@pytest.mark.parametrize(("system", "cores"), [("darwin", 1), ("freebsd14", 1), ("linux", 2)])
def test_processes_are_forked_on_linux_alone(
    system: str, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    assert usable_cores() == cores


def test_windows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(BadInput, match=r"^platform=win32: need Linux or macOS; .* WSL"):
        favano.plan("fedavg", clients=4, selected=2, horizon=20)


def where(number: int) -> tuple[int, int]:
    return number, os.getpid()


@pytest.mark.parametrize(("processes", "expected"), [(0, 0), (1, 0), (2, 2), (3, 3), (16, 7)])
def test_results_come_in_order_from_as_many_processes(processes: int, expected: int) -> None:
    calls = [partial(where, number) for number in range(7)]
    with ForkedCalls(calls, processes) as forked:
        numbers, made_by = zip(*forked.results(), strict=True)
    assert numbers == tuple(range(7))
    assert len({*made_by} - {os.getpid()}) == expected


def test_one_call_is_worth_a_process_only_if_it_begins_early() -> None:
    for early in (False, True):
        with ForkedCalls([partial(where, 0)], 4) as forked:
            if early:
                forked.begin()
            [(_, made_by)] = forked.results()
        assert (made_by != os.getpid()) == early


def test_there_may_be_nothing_to_call() -> None:
    with ForkedCalls[int]([], 4) as forked:
        forked.begin()
        assert forked.results() == []


def test_large_results_do_not_block_each_other() -> None:
    calls: list[Callable[[], bytes]] = [partial(bytes, 10_000_000 + number) for number in range(5)]
    with ForkedCalls(calls, 2) as forked:
        assert [len(result) - 10_000_000 for result in forked.results()] == list(range(5))


def refuse() -> int:
    raise BadInput("clients", 0, "need 1..n")


def end_by_force(parent: int) -> int:
    if os.getpid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
    return 5


def test_an_error_is_raised_where_the_results_are_asked_for() -> None:
    with ForkedCalls[int]([partial(int, 1), refuse], 2) as forked, pytest.raises(BadInput):
        forked.results()


def test_what_a_process_could_not_end_is_made_here() -> None:
    with ForkedCalls([partial(int, 1), partial(end_by_force, os.getpid())], 2) as forked:
        assert forked.results() == [1, 5]


def test_processes_that_nobody_waits_for_are_ended() -> None:
    with ForkedCalls([partial(sleep, 1000), partial(sleep, 1000)], 2) as forked:
        forked.begin()
        processes = [process for process, _ in forked._started]
    assert [process.exitcode for process in processes] == [-signal.SIGTERM] * 2


def test_ctrl_c_is_left_to_the_process_that_asked(tmp_path: Path) -> None:
    """A terminal sends it to all of them: the others print nothing, and end."""
    program = """
import os, signal, time
from functools import partial
from favano.forked_calls import ForkedCalls

def interrupt() -> int:
    os.killpg(0, signal.SIGINT)
    time.sleep(1000)
    return 0

try:
    with ForkedCalls([interrupt, partial(time.sleep, 1000)], 2) as forked:
        forked.results()
except KeyboardInterrupt:
    print("interrupted", [process.is_alive() for process, _ in forked._started])
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=100,
    )
    assert (done.stdout, done.stderr) == ("interrupted [False, False]\n", "")


def test_they_end_with_the_process_that_began_them() -> None:
    """Even if it is killed while they have more to send than a pipe holds."""
    program = """
import os, signal
from functools import partial
from favano.forked_calls import ForkedCalls

with ForkedCalls([partial(bytes, 10_000_000)] * 3, 3) as forked:
    forked.begin()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, timeout=60)
    assert done.returncode == -signal.SIGKILL  # nobody holds the pipe any more
