"""A program: a cluster that asks for a token, or not, and `favano` with another token, or none.

Its arguments are the token of the cluster and that of the command, `-` for none, and those of
`favano`. Nobody's home folder is touched.
"""

from __future__ import annotations

import os
import subprocess
import sys

PORT = "6379"


def main() -> None:
    """Start the cluster, and then the command."""
    theirs, mine, *words = sys.argv[1:]
    ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--port", PORT]
    ray += ["--num-cpus", "1", "--include-dashboard", "false"]
    subprocess.run(ray, env={**os.environ, **_tokens(theirs)}, check=True, capture_output=True)
    command = [sys.executable, "-m", "favano", *words, "--cluster", f"127.0.0.1:{PORT}"]
    code = subprocess.run(command, env={**os.environ, **_tokens(mine)}).returncode
    sys.stderr.flush()
    os._exit(code)


def _tokens(token: str) -> dict[str, str]:
    return {} if token == "-" else {"RAY_AUTH_TOKEN": token, "RAY_AUTH_MODE": "token"}


if __name__ == "__main__":
    main()
