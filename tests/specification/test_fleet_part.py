"""Keys of fleets: what they say of a run, its digest and its files, and their way through TOML."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli_w

import favano
from favano.errors import BadInput
from favano.specification.config import keys_from_toml, read_config, spec_tables, stored_keys
from favano.specification.digest import asked_digest, differing_keys, run_digest
from favano.specification.federation_keys import check_keys
from favano.specification.history_start import files_digest, named_files
from favano.specification.presets import resolve
from favano.specification.spec import Spec, changed, make_spec
from tests.specs import complete, spec_of

GROUPS = [{"name": "fast", "share": 0.5, "mean": 2.0}, {"share": 0.5, "mean": 9.0, "link": "home"}]
FLEETS: list[dict[str, object]] = [
    {"fleet": "phones", "availability": "phones", "when_away": "later", "link": "home"},
    {"flops_per_second": 1e9, "server_link": "100:100", "timeout": 60.0, "watts": 3.0},
    {"flops_per_second": [1e9, 2e9], "joules_per_step": [1.0, 2.0], "joules_per_byte": 1e-6},
    {"clients": 8, "group": GROUPS},
    {"fleet": "phones", "step_law": "geometric"},
    {"link": "mobile", "interaction_time": 3.0},
    {"link": "mobile", "interaction_time": 1.0},
]


def stored(spec: Spec) -> Spec:
    """The specification, written and read."""
    return make_spec(keys_from_toml(tomli_w.dumps(spec_tables(stored_keys(spec)))))


@pytest.mark.parametrize("keys", FLEETS, ids=lambda keys: "-".join(keys))
def test_fleets_survive_their_files(keys: dict[str, object]) -> None:
    spec = complete(selected=1, **keys)
    again = resolve(stored(spec))
    assert again.fleet == spec.fleet
    assert again.keys == spec.keys
    assert run_digest(again) == run_digest(spec)
    assert differing_keys(stored_keys(spec), again) == []
    longer = resolve(changed(again, {"horizon": 7000.0}))
    assert longer.fleet == spec.fleet
    assert longer.clock == spec.clock
    assert asked_digest(longer) == asked_digest(spec)


@pytest.mark.parametrize("keys", FLEETS, ids=lambda keys: "-".join(keys))
def test_every_key_of_a_fleet_names_another_run(keys: dict[str, object]) -> None:
    digests = {run_digest(complete(selected=1, **part)) for part in (keys, {"clients": 5}, {})}
    assert len(digests) == 3


def test_a_file_has_groups_as_tables(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(
        '[fleet]\nclients = 8\n[[fleet.group]]\nname = "fast"\nshare = 0.5\nmean = 2\n'
        '[[fleet.group]]\nshare = 0.5\nmean = 9.0\nlink = "home"\n'
    )
    spec = make_spec(read_config(path).first)
    assert spec.fleet == favano.Fleet.groups(GROUPS, clients=8)
    words = ["name=fast share=0.5 mean=2", "share=0.5 mean=9 link=home"]
    assert spec.fleet == spec_of(clients=8, group=words).fleet
    path.write_text("[fleet]\n[[fleet.group]]\nshares = 0.5\n")
    with pytest.raises(BadInput, match=r"group\.shares=0\.5: unknown key; did you mean share\?"):
        make_spec(read_config(path).first)


def test_links_are_the_interaction_unless_it_is_given() -> None:
    assert complete(link="home").clock.interaction_time == 0
    assert complete(server_link="5:5").clock.interaction_time == 0
    assert complete(group=GROUPS, clients=4, selected=1).clock.interaction_time == 0
    assert complete(link="home", interaction_time=3).clock.interaction_time == 3
    assert complete().clock.interaction_time == 3
    full = complete(link="home")
    assert resolve(changed(full, {"link": "none"})).keys["link"] == "none"
    assert full.keys["interaction_time"] == 0  # as spec.toml has it
    for fleet in (favano.Fleet(link="home"), favano.Fleet.phones(5, link="home")):
        planned = favano.plan("fedavg", "digits", fleet, selected=2, horizon=20.0).planned
        assert planned.spec.clock.interaction_time == 0
        assert planned.spec.fleet.step_law == fleet.step_law


def test_the_law_of_steps_of_devices_is_continuous() -> None:
    assert complete(fleet="phones").fleet.step_law == "lognormal:0.3"
    assert complete(fleet="phones", step_law="geometric").fleet.step_law == "geometric"
    assert complete(flops_per_second=1e9).fleet.step_law == "lognormal:0.3"
    assert complete(mean=[1, 2], selected=1).fleet.step_law == "geometric"
    assert "step_law" not in complete(fleet="phones").given


def test_files_of_a_fleet_are_digested(tmp_path: Path) -> None:
    names = ("speeds", "there", "links", "faults")
    paths = {name: tmp_path / name for name in names}
    for path in paths.values():
        path.write_text("before")
    spec = complete(
        fleet=f"appfl:{paths['speeds']}",
        availability=f"trace:{paths['there']}:600",
        link=f"fedscale:{paths['links']}",
        faults=str(paths["faults"]),
    )
    assert named_files(spec) == [str(paths[name]) for name in names]
    digests = {files_digest(spec)}
    for path in paths.values():
        path.write_text("after")
        digests.add(files_digest(spec))
    assert len(digests) == 5
    assert files_digest(complete(availability="phones", fleet="phones")) is None
    grouped = [{"share": 1.0, "mean": 1.0, "availability": f"flame:{paths['there']}:syn_10"}]
    assert named_files(complete(group=grouped)) == [str(paths["there"])]


@pytest.mark.parametrize(
    "keys",
    [
        {"fleet": "phones"},
        {"availability": "phones"},
        {"link": "home"},
        {"faults": "faults.toml"},
        {"group": GROUPS},
        {"joules_per_step": 2},
        {"timeout": 3},
    ],
    ids=lambda keys: next(iter(keys)),
)
def test_a_federation_has_none_of_it(keys: dict[str, object]) -> None:
    with pytest.raises(BadInput, match=f"^{next(iter(keys))}=.*: is a key of simulations"):
        check_keys(complete(**keys))


def test_the_name_of_a_fleet_is_an_argument_in_python() -> None:
    plan = favano.plan("favano", "digits", "phones", clients=6, selected=2, horizon=20.0)
    assert plan.planned.spec.fleet.fleet == "phones"
    assert plan.planned.fleet.mean.max() < 0.1  # seconds for a small network
    with pytest.raises(BadInput, match="fleet=tablets: need phones, appfl:FILE or fedscale:FILE"):
        favano.plan("favano", "digits", "tablets")
