"""`favano serve` and `favano replay`: what they refuse, what they write, what they find."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from math import inf
from pathlib import Path
from shutil import copyfile, copytree

import pytest

pytest.importorskip("flwr")

import numpy as np
import torch
from flwr.app import ArrayRecord, Message
from safetensors.torch import load_file
from typer.testing import CliRunner

from favano.cli.app import app
from favano.data.partition import partition
from favano.errors import BadInput
from favano.flower.client import Client
from favano.flower.partitioning import DEAL, Partitioning
from favano.flower.private import administration, claimed_run
from favano.flower.rounds import AsyncResult
from favano.flower.serve import Serving, judge_of, strategy_of, write_scored, write_terms
from favano.flower.superlink import SuperLink, running
from favano.records.federation import FEDERATION, federation_from_json
from favano.records.folder import MODEL
from favano.run.replay import replay_folder
from favano.run.samples import initial_module, load_samples, named_model
from favano.schedule.contact_trace import load_trace
from favano.specification.presets import resolve
from favano.specification.spec import Spec, make_spec, required
from tests.digests.record import read, this_machine
from tests.flower.fake_grid import FakeGrid, Node, OwnTime, VirtualTime
from tests.flower.federation import federation as federated
from tests.flower.federation import free_port, wait_for
from tests.flower.federations import POLLING
from tests.flower.loopback import Loopback, words

KEYS = {
    "dataset": "digits", "split": "iid", "clients": 4, "selected": 2, "learning_rate": 0.3,
    "local_steps": 5, "batch_size": 16,
}  # fmt: skip


NOBODY: Mapping[int, Partitioning] = {}
SAME_MACHINE = this_machine() == {key: value for key, value in read().items() if key != "runs"}


def spec_of(**more: object) -> Spec:
    return resolve(make_spec({**KEYS, **more}))


def node(spec: Spec, number: int, pace: float, **notes: float) -> Node:
    samples, clock = load_samples(spec), OwnTime()
    own = partition(samples.traits, 4, required(spec.problem.split), spec.run.seed)[number]
    worker = Client(
        named_model(spec, samples),
        (samples.features[own], samples.labels[own]),
        notes={"partition": number, **notes},
        pace=pace,
        clock=clock.now,
        sleep=clock.sleep,
    )

    def handle(message: Message, begin: float) -> tuple[Message, float]:
        clock.time = begin
        return worker.answer(message), clock.time

    return Node(handle)


def federation(
    spec: Spec,
    folder: Path,
    *,
    rounds: int = 8,
    changes: bool = False,
    others: Mapping[int, Partitioning] = NOBODY,
) -> list[str]:
    """What a server leaves in its folder, and says; nodes are numbered otherwise than their data.

    If it changes, a node with other data takes the place of the first. `others` say that their
    shares are from other deals.
    """
    tick = 7.0 if spec.method.name in POLLING else None
    serving = Serving(rounds=16 if changes else rounds, tick=tick, folder=folder)
    write_terms(spec, serving)
    samples = load_samples(spec)
    network = initial_module(named_model(spec, samples), spec.run.seed)
    order = (2, 0, 3, 1)
    notes = {who: {DEAL: deal.number} for who, deal in others.items()}
    grid = FakeGrid(
        {10 + at: node(spec, who, 1.0 + at, **notes.get(who, {})) for at, who in enumerate(order)}
    )
    said: list[str] = []
    if changes:
        grid.nodes[10].online = [(0.0, 20.0)]
        grid.nodes[20] = node(spec, 1, 1.0)
        grid.nodes[20].online = [(25.0, inf)]
    time = VirtualTime(grid)
    strategy = strategy_of(spec, serving, said.append, traits=samples.traits)
    start = ArrayRecord(network.state_dict())
    result = strategy.start(grid, start, serving.rounds, clock=time, workers=time.workers)
    write_scored(folder, judge_of(spec, samples, network), result.arrays)
    return said


@pytest.mark.quick("scaffold")
@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"algorithm": "scaffold"},
        {"codec": "qsgd", "codec_bits": 6},
        {"codec": "lattice", "codec_scale": 1e-3, "codec_dither": True},
        {"buffers": "local"},
        {"quantise": "luq", "weight_bits": 4},
        {"rate_schedule": "cosine", "rate_length": 40.0},
    ],
    ids=["favano", "scaffold", "qsgd", "lattice", "own statistics", "few bits", "cosine"],
)
def test_a_folder_is_replayed(keys: dict[str, object], tmp_path: Path) -> None:
    federation(spec_of(**keys), tmp_path)
    assert replay_folder(tmp_path).equal
    told = CliRunner().invoke(app, ["replay", str(tmp_path), "--json"])
    assert json.loads(told.stdout) == {"largest": 0.0, "numbers": 0, "equal": True}


def test_nodes_pass_over_their_own_samples(tmp_path: Path) -> None:
    """Each makes the steps of two epochs of its own data; the server knows the longest job."""
    keys = {"algorithm": "fednova", "split": "dirichlet:0.5", "local_steps": None}
    spec = spec_of(**keys, local_epochs=2)
    federation(spec, tmp_path, rounds=4)
    trace = load_trace(tmp_path / "trace.npz")
    used = slice(0, trace.schedule.jobs)
    sizes = [len(part) for part in partition(load_samples(spec).traits, 4, "dirichlet:0.5", 0)]
    assert len({-(-size // 16) for size in sizes}) > 1
    made = {int(part): set[int]() for part in trace.partition[used]}
    for part, steps in zip(trace.partition[used], trace.schedule.steps[used], strict=True):
        made[int(part)].add(int(steps))
    assert made == {part: {2 * -(-sizes[part] // 16)} for part in made}
    assert trace.schedule.local_steps == 2 * -(-max(sizes) // 16)
    assert replay_folder(tmp_path).equal


def test_the_last_model_has_the_statistics_with_which_it_was_scored(tmp_path: Path) -> None:
    spec = spec_of(buffers="local", model="resnet20", local_steps=1)
    federation(spec, tmp_path, rounds=2)
    first, last = (load_file(tmp_path / name) for name in ("initial.safetensors", MODEL))
    statistics = [name for name in first if "running" in name]
    assert statistics
    assert not any(torch.equal(first[name], last[name]) for name in statistics)
    assert replay_folder(tmp_path).equal


def test_traces_of_before_are_replayed_and_senders_of_nonsense_are_named(tmp_path: Path) -> None:
    """Older traces do not say what was shortened, and may hold parts that nobody dealt."""
    federation(spec_of(), tmp_path, rounds=3)
    path = tmp_path / "trace.npz"
    columns = dict(np.load(path))
    for name in ("scale", "buffer_scale"):
        del columns[name]
    np.savez_compressed(path, **columns)
    assert replay_folder(tmp_path).equal
    columns["partition"][0] = -5
    np.savez_compressed(path, **columns)
    client = columns["client"][0]
    with pytest.raises(BadInput, match=f"trace=-5: client {client} said that it has this part"):
        replay_folder(tmp_path)


@pytest.mark.parametrize("name", ["clients", "local_steps"])
@pytest.mark.parametrize("value", [7, 2**62])
def test_a_trace_that_contradicts_the_specification_is_refused(
    name: str, value: int, tmp_path: Path
) -> None:
    """It was replayed, "equal to the bit", or filled the memory."""
    federation(spec_of(), tmp_path)
    with np.load(tmp_path / "trace.npz") as archive:
        arrays = {**archive, name: np.array(value)}
    np.savez(tmp_path / "trace.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=rf"trace.npz: has {name}={value}, spec.toml"):
        replay_folder(tmp_path)


def trace_of_0_2(method: str, folder: Path) -> Path:
    """What 0.2 wrote; its federations all began with the same model."""
    traces = Path(__file__).parent / "traces"
    copytree(traces / method, folder, dirs_exist_ok=True)
    copyfile(traces / "initial.safetensors", folder / "initial.safetensors")
    return folder


@pytest.mark.parametrize(("method", "steps"), [("favano", 50), ("fedbuff", 120), ("fedavg", 120)])
def test_traces_of_0_2_replay_to_their_models(method: str, steps: int, tmp_path: Path) -> None:
    """FAVANO's is of three nodes on loopback, the others of virtual time; the machine has a say."""
    folder = trace_of_0_2(method, tmp_path)
    trace, replayed = load_trace(folder / "trace.npz"), replay_folder(folder)
    used = trace.schedule.used_by < trace.schedule.updates
    assert trace.old
    assert trace.schedule.steps[used].sum() == steps
    assert replayed.largest < 1e-6
    assert replayed.equal or not SAME_MACHINE


def test_a_robust_rule_of_0_2_is_refused(tmp_path: Path) -> None:
    spec = trace_of_0_2("favano", tmp_path) / "spec.toml"
    spec.write_text(spec.read_text().replace('robust = "none"', 'robust = "clip:1"'))
    with pytest.raises(BadInput, match=r"robust=clip:1: meant another rule before 0\.3"):
        replay_folder(tmp_path)


def test_a_place_may_be_taken_by_a_node_with_other_data(tmp_path: Path) -> None:
    federation(spec_of(), tmp_path, changes=True)
    trace = load_trace(tmp_path / "trace.npz")
    used = trace.schedule.used_by < trace.schedule.updates
    assert set(trace.partition[used & (trace.schedule.client == 0)]) == {1, 2}
    assert replay_folder(tmp_path).equal


@pytest.mark.quick("dataset=digits, split=two-class, seed=0, 4 parts")
@pytest.mark.parametrize(
    "other",
    [
        Partitioning("digits", "iid", 1, 0),
        Partitioning("digits", "two-class", 4, 0),
        Partitioning("digits", "iid", 4, 7),
        Partitioning("mnist", "iid", 4, 0),
    ],
    ids=str,
)
def test_a_share_of_another_deal_is_refused(other: Partitioning, tmp_path: Path) -> None:
    mine = Partitioning("digits", "iid", 4, 0)
    said = federation(spec_of(), tmp_path, others={0: other, 3: mine})
    refused = [line for line in said if "refused" in line]
    assert refused
    need = "other data: need a share of dataset=digits, split=iid, seed=0, 4 parts"
    assert all(line.startswith("client 1: ") and need in line for line in refused)
    trace = load_trace(tmp_path / "trace.npz")
    used = trace.schedule.used_by < trace.schedule.updates
    assert set(trace.schedule.client[used]) == {0, 2, 3}
    assert replay_folder(tmp_path).equal


def test_files_may_be_elsewhere() -> None:
    here = Partitioning("/data/images", "file:/data/parts.csv", 4, 0)
    assert here.number == Partitioning("images", "file:elsewhere/parts.csv", 4, 0).number


def test_a_refused_server_changes_nothing(tmp_path: Path) -> None:
    federation(spec_of(), tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    other = words(
        {**KEYS, "algorithm": "favano-delta", "batch_size": 8, "tick": 5, "out": tmp_path}
    )
    for more, rule in (
        ([], "holds the checkpoint of a federation; go on with resume"),
        (["--resume"], "is of another federation (differs in "),
    ):
        told = CliRunner().invoke(app, ["serve", *other, "--port", str(free_port()), *more])
        assert isinstance(told.exception, BadInput)
        assert rule in str(told.exception)
        assert "nodes join at" not in told.output
        after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        assert after == before


def test_a_model_that_was_changed_is_noticed(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    federation(spec_of(), tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    name, first = next(iter(tensors.items()))
    first.view(-1)[0] += 0.5
    save_file({**tensors, name: first}, tmp_path / "model.safetensors")
    divergence = replay_folder(tmp_path)
    assert (divergence.equal, divergence.numbers) == (False, 1)
    assert divergence.largest == pytest.approx(0.5)
    told = CliRunner().invoke(app, ["replay", str(tmp_path)])
    assert told.stdout == "The models differ in 1 numbers, by 0.5 at most.\n"
    assert told.exit_code == 1
    (tmp_path / "trace.npz").unlink()
    with pytest.raises(BadInput, match=r"lacks trace\.npz"):
        replay_folder(tmp_path)
    assert torch.isfinite(first).all()


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("horizon", 100, "horizon=100.0: is a key of simulations"),
        ("fast_fraction", 0.5, "fast_fraction=0.5: is a key of simulations"),
        ("engine", "loop", "engine=loop: is a key of simulations"),
        ("holdout", 100, "holdout=100: is a key of simulations"),
        ("rate_schedule", "cosine", "rate_schedule=cosine: need rate_length"),
        ("rate_decay", True, "rate_decay=True: is a key of simulations"),
    ],
)
def test_keys_of_simulations_are_refused(
    key: str, value: object, sentence: str, tmp_path: Path
) -> None:
    serving = Serving(rounds=8, tick=7.0, folder=tmp_path)
    with pytest.raises(BadInput) as refused:
        strategy_of(spec_of(**{key: value}), serving, print)
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("flags", "influence", "code", "last"),
    [
        ([], None, 0, "done: fed\n"),
        (["--influence", "inf"], None, 0, "done: fed\n"),
        (
            ["--influence", "3"],
            3.0,
            1,
            "done: fed; --influence 3 was on, 0 client updates were shortened, and nothing of 12 "
            "in a row was used; leave it out if you trust the nodes\n",
        ),
    ],
    ids=["default", "inf", "bound"],
)
def test_a_bound_is_off_unless_asked_for_and_one_that_leaves_nothing_is_a_failure(
    flags: list[str],
    influence: float | None,
    code: int,
    last: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The end of a server by its command; the folder says that it was on."""

    def served(spec: Spec, serving: Serving, *_: object) -> AsyncResult:
        write_terms(spec, serving)
        return AsyncResult(influence=serving.influence, most_unused=12)

    monkeypatch.setattr("favano.flower.serve.serve", served)
    monkeypatch.chdir(tmp_path)
    told = CliRunner().invoke(app, ["serve", "--tick", "2", "--out", "fed", *flags])
    assert told.exit_code == code
    assert told.stderr.endswith(f"favano: {last}")
    record = federation_from_json((tmp_path / "fed" / FEDERATION).read_text())
    assert record.influence == influence


def test_other_machines_need_keys(tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["serve", "--host", "0.0.0.0", "--tick", "30"])
    assert isinstance(told.exception, BadInput)
    assert "need keys (favano keys), or insecure, with which whoever reaches the port can read" in (
        str(told.exception)
    )
    with pytest.raises(BadInput, match="is for servers without keys"):
        SuperLink(tmp_path, keys=tmp_path, insecure=True)


def test_a_superlink_is_told_what_it_needs(tmp_path: Path) -> None:
    plain = SuperLink(tmp_path, port=8123)
    assert "--insecure" in plain.command
    assert plain.address == "127.0.0.1:8123"
    assert SuperLink(tmp_path, host="0.0.0.0", insecure=True).address == "127.0.0.1:8000"
    with pytest.raises(BadInput, match=r"lacks authority\.crt"):
        SuperLink(tmp_path, keys=tmp_path)
    for name in ("authority.crt", "server.crt", "server.key", "operator.key"):
        (tmp_path / name).touch()
    secure = SuperLink(tmp_path, keys=tmp_path)
    assert "--insecure" not in secure.command
    assert "--enable-supernode-auth" in secure.command
    with pytest.raises(BadInput, match="port=0"):
        SuperLink(tmp_path, port=0)


@pytest.mark.machine
def test_a_superlink_that_cannot_start_says_where_to_look(tmp_path: Path) -> None:
    """Its database is no file."""
    (tmp_path / "superlink.db").mkdir()
    (tmp_path / "superlink.pid").touch()  # nobody reads what an earlier version has left
    link = SuperLink(tmp_path, port=free_port())
    sentence = r"did not start; see .*superlink\.log"
    with pytest.raises(BadInput, match=sentence), running(link, print):
        raise AssertionError("it runs")


def test_a_superlink_that_a_killed_server_left_is_ended(tmp_path: Path) -> None:
    """It is known by its database; others are left alone."""
    link = SuperLink(tmp_path, host="192.0.2.1", insecure=True)  # not of this machine
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
    old, other = (
        subprocess.Popen([*sleeper, "--database", str(folder / "superlink.db")])
        for folder in (tmp_path, tmp_path / "another")
    )
    reaper = threading.Thread(target=old.wait)  # as whoever takes over the children of the dead
    reaper.start()
    with pytest.raises(BadInput, match="cannot be used"), running(link, print):
        raise AssertionError("it runs")
    reaper.join()
    assert old.returncode == -signal.SIGTERM
    assert other.poll() is None
    other.kill()
    other.wait()


def test_a_superlink_that_is_held_is_ended_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("favano.flower.superlink._ENDING", 0.2)
    link = SuperLink(tmp_path, host="192.0.2.1", insecure=True)
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen([*sleeper, "--database", str(link.database)]) as old:
        old.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, old.pid, os.WSTOPPED | os.WNOWAIT)  # until it stands still
        reaper = threading.Thread(target=old.wait)
        reaper.start()
        with pytest.raises(BadInput, match="cannot be used"), running(link, print):
            raise AssertionError("it runs")
        reaper.join()
    assert old.returncode == -signal.SIGKILL


def test_a_program_of_another_user_is_not_taken_for_a_superlink(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody can start one with the same words: it was ended by root, and waited for by others."""
    link = SuperLink(tmp_path, host="192.0.2.1", insecure=True)
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen([*sleeper, "--database", str(link.database)]) as other:
        monkeypatch.setattr("os.geteuid", lambda: Path(f"/proc/{other.pid}").stat().st_uid + 1)
        with pytest.raises(BadInput, match="cannot be used"), running(link, print):
            raise AssertionError("it runs")
        assert other.poll() is None
        other.kill()


def test_a_port_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    """Whoever listens there, and whether he answers or not."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        rule = f"port={port}: cannot be used at 127.0.0.1: Address already in use"
        with pytest.raises(BadInput, match=rule), running(SuperLink(tmp_path, port=port), print):
            raise AssertionError("it runs")
    elsewhere = SuperLink(tmp_path, host="192.0.2.1", port=8123, insecure=True)
    rule = r"port=8123: cannot be used at 192\.0\.2\.1: Cannot assign"
    with pytest.raises(BadInput, match=rule), running(elsewhere, print):
        raise AssertionError("it runs")


@pytest.mark.machine
@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_whoever_tells_a_server_to_end_twice_leaves_nothing_running(
    told: signal.Signals, tmp_path: Path
) -> None:
    """The second signal came while it ended its SuperLink; a terminal that is closed sends one."""
    with federated(tmp_path) as lab:
        loopback = Loopback(lab, rounds=10_000)
        loopback.serve()
        wait_for(lambda: "round 0" in loopback.told, "the server")
        (server,) = loopback.servers
        while server.poll() is None:
            server.send_signal(told)
            time.sleep(0.05)
        assert server.returncode == 128 + told
        assert "stopped; go on with" in loopback.told
        assert "Traceback" not in loopback.told
        assert loopback.processes("superlink") == []
        assert not (tmp_path / "superlink.secret").exists()


@pytest.mark.machine
def test_runs_of_a_server_that_was_killed_are_stopped(tmp_path: Path) -> None:
    link = SuperLink(tmp_path, port=free_port())
    with running(link, print):
        link.submit()
        link.stop_runs()
        with administration(link.door) as administrator:
            assert list(administrator.runs().values()) == ["finished:stopped"]
        link.stop_runs()
        with claimed_run(link.door) as run:
            assert run is None


def test_one_server_at_a_time(tmp_path: Path) -> None:
    """The other process has the folder until its input ends; nothing of it is touched."""
    program = (
        "import sys; from pathlib import Path\n"
        "from favano.run.folder_lock import folder_lock\n"
        "with folder_lock(Path(sys.argv[1])):\n"
        "    print('ready', flush=True); sys.stdin.read()\n"
    )
    federation(spec_of(), tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    flags = words({**KEYS, "tick": 7, "out": tmp_path, "port": free_port()})
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
        for more in ([], ["--resume"]):
            told = CliRunner().invoke(app, ["serve", *flags, *more])
            assert isinstance(told.exception, BadInput)
            assert str(told.exception) == (
                f"folder={tmp_path}: another process is at work in this folder; wait for it, or "
                "choose a new folder"
            )
        other.kill()
    (tmp_path / ".lock").unlink()
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before
