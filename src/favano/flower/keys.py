"""Keys of a federation: an authority, the server's certificate, and a key for each node.

The server shows a certificate that the authority has signed; nodes need only the authority's own
certificate to know that they talk to the right one. A node signs its requests with its key, whose
public half is registered at the server. Nothing is ever overwritten, and what is secret can be read
by its owner alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from favano.errors import BadInput, need

AUTHORITY, SERVER = "authority", "server"  # .crt and .key
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_DAYS = 825
_CURVE = ec.SECP384R1()  # that Flower uses for nodes
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_HOST = re.compile(r"(?=.{1,253}$)([A-Za-z0-9-]{1,63}\.)*[A-Za-z0-9-]{1,63}")


def make_keys(folder: Path, hosts: Sequence[str], nodes: Sequence[str]) -> list[Path]:
    """Make what a folder lacks: authority and server certificate, then a key for each new node.

    Args:
        folder: for all files; made if it is not there.
        hosts: names and addresses of the server, besides those of this machine itself.
        nodes: names of nodes.

    Returns:
        The files that were made.
    """
    for node in nodes:
        rule = "need letters, digits, '.', '_' and '-'; authority and server are taken"
        need(bool(_NAME.fullmatch(node)) and node not in (AUTHORITY, SERVER), "node", node, rule)
        need(nodes.count(node) == 1, "node", node, "is named twice")
    names = [_host(host) for host in dict.fromkeys([*LOOPBACK, *hosts])]
    wanted = [folder / node for node in nodes]
    old = (folder / f"{AUTHORITY}.key").exists()
    rule = f"{folder} has a server certificate already; use another folder for other hosts"
    need(not (old and hosts), "host", ", ".join(hosts), rule)
    stems = wanted if old else [folder / AUTHORITY, folder / SERVER, *wanted]
    owners: dict[Path, str] = {}
    for stem in stems:
        for path in _files(stem):
            need(not path.exists(), "file", path, "exists, and is not overwritten")
            rule = f"{path.name} would also be a file of {owners.get(path)}; rename one"
            need(path not in owners, "node", stem.name, rule)
            owners[path] = stem.name
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = [] if old else _certificates(folder, names)
    for node in nodes:
        made += _node_key(folder / node)
    return made


def read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """The private key of a node, as `make_keys` or `ssh-keygen -t ecdsa` makes it."""
    try:
        key = load_ssh_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise BadInput("key", path, f"cannot be read: {error}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BadInput("key", path, "need an ECDSA key, as `favano keys` makes it")
    return key


def _files(stem: Path) -> tuple[Path, ...]:
    """The files of a certificate, or of a node."""
    if stem.name in (AUTHORITY, SERVER):
        return stem.with_name(f"{stem.name}.crt"), stem.with_name(f"{stem.name}.key")
    return stem, stem.with_name(f"{stem.name}.pub")


def _certificates(folder: Path, hosts: Sequence[x509.GeneralName]) -> list[Path]:
    """Authority and server certificate."""
    authority, server = ec.generate_private_key(_CURVE), ec.generate_private_key(_CURVE)
    issuer, subject = _called("favano authority"), _called("favano server")
    signer = _usage(key_cert_sign=True, crl_sign=True)
    root = (
        _certificate(issuer, issuer, authority)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(signer, critical=True)
        .sign(authority, hashes.SHA384())
    )
    known = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    serves = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    leaf = (
        _certificate(subject, issuer, server)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(serves, critical=False)
        .add_extension(known, critical=False)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .sign(authority, hashes.SHA384())
    )
    made = []
    for name, certificate, key in ((AUTHORITY, root, authority), (SERVER, leaf, server)):
        shown, secret = _files(folder / name)
        _write(shown, certificate.public_bytes(Encoding.PEM), 0o644)
        _write(secret, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), 0o600)
        made += [shown, secret]
    return made


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    """A certificate to be completed and signed."""
    now = datetime.now(UTC)
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # clocks of nodes may be slow
        .not_valid_after(now + timedelta(days=_DAYS))
        .add_extension(own, critical=False)
    )


def _usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _node_key(stem: Path) -> list[Path]:
    """A key pair as OpenSSH writes it, which Flower reads."""
    key = ec.generate_private_key(_CURVE)
    secret, shown = _files(stem)
    _write(secret, key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()), 0o600)
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    _write(shown, public + f" {stem.name}\n".encode(), 0o644)
    return [secret, shown]


def _write(path: Path, data: bytes, mode: int) -> None:
    """Write a new file that has this mode from the beginning."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        rule = "need a host name or an IP address, without port"
        need(bool(_HOST.fullmatch(name)), "host", name, rule)
        return x509.DNSName(name)


def _called(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
