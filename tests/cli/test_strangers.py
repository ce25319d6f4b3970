"""Folders of strangers: nothing in them is executed unless its file is named by `--trust`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import favano as package
from favano import user_classes
from favano.errors import BadInput
from favano.records.federation import FEDERATION, INITIAL, TRACE
from favano.records.folder import MODEL, SPEC
from favano.records.resumption import RESUME
from tests.cli.test_cli import SHORT, Program, favano
from tests.cli.test_help import METHOD
from tests.cli.test_resume import OFTEN, interrupted

__all__ = ["favano"]

NAMED = ("--algorithm", "evil.py:Gentle")
EVIL = METHOD + "\nfrom pathlib import Path\n\nPath('marker').touch()\n"
DIGEST = hashlib.sha256(EVIL.encode()).hexdigest()


@pytest.fixture
def stranger(favano: Program, tmp_path: Path) -> Path:
    """A result whose method is in a file that leaves a marker whenever it is executed."""
    (tmp_path / "evil.py").write_text(EVIL, encoding="utf-8")
    assert favano("run", *SHORT, *NAMED, "--out", "r")[0] == 0
    assert executed(tmp_path)
    return tmp_path / "r"


def executed(folder: Path) -> bool:
    """Whether the file was executed; forgotten, so that the next time is seen."""
    user_classes._load.cache_clear()
    there = (folder / "marker").exists()
    (folder / "marker").unlink(missing_ok=True)
    return there


def of_a_federation(folder: Path) -> None:
    for name in (FEDERATION, TRACE, INITIAL, MODEL):
        (folder / name).touch()


def of_an_experiment(folder: Path) -> None:
    """A run file instead of a result folder."""
    (folder / "runs").mkdir()
    keys = {"algorithm": NAMED[1], "clients": 4, "selected": 2}
    entry = dict.fromkeys(("reading", "algorithm", "column"), "x")
    content = {
        "favano": "0", "command": "", "spec": keys, "footprint": "", "history": [],
        "entry": {**entry, "seed": 0, "status": "complete"},
    }  # fmt: skip
    (folder / "runs" / "1.json").write_text(json.dumps(content))


def unfinished(folder: Path) -> None:
    command = ["run", *SHORT, *NAMED, "--out", "r"]
    note = {"command": command, "folder": str(folder.parent), "out": "r"}
    (folder / RESUME).write_text(json.dumps(note))


def by_a_file(folder: Path) -> None:
    """The command names a specification, which names the method."""
    note = {"command": ["run", "r/spec.toml"], "folder": str(folder.parent), "out": "r"}
    (folder / RESUME).write_text(json.dumps(note))


def in_a_change(folder: Path) -> None:
    words = ["reproduce", "table-2", "--with", f"algorithm={NAMED[1]}", "--scale", "0.01"]
    note = {"command": words, "folder": str(folder.parent), "out": "r"}
    (folder / RESUME).write_text(json.dumps(note))


def as_it_is(folder: Path) -> None:
    assert (folder / SPEC).is_file()


@pytest.mark.quick("verify r-as_it_is", "resume r-unfinished")
@pytest.mark.parametrize(
    ("words", "prepare"),
    [
        (["verify", "r"], as_it_is),
        (["verify", "r", "--chain"], as_it_is),
        (["verify", "r", "--from-checkpoints"], as_it_is),
        (["verify", "r"], of_an_experiment),
        (["verify", "r", "--chain"], of_an_experiment),
        (["report", "r"], as_it_is),
        (["report", "r"], of_an_experiment),
        (["replay", "r"], of_a_federation),
        (["resume", "r"], as_it_is),
        (["resume", "r"], unfinished),
        (["resume", "r"], by_a_file),
        (["resume", "r"], in_a_change),
        (["resume", "r"], of_an_experiment),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value.__name__,
)
def test_nothing_is_executed(
    words: list[str], prepare: Callable[[Path], None], favano: Program, stranger: Path
) -> None:
    prepare(stranger)
    code, out, err = favano(*words)
    assert not executed(stranger.parent)
    assert code in (0, 1, 2)
    assert "Traceback" not in out + err


@pytest.mark.parametrize("prepare", [as_it_is, of_an_experiment])
def test_nothing_is_executed_from_python(prepare: Callable[[Path], None], stranger: Path) -> None:
    prepare(stranger)
    package.load(stranger)
    package.verify(stranger, chain_only=True)
    with pytest.raises(BadInput, match="would be executed"):
        package.verify(stranger)
    assert not executed(stranger.parent)


def test_the_refusal_says_what_to_type(favano: Program, stranger: Path) -> None:
    code, out, err = favano("verify", "r")
    assert (code, out) == (2, "")
    assert err == (
        f"favano: algorithm=evil.py:Gentle: would be executed (SHA-256 {DIGEST}); "
        "if you trust this file, add --trust evil.py\n"
    )
    code, out, err = favano("verify", "r", "--trust", "evil.py")
    assert (code, err) == (0, f"favano: trusted: evil.py (SHA-256 {DIGEST})\n")
    assert executed(stranger.parent)
    with pytest.raises(BadInput, match="nothing is executed with chain_only"):
        package.verify(stranger, chain_only=True, trust=["evil.py"])
    for trusted in ({"trust": ["evil.py"]}, {"trust": "evil.py"}, {"methods": [NAMED[1]]}):
        assert all(verdict.right for verdict in package.verify(stranger, **trusted))
        assert executed(stranger.parent)


def test_trust_is_in_one_file(favano: Program, stranger: Path) -> None:
    (stranger.parent / "mine.py").write_text(METHOD, encoding="utf-8")
    code, _, err = favano("verify", "r", "--trust", "mine.py")
    assert (code, err.endswith(", add --trust evil.py\n")) == (2, True)
    assert not executed(stranger.parent)
    code, _, err = favano("verify", "r", "--trust", "nowhere.py")
    assert (code, err) == (2, "favano: trust=nowhere.py: no such file\n")


def test_a_command_of_ones_own_goes_on(
    favano: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evil.py").write_text(EVIL, encoding="utf-8")
    longer = [*OFTEN, "--horizon", "1000", *NAMED, "--out", "r"]
    interrupted(favano, monkeypatch, "run", *longer, updates=5)
    assert executed(tmp_path)
    code, _, err = favano("resume", "r")
    assert (code, executed(tmp_path)) == (2, False)
    assert err.endswith("if you trust this file, add --trust evil.py\n")
    assert (tmp_path / "r" / RESUME).exists()
    code, _, err = favano("resume", "r", "--trust", "evil.py")
    assert (code, executed(tmp_path)) == (0, True)
    assert err.startswith(f"favano: trusted: evil.py (SHA-256 {DIGEST})\n")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["keys", "k"], "its command is keys; need one of"),
        ([], "its command is empty; need one of"),
        (["run", *SHORT, "--cluster", "there:6379"], "add --cluster there:6379"),
        (["compare", *SHORT, "--cluster=there:6379"], "add --cluster there:6379"),
    ],
)
def test_other_commands_are_refused(
    command: list[str], words: str, favano: Program, tmp_path: Path
) -> None:
    (tmp_path / "r").mkdir()
    note = {"command": command, "folder": str(tmp_path), "out": "r"}
    (tmp_path / "r" / RESUME).write_text(json.dumps(note))
    code, out, err = favano("resume", "r")
    assert (code, out) == (2, "")
    assert words in err
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_a_note_writes_nowhere_else(favano: Program, tmp_path: Path) -> None:
    """Also if it says that it lies in this very folder."""
    (tmp_path / "r").mkdir()
    command = ["run", *SHORT, "--out", "precious"]
    note = {"command": command, "folder": str(tmp_path), "out": "r"}
    (tmp_path / "r" / RESUME).write_text(json.dumps(note))
    assert favano("resume", "r")[0] == 0
    assert (tmp_path / "r" / MODEL).exists()
    assert not (tmp_path / "precious").exists()


@pytest.mark.parametrize("name", ["checkpoints", "favano", ".lock", "runs/1"])
def test_a_folder_with_links_to_others_does_not_go_on(
    name: str, favano: Program, tmp_path: Path
) -> None:
    """`compare` writes into folders of its folder, and a result of the user's would be replaced."""
    (tmp_path / "precious").mkdir()
    (tmp_path / "r" / "runs").mkdir(parents=True)
    (tmp_path / "r" / name).symlink_to(tmp_path / "precious")
    command = ["compare", *SHORT, "--algorithms", "favano,fedavg"]
    note = {"command": command, "folder": str(tmp_path), "out": "r"}
    (tmp_path / "r" / RESUME).write_text(json.dumps(note))
    code, out, err = favano("resume", "r")
    assert (code, out) == (2, "")
    assert err.startswith(f"favano: folder=r: holds a link, {name}, ")
    assert not list((tmp_path / "precious").iterdir())


def test_a_specification_is_run_on_purpose_and_says_what_it_executes(
    favano: Program, stranger: Path
) -> None:
    """Whoever runs a specification runs what it names; a flag names it himself."""
    said = f"favano: r/spec.toml names evil.py (SHA-256 {DIGEST}), which is executed\n"
    code, _, err = favano("run", "r/spec.toml", "--out", "again")
    assert (code, err) == (0, said)
    assert executed(stranger.parent)
    assert favano("run", *SHORT, *NAMED, "--out", "more")[2] == ""


@pytest.mark.quick("verify-server*")
@pytest.mark.parametrize(
    "line",
    ['[clock]\nselection = "evil.py:Gentle"', 'server = ["evil.py:Gentle"]',
     '[policy]\nname = "evil.py:Gentle"'],
)  # fmt: skip
@pytest.mark.parametrize("call", ["load", "verify", "digests"])
def test_nor_are_parts_of_a_run_that_are_in_files(
    favano: Program, tmp_path: Path, line: str, call: str
) -> None:
    """A selection, a server transform or a policy, instead of the method."""
    assert favano("run", *SHORT, "--out", "r")[0] == 0
    spec = tmp_path / "r" / SPEC
    text = spec.read_text()
    table, _, rest = line.partition("\n")
    if rest and f"{table}\n" in text:
        kept = [old for old in text.splitlines() if not old.startswith("selection = ")]
        text = "\n".join(kept).replace(table, line, 1)
    else:
        text = f"{line}\n\n{text}" if not rest else f"{text}\n{line}\n"
    spec.write_text(text)
    (tmp_path / "evil.py").write_text(EVIL, encoding="utf-8")
    executed(tmp_path)
    if call == "verify":
        favano("verify", "r")
    elif call == "digests":
        favano("verify", "r", "--chain")
        favano("report", "r", "--out", "page.html")
    else:
        with suppress(BadInput):
            for result in package.load("r").results:
                assert result.spec
    assert not executed(tmp_path)
