"""The example is a normal Flower app, and its containers name files and commands that exist."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")

from tests.flower.federation import federation, wait_for

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "flower-mnist"
PROGRAMS = Path(sys.executable).parent


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    with (EXAMPLE / "compose.yaml").open() as file:
        listed: dict[str, Any] = yaml.safe_load(file)["services"]
    return listed


@pytest.mark.slow
def test_every_container_runs_a_command_with_options_that_it_knows(
    services: dict[str, Any],
) -> None:
    environment = {"PYTHONPATH": f"{ROOT / 'src'}:{EXAMPLE}", "PATH": str(PROGRAMS)}
    texts: dict[str, str] = {}
    for service in services.values():
        words = shlex.split(service["command"])
        size = 3 if words[0] == "python" else 1
        program = shlex.join(words[:size])
        if program not in texts:
            command = [str(PROGRAMS / words[0]), *words[1:size], "--help"]
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            texts[program] = done.stdout
        options = {word for word in words if word.startswith("--")}
        assert options <= set(re.findall(r"--[a-z-]+", texts[program]))
    assert list(texts) == ["flower-superlink", "python -m flower_mnist.resident"]


def test_nodes_have_a_partition_and_a_key_each(services: dict[str, Any]) -> None:
    nodes = {
        name: service["command"] for name, service in services.items() if name.startswith("node-")
    }
    for number, (name, command) in enumerate(nodes.items()):
        assert f"--partition {number} " in command
        assert command.endswith(f"--key /keys/{name}")
    readme, own = (EXAMPLE / "README.md").read_text(), (EXAMPLE / "compose.yaml").read_text()
    (made,) = {line.strip("# $") for line in (readme + own).splitlines() if "favano keys" in line}
    words = shlex.split(made)
    assert [words[place + 1] for place, word in enumerate(words) if word == "--node"] == [*nodes]
    assert words[words.index("--host") + 1] in services


def test_the_image_has_what_is_copied_into_it() -> None:
    lines = (EXAMPLE / "Dockerfile").read_text().splitlines()
    copied = [word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]]
    assert copied
    assert all((ROOT / name).exists() for name in copied)


def test_the_app_names_modules_and_keys_that_exist() -> None:
    text = (EXAMPLE / "pyproject.toml").read_text()
    for module, name in re.findall(r'app = "([\w.]+):(\w+)"', text):
        path = EXAMPLE / f"{module.replace('.', '/')}.py"
        assert f"{name} = " in path.read_text()
    used = {
        key
        for path in (EXAMPLE / "flower_mnist").glob("*.py")
        for key in re.findall(r'(?:run_config|config)\["([\w-]+)"\]', path.read_text())
    } - {"partition-id"}
    given = text.partition("[tool.flwr.app.config]")[2]
    assert used == set(re.findall(r"^([\w-]+) =", given, re.MULTILINE))


@pytest.mark.machine
@pytest.mark.parametrize("kind", ["stock", "resident"])
def test_the_example_runs_with_flwr_run(tmp_path: Path, kind: str) -> None:
    app = tmp_path / "app"
    shutil.copytree(EXAMPLE, app)
    with federation(tmp_path) as lab:
        lab.environment["PYTHONPATH"] += f":{app}"
        lab.start_stock_superlink()
        children = []
        for number in range(2):
            words = ["--partition", str(number), "--clients", "2", "--dataset", "digits"]
            resident = [sys.executable, "-m", "flower_mnist.resident", lab.address, *words]
            stock = kind == "stock"
            node = lab.stock_node(f"partition-id={number}") if stock else lab.start(*resident)
            children.append(node)
        tick = 20.0 if kind == "stock" else 3.0
        changes = f'dataset="digits" clients=2 selected=1 rounds=3 tick={tick} grace={tick / 4}'
        lab.flwr("run", str(app), "--run-config", changes)

        def ended() -> str:
            for child in children:
                assert child.poll() is None, lab.log(child)
            (run,) = lab.flwr("list")["runs"]
            return str(run["status"]) if run["status"].startswith("finished") else ""

        # Each look starts a program, which takes the nodes' time.
        assert wait_for(ended, "the end of the run", pause=10.0) == "finished:completed"
