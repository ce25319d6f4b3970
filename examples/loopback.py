"""A federation on this machine: a server, three clients of different speed, and its repetition.

    pip install 'favano[flower]'
    python examples/loopback.py

All messages go over Flower on the loopback interface. At the end the simulator repeats what has
happened, job by job, and must end with the same model, to the bit.
"""

import subprocess
import sys
import tempfile

FAVANO = (sys.executable, "-m", "favano")
PACES = (0.01, 0.03, 0.1)  # seconds that a local step takes at least
SERVER = {
    "dataset": "digits", "split": "iid", "clients": len(PACES), "selected": 2, "tick": 1,
    "grace": 0.5, "local-steps": 10, "learning-rate": 0.5,
}  # fmt: skip


def words(flags):
    """Flags of a command line."""
    return [word for name, value in flags.items() for word in (f"--{name}", str(value))]


def main(port=8000, rounds=10):
    with tempfile.TemporaryDirectory() as folder:
        flags = words(SERVER | {"rounds": rounds, "port": port, "out": folder})
        server = subprocess.Popen([*FAVANO, "serve", *flags])
        clients = []
        try:
            for number, pace in enumerate(PACES):
                share = {"split": "iid", "partition": f"{number}/{len(PACES)}", "pace": pace}
                command = [*FAVANO, "join", f"127.0.0.1:{port}", *words(share)]
                clients.append(subprocess.Popen(command))
            server.wait()
        finally:
            for process in (*clients, server):
                process.terminate()
            for process in (*clients, server):
                process.wait()
        subprocess.run([*FAVANO, "replay", folder], check=True)


if __name__ == "__main__":
    main()
