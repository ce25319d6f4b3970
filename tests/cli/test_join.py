"""`favano keys` and `favano join`: files for a federation, and what a node refuses to do."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cli.test_cli import Program, favano

__all__ = ["favano"]

needs_flower = pytest.mark.skipif(not find_spec("flwr"), reason="Flower is not installed")


@needs_flower
def test_keys_lists_the_files_that_it_makes(favano: Program, tmp_path: Path) -> None:
    code, out, err = favano("keys", "k", "--host", "example.org", "--node", "lab")
    names = [f"{stem}.{end}" for stem in ("authority", "server") for end in ("crt", "key")]
    names += ["operator.yaml", "operator.key", "lab", "lab.pub"]
    assert (code, out, err) == (0, "".join(f"k/{name}\n" for name in names), "")
    assert {path.name for path in (tmp_path / "k").iterdir()} == set(names)
    assert favano("keys", "k", "--node", "ward")[1] == "k/ward\nk/ward.pub\n"


@needs_flower
def test_keys_revokes_and_makes_anew(favano: Program, tmp_path: Path) -> None:
    favano("keys", "k", "--node", "lab")
    before = (tmp_path / "k" / "lab").read_bytes()
    told = favano("keys", "k", "--revoke", "lab", "--node", "lab")
    assert told == (0, "k/lab\nk/lab.pub\n", "favano: revoked: lab\n")
    assert (tmp_path / "k" / "lab").read_bytes() != before
    assert favano("keys", "k", "--revoke", "ward") == (
        2, "", "favano: revoke=ward: need a key of k\n",
    )  # fmt: skip


@needs_flower
def test_keys_overwrites_nothing(favano: Program) -> None:
    assert favano("keys", "k", "--node", "lab")[0] == 0
    code, out, err = favano("keys", "k", "--node", "lab")
    assert (code, out, err) == (2, "", "favano: file=k/lab: exists, and is not overwritten\n")


@needs_flower
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["example.org:8000"], "is another machine"),
        (["here"], "need HOST:PORT"),
        (["127.0.0.1:8000"], "Missing option '--partition'"),
        (["127.0.0.1:8000", "--partition", "3"], "need I/N"),
        (["127.0.0.1:8000", "--partition", "4/4"], "need 0..3"),
        (
            ["127.0.0.1:8000", "--root-certificate", "a", "--key", "b", "--operator", "c"],
            "cannot be read",
        ),
        (["127.0.0.1:8000", "--key", "nothing"], "need root_certificate, operator, too"),
        (["127.0.0.1:8000", "--least-batch", "0"], "least_batch=0: need 1 or more"),
        (
            ["example.org:8000", "--by-appointment", "--insecure"],
            "executes the app of whoever submits a run",
        ),
        (["127.0.0.1:8000", "--dataset", "nothing"], "dataset=nothing"),
    ],
)
def test_join_refuses(favano: Program, arguments: list[str], says: str) -> None:
    part = [] if "--partition" in arguments or "partition" in says else ["--partition", "0/5"]
    code, out, err = favano("join", *arguments, *part)
    assert (code, out) == (2, "")
    assert says in err


@needs_flower
def test_a_server_that_is_not_there_ends_the_node_with_an_error(favano: Program) -> None:
    """So that whoever supervises it starts it again."""
    code, out, err = favano("join", "127.0.0.1:1", "--partition", "0/5", "--patience", "0")
    assert (code, out) == (1, "")
    assert "favano: not let in by 127.0.0.1:1: " in err


@needs_flower
def test_by_appointment_the_process_becomes_a_supernode(
    favano: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Became(Exception):
        pass

    def become(program: str, arguments: list[str]) -> None:
        raise Became(program, *arguments)

    monkeypatch.setattr(os, "execvp", become)
    with pytest.raises(Became, match=r"flower-supernode.*partition-id=1 num-partitions=4"):
        favano("join", "127.0.0.1:8000", "--by-appointment", "--partition", "1/4")


@pytest.mark.skipif(bool(find_spec("flwr")), reason="Flower is installed")
@pytest.mark.parametrize("command", [["keys", "k"], ["join", "127.0.0.1:8000"]])
def test_without_flower_the_commands_say_what_to_install(
    favano: Program, command: list[str]
) -> None:
    says = "favano: this command needs Flower: pip install 'favano[flower]'\n"
    assert favano(*command) == (2, "", says)
