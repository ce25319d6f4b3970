"""Keys and certificates: whom they vouch for, who may read them, and that they are never lost."""

from __future__ import annotations

import ssl
from ipaddress import ip_address
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_ssh_public_key

from favano.errors import BadInput
from favano.flower.keys import (
    make_keys,
    node_keys,
    read_key,
    read_operator_key,
    read_operators,
)


def server_certificate(folder: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / "server.crt").read_bytes())


def test_every_file_is_made_and_secrets_are_for_their_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    made = make_keys(folder, ["example.org"], ["lab", "ward"])
    assert sorted(made) == sorted(folder.iterdir())
    modes = {path.name: path.stat().st_mode & 0o777 for path in made}
    assert modes == {
        "authority.crt": 0o644, "authority.key": 0o600, "server.crt": 0o644, "server.key": 0o600,
        "operator.yaml": 0o644, "operator.key": 0o600,
        "lab": 0o600, "lab.pub": 0o644, "ward": 0o600, "ward.pub": 0o644,
    }  # fmt: skip
    assert folder.stat().st_mode & 0o777 == 0o700


def test_the_certificate_is_for_the_hosts_and_this_machine(tmp_path: Path) -> None:
    make_keys(tmp_path, ["example.org", "10.1.2.3"], [])
    names = server_certificate(tmp_path).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert names.value.get_values_for_type(x509.DNSName) == ["localhost", "example.org"]
    addresses = [ip_address(address) for address in ("127.0.0.1", "::1", "10.1.2.3")]
    assert names.value.get_values_for_type(x509.IPAddress) == addresses


def test_a_public_key_is_that_of_its_private_key(tmp_path: Path) -> None:
    make_keys(tmp_path, [], ["lab"])
    public = load_ssh_public_key((tmp_path / "lab.pub").read_bytes())
    assert public == read_key(tmp_path / "lab").public_key()
    assert (tmp_path / "lab.pub").read_text().startswith("ecdsa-sha2-nistp384 ")


@pytest.mark.parametrize(("host", "trusted"), [("localhost", True), ("example.org", False)])
def test_a_client_trusts_the_authority_s_server_by_its_names(
    tmp_path: Path, host: str, trusted: bool
) -> None:
    """A handshake in memory, as the network would see it."""
    make_keys(tmp_path, [], [])
    make_keys(tmp_path / "other", [], [])
    assert shakes_hands(tmp_path, tmp_path / "authority.crt", host) == trusted
    assert not shakes_hands(tmp_path, tmp_path / "other" / "authority.crt", host)


def shakes_hands(folder: Path, authority: Path, host: str) -> bool:
    """Whether a client that trusts this authority accepts the server of a folder."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(folder / "server.crt", folder / "server.key")
    asking = ssl.create_default_context(cafile=str(authority))
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = asking.wrap_bio(back, there, server_hostname=host)
    server = serving.wrap_bio(there, back, server_side=True)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError:
                return False
    return client.version() == "TLSv1.3"


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in make_keys(tmp_path, [], ["lab"])}
    with pytest.raises(BadInput, match="exists, and is not overwritten"):
        make_keys(tmp_path, [], ["ward", "lab"])
    with pytest.raises(BadInput, match="add --revoke server"):
        make_keys(tmp_path, ["example.org"], ["ward"])
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_single_file_that_is_in_the_way_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "server.key").write_text("precious")
    with pytest.raises(BadInput, match=r"server\.key"):
        make_keys(tmp_path, [], [])
    assert [path.name for path in tmp_path.iterdir()] == ["server.key"]


def test_nodes_can_be_added_later(tmp_path: Path) -> None:
    make_keys(tmp_path, [], ["lab"])
    certificate = server_certificate(tmp_path)
    assert [path.name for path in make_keys(tmp_path, [], ["ward"])] == ["ward", "ward.pub"]
    assert server_certificate(tmp_path) == certificate


@pytest.mark.parametrize(
    "node", ["", "../lab", "a b", ".hidden", "authority", "server", "operator", "a/b"]
)
def test_a_node_needs_a_plain_name(tmp_path: Path, node: str) -> None:
    with pytest.raises(BadInput, match="node"):
        make_keys(tmp_path / "keys", [], [node])
    assert not (tmp_path / "keys").exists()


@pytest.mark.parametrize(
    ("nodes", "rule"),
    [
        (("a", "a"), "is named twice"),
        (("a", "a.pub"), "a.pub would also be a file of a; rename one"),
        (("b", "server.key"), "server.key would also be a file of server; rename one"),
    ],
)
def test_a_node_whose_files_are_those_of_another_is_refused_before_any_is_made(
    tmp_path: Path, nodes: tuple[str, str], rule: str
) -> None:
    with pytest.raises(BadInput, match=f"^node={nodes[1]}: {rule}$"):
        make_keys(tmp_path / "keys", ["localhost"], nodes)
    assert not (tmp_path / "keys").exists()
    assert len(make_keys(tmp_path / "keys", ["localhost"], nodes[:1])) == 8


@pytest.mark.parametrize("host", ["", "example.org:8000", "https://example.org", "a b"])
def test_a_host_is_a_name_or_an_address(tmp_path: Path, host: str) -> None:
    with pytest.raises(BadInput, match="host"):
        make_keys(tmp_path / "keys", [host], [])
    assert not (tmp_path / "keys").exists()


def test_a_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    make_keys(tmp_path, [], [])
    for path in (tmp_path / "server.key", tmp_path / "missing"):
        with pytest.raises(BadInput, match="cannot be read"):
            read_key(path)


def test_a_node_is_revoked_by_removing_its_key(tmp_path: Path) -> None:
    make_keys(tmp_path, [], ["lab", "ward"])
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert node_keys(tmp_path).keys() == {"lab", "ward"}
    assert make_keys(tmp_path, [], [], ["lab"]) == []
    after = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert {path.name for path in before.keys() - after.keys()} == {"lab", "lab.pub"}
    assert after.items() <= before.items()
    assert node_keys(tmp_path).keys() == {"ward"}


def test_a_node_is_revoked_where_only_its_public_key_is(tmp_path: Path) -> None:
    """As on the server, which has no secrets of nodes."""
    make_keys(tmp_path, [], ["lab"])
    (tmp_path / "lab").unlink()
    make_keys(tmp_path, [], [], ["lab"])
    assert node_keys(tmp_path) == {}


@pytest.mark.parametrize("name", ["ward", "authority", "../keys/lab", ""])
def test_what_cannot_be_revoked_is_refused_and_changes_nothing(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "keys"
    make_keys(folder, [], ["lab"])
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(BadInput, match=f"^revoke={name}: "):
        make_keys(folder, [], ["other"], ["lab", name])
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_a_name_that_is_revoked_and_made_has_a_new_key(tmp_path: Path) -> None:
    make_keys(tmp_path, [], ["lab"])
    old = node_keys(tmp_path)["lab"]
    assert [path.name for path in make_keys(tmp_path, [], ["lab"], ["lab"])] == ["lab", "lab.pub"]
    assert node_keys(tmp_path)["lab"] != old
    assert node_keys(tmp_path)["lab"] == read_key(tmp_path / "lab").public_key()


def test_a_server_certificate_is_replaced_by_the_same_authority(tmp_path: Path) -> None:
    """Nodes notice nothing; other hosts may be named."""
    make_keys(tmp_path, [], ["lab"])
    old = server_certificate(tmp_path)
    made = make_keys(tmp_path, ["example.org"], [], ["server"])
    assert [path.name for path in made] == ["server.crt", "server.key"]
    assert server_certificate(tmp_path) != old
    assert shakes_hands(tmp_path, tmp_path / "authority.crt", "example.org")
    (tmp_path / "authority.key").unlink()
    with pytest.raises(BadInput, match=r"authority\.key: is needed to sign"):
        make_keys(tmp_path, [], [], ["server"])
    assert (tmp_path / "server.crt").exists()


def test_folders_of_before_get_the_operator_that_they_lack(tmp_path: Path) -> None:
    before = [*make_keys(tmp_path, [], ["lab"])]
    for name in ("operator.yaml", "operator.key"):
        (tmp_path / name).unlink()
    assert [path.name for path in make_keys(tmp_path, [], [])] == ["operator.yaml", "operator.key"]
    assert sorted(tmp_path.iterdir()) == sorted(before)


def test_the_operator_s_two_halves_belong_together(tmp_path: Path) -> None:
    make_keys(tmp_path, [], [])
    key = read_operator_key(tmp_path / "operator.key")
    (public,) = read_operators(tmp_path / "operator.yaml").values()
    public.verify(key.sign(b"call"), b"call")
    for path in (tmp_path / "server.key", tmp_path / "missing"):
        with pytest.raises(BadInput, match=r"^operator="):
            read_operator_key(path)


def test_a_public_key_that_is_none_is_refused_by_its_name(tmp_path: Path) -> None:
    make_keys(tmp_path, [], [])
    (tmp_path / "lab.pub").write_text("nothing")
    with pytest.raises(BadInput, match=r"lab\.pub: cannot be read"):
        node_keys(tmp_path)
