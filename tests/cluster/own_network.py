"""Runs a program in namespaces of its own: a network with loopback alone, and its own processes.

As the first process of its namespace this one inherits all that the program leaves behind.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

UNSHARE = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
UNSHARE += [] if os.getuid() == 0 else ["--user", "--map-root-user"]
LEFT = "processes left: "
_SET_FLAGS, _UP_AND_RUNNING = 0x8914, 0x41
_PATIENCE = 30.0  # seconds for processes to end


def is_allowed() -> bool:
    """Whether namespaces can be made here."""
    try:
        return subprocess.run([*UNSHARE, "true"], capture_output=True).returncode == 0
    except OSError:
        return False


def run(*command: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a Python program; the last line of its standard error tells what it left behind."""
    words = [*UNSHARE, sys.executable, __file__, sys.executable, *command]
    return subprocess.run(words, capture_output=True, text=True, env={**os.environ, **environment})


def _left() -> list[str]:
    """Other processes than this one, without those that have ended."""
    commands = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and folder.name != "1":
            try:
                words = (folder / "cmdline").read_bytes()
            except OSError:  # has ended in the meantime
                continue
            commands += [words.replace(b"\0", b" ").decode()] if words else []
    return commands


def main() -> None:
    """Bring loopback up, run the program, and wait for its processes."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as some:
        fcntl.ioctl(some, _SET_FLAGS, struct.pack("16sh", b"lo", _UP_AND_RUNNING))
    code = subprocess.run(sys.argv[1:]).returncode
    until = time.monotonic() + _PATIENCE
    while _left() and time.monotonic() < until:
        time.sleep(0.1)
    sys.stderr.write(f"{LEFT}{_left()}\n")
    sys.exit(code)


if __name__ == "__main__":
    main()
