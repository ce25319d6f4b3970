"""Specifications in TOML files: tables and methods."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import tomli_w

from favano.cli.flags import keys_of_one, spec_from
from favano.errors import BadInput
from favano.methods import our_methods
from favano.options import options_of
from favano.planning.comparison import chosen, comparison
from favano.specification.config import (
    Config,
    config_of,
    read_config,
    spec_keys,
    spec_tables,
    stored_keys,
)
from favano.specification.presets import resolve
from favano.specification.spec import PARTS, make_spec
from tests.specs import complete

TABLES = """
[problem]
dataset = "mnist"
split = "iid"

[fleet]
clients = 40
fast_fraction = "1/9"

[clock]
selected = 8
waiting_time = 2.0

[training]
learning_rate = 0.1

[run]
horizon = 700
seeds = 2

[[method]]
name = "favano"
reweight = "deterministic"

[[method]]
name = "fedbuff"
label = "FedBuff, small"
buffer = 3
learning_rate = 0.05

[[method]]
name = "fedavg"
"""
SHARED: dict[str, object] = {
    "dataset": "mnist", "split": "iid", "clients": 40, "fast_fraction": "1/9", "selected": 8,
    "waiting_time": 2.0, "learning_rate": 0.1, "horizon": 700, "seeds": 2,
}  # fmt: skip
METHODS: tuple[dict[str, object], ...] = (
    {"algorithm": "favano", "reweight": "deterministic"},
    {"algorithm": "fedbuff", "label": "FedBuff, small", "buffer": 3, "learning_rate": 0.05},
    {"algorithm": "fedavg"},
)


def write(folder: Path, text: str) -> Path:
    path = folder / "runs.toml"
    path.write_text(text, encoding="utf-8")
    return path


def parsed(text: str) -> Config:
    return config_of(tomllib.loads(text))


def test_tables_are_flat_keys_and_methods(tmp_path: Path) -> None:
    assert read_config(write(tmp_path, TABLES)) == Config(SHARED, METHODS)


def test_one_file_serves_a_run_and_a_comparison(tmp_path: Path) -> None:
    file = write(tmp_path, TABLES)
    first = spec_from(file, {})
    assert (first.name, first.method.given) == ("favano", {"reweight": "deterministic"})
    assert first.fleet.fast_fraction == pytest.approx(1 / 9)
    assert (first.clock.waiting_time, first.training.learning_rate) == (2.0, 0.1)
    config = read_config(file)
    specs = comparison(config.shared, chosen(config.methods, []))
    assert [spec.name for spec in specs] == ["favano", "FedBuff, small", "fedavg"]
    assert [spec.training.learning_rate for spec in specs] == [0.1, 0.05, 0.1]
    assert [spec.clock.waiting_time for spec in specs] == [2.0, 4.0, 4.0]  # only polls read it
    assert resolve(first) == specs[0]


def test_a_run_may_name_another_method_of_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, TABLES)
    for name in ("fedbuff", "FedBuff, small"):
        spec = spec_from(file, {"algorithm": name})
        assert (spec.name, spec.keys["buffer"]) == ("FedBuff, small", 3)
        assert (spec.training.learning_rate, spec.clock.waiting_time) == (0.05, 4.0)
    assert spec_from(file, {"algorithm": "fedavg"}).name == "fedavg"
    other = spec_from(file, {"algorithm": "quafl", "horizon": "70"})
    assert (other.name, other.run.horizon, other.fleet.clients) == ("quafl", 70.0, 40)
    assert other.clock.waiting_time == 2.0


def test_flags_override_the_file(tmp_path: Path) -> None:
    spec = spec_from(write(tmp_path, TABLES), {"clients": "50", "reweight": "none"})
    assert (spec.fleet.clients, spec.method.given) == (50, {"reweight": "none"})


def test_a_comparison_may_name_some_of_them(tmp_path: Path) -> None:
    config = read_config(write(tmp_path, TABLES))
    named = [{"algorithm": "fedavg"}, {"algorithm": "FedBuff, small"}, {"algorithm": "quafl"}]
    specs = comparison(config.shared, chosen(config.methods, named))
    assert [spec.name for spec in specs] == ["fedavg", "FedBuff, small", "quafl"]


def test_one_method_may_be_a_plain_table() -> None:
    config = parsed('[method]\nname = "fedbuff"\nbuffer = 3\n')
    assert config.methods == ({"algorithm": "fedbuff", "buffer": 3},)


def test_two_variants_of_one_method() -> None:
    config = parsed("""
[[method]]
name = "fedbuff"
label = "A"

[[method]]
name = "fedbuff"
label = "B"
buffer = 7
""")
    assert [method.get("buffer") for method in config.methods] == [None, 7]
    specs = comparison(config.shared, config.methods)
    assert [(spec.name, spec.keys["buffer"]) for spec in specs] == [("A", 5), ("B", 7)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[fleet]\nlearning_rate = 0.1\n", r"learning_rate=0.1: belongs in \[training\]$"),
        ("[run]\nclients = 3\n", r"clients=3: belongs in \[fleet\]$"),
        ("[problem]\nselected = 3\n", r"selected=3: belongs in \[clock\]$"),
        ("[training]\nbuffer = 3\n", r"buffer=3: belongs in \[\[method\]\]$"),
        ("[fleet]\nclinets = 3\n",
         r"clinets=3: unknown key of \[fleet\]; did you mean clients\?$"),
        ("[fleets]\nclients = 3\n",
         "config=fleets: unknown table; did you mean fleet\\?$"),
        ("[optimiser]\nrate = 3\n", "config=optimiser: unknown table; known: problem, fleet, "),
        ("fleet = 3\n", r"fleet=3: need a table, as \[fleet\]$"),
        ('method = "favano"\n', r"method=favano: need tables, as \[\[method\]\]$"),
        ("[[method]]\nbuffer = 3\n", r"method=\{'buffer': 3\}: need the name of the method$"),
        ("clients = 40\n", r"clients=40: belongs in \[fleet\]$"),
        ("buffer = 3\n", r"buffer=3: belongs in \[\[method\]\]$"),
        ('algorithm = "fedavg"\n', r"algorithm=fedavg: belongs in \[\[method\]\], as name$"),
        ("clinets = 3\n", r"clinets=3: unknown key; did you mean clients\?$"),
        ("fleets = 3\n", r"fleets=3: unknown key; did you mean fleet\?$"),
        ('[[method]]\nname = "fedbuff"\nalgorithm = "favano"\n',
         r"algorithm=favano: is given in \[\[method\]\] with name=fedbuff; remove one of them$"),
    ],
)  # fmt: skip
def test_refused(text: str, message: str) -> None:
    with pytest.raises(BadInput, match=f"^{message}"):
        parsed(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[method]]\nname = "fedbuf"\n', r"algorithm=fedbuf: unknown; did you mean fedbuff\?"),
        ('[[method]]\nname = "fedbuff"\nbufer = 3\n',
         r"bufer=3: unknown key; did you mean buffer\?$"),
        ('[[method]]\nname = "fedavg"\nbuffer = 3\n',
         "buffer=3: is a key of fedbuff, not of fedavg$"),
        ("[fleet]\nclients = 0\n", "clients=0: need greater than or equal to 1$"),
        ('[problem]\ndataset = "own"\n', "dataset=own: own data can only be run from Python$"),
        ('[problem]\nmodel = "own"\n', "model=own: own networks can only be run from Python$"),
    ],
)  # fmt: skip
def test_refused_when_a_run_is_made_of_it(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=f"^{message}"):
        spec_from(write(tmp_path, text), {})


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    assert read_config(None) == Config()
    with pytest.raises(BadInput, match=r"^config=\S+config.toml: no such file$"):
        read_config(path)
    path.write_text("clients = = 3")
    with pytest.raises(BadInput, match=r"^config=\S+config.toml: is not valid TOML: "):
        read_config(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match=r"^config=\S+config.toml: is not valid TOML: "):
        read_config(path)


def test_true_is_no_number(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"^horizon=True: need a number, not true or false$"):
        spec_from(write(tmp_path, "[run]\nhorizon = true\n"), {})


@pytest.mark.parametrize("name", list(our_methods()))
def test_a_specification_is_written_in_tables_and_read_back(name: str, tmp_path: Path) -> None:
    spec = complete(algorithm=name, clients=20, selected=4, label="mine")
    tables = spec_tables(stored_keys(spec))
    assert list(tables) == [*PARTS, "method"]
    for part, kind in PARTS.items():
        table = tables[part]
        assert isinstance(table, dict)
        assert table.keys() <= options_of(kind).keys()
    file = write(tmp_path, tomli_w.dumps(tables))
    assert resolve(spec_from(file, {})) == spec
    assert make_spec(spec_keys(spec)) == make_spec({**spec.keys})


def test_keys_of_a_run_are_those_of_the_first_method() -> None:
    config = Config(SHARED, METHODS)
    assert keys_of_one(config, {})["algorithm"] == "favano"
    assert keys_of_one(Config(SHARED), {}) == SHARED
    assert keys_of_one(Config(), {"algorithm": "fedavg"}) == {"algorithm": "fedavg"}
