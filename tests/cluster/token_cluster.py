"""A program: a cluster that asks for a token, or not, and `favano` with another token, or none.

Its arguments are the token of the cluster and that of the command, `-` for none, and those of
`favano`. Nobody's home folder is touched.
"""

from __future__ import annotations

import os
import subprocess
import sys

PORT = "6379"
RAY = [sys.executable, "-m", "ray.scripts.scripts"]


def main() -> None:
    """Start the cluster, and then the command."""
    theirs, mine, *words = sys.argv[1:]
    ray = [
        *RAY,
        "start",
        "--head",
        "--port",
        PORT,
        "--num-cpus",
        "1",
        "--include-dashboard",
        "false",
    ]
    for _ in range(3):  # Ray gives up after 30 s, which a busy machine may need
        if (
            subprocess.run(
                ray,
                env={**os.environ, **_tokens(theirs)},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            ).returncode
            == 0
        ):
            break
        subprocess.run(
            [*RAY, "stop", "--force"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    command = [sys.executable, "-m", "favano", *words, "--cluster", f"127.0.0.1:{PORT}"]
    code = subprocess.run(command, env={**os.environ, **_tokens(mine)}).returncode
    sys.stderr.flush()
    os._exit(code)


def _tokens(token: str) -> dict[str, str]:
    return {} if token == "-" else {"RAY_AUTH_TOKEN": token, "RAY_AUTH_MODE": "token"}


if __name__ == "__main__":
    main()
