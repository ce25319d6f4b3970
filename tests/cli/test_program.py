"""The end of the program: at once, and with all that was to be done."""

from __future__ import annotations

import subprocess
import sys

import pytest


def program(main: str) -> subprocess.CompletedProcess[str]:
    """The program with another `main`, in a process of its own."""
    code = f"import atexit, sys, threading\nfrom favano import cli\ndef main():\n    {main}\n"
    code += "cli.main = main\ncli.program()"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False
    )


@pytest.mark.parametrize(
    ("main", "code"),
    [("pass", 0), ("sys.exit()", 0), ("sys.exit(2)", 2), ("sys.exit('why')", 1), ("1 / 0", 1)],
)
def test_the_exit_code_is_that_of_the_command(main: str, code: int) -> None:
    done = program(main)
    assert done.returncode == code
    assert ("why" in done.stderr) == ("why" in main)
    assert ("ZeroDivisionError" in done.stderr) == ("/" in main)


def test_output_is_written_and_what_is_registered_is_called() -> None:
    done = program("print('text', end=''); atexit.register(print, ' at the end', end='')")
    assert done.stdout == "text at the end"


def test_memory_is_not_freed_piece_by_piece() -> None:
    """An object of a module would say so, and does where threads are left."""
    freed = "globals()['kept'] = type('', (), {'__del__': lambda self: print('freed')})()"
    assert program(freed).stdout == ""
    thread = "threading.Thread(target=threading.main_thread().join).start()"  # longer than it
    assert program(f"{freed}; {thread}").stdout == "freed\n"


def test_threads_that_are_left_are_waited_for() -> None:
    late = "(threading.main_thread().join(), print('late'))"
    assert program(f"threading.Thread(target=lambda: {late}).start()").stdout == "late\n"
