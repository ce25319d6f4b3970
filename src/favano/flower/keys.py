"""Keys of a federation: an authority, the server's certificate, the operator, and the nodes.

The server shows a certificate that the authority has signed; nodes need only the authority's own
certificate to know that they talk to the right one. It signs every call, and the app that stock
SuperNodes run, with the operator's key: a node does what the operator asks and nobody else. A node
signs its requests with its key, whose public half is registered at the server. Nothing is ever
overwritten, and what is secret can be read by its owner alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
    load_ssh_public_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from favano.errors import BadInput, require

AUTHORITY, SERVER = "authority", "server"  # .crt and .key
OPERATOR = "operator"  # .yaml, as `flower-supernode --trusted-entities` reads it, and .key
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_DAYS = 825
_CURVE = ec.SECP384R1()  # that Flower uses for nodes
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_HOST = re.compile(r"(?=.{1,253}$)([A-Za-z0-9-]{1,63}\.)*[A-Za-z0-9-]{1,63}")


def make_keys(
    folder: Path, hosts: Sequence[str], nodes: Sequence[str], revoked: Sequence[str] = ()
) -> list[Path]:
    """Make what a folder lacks: authority, server certificate, operator, and keys of new nodes.

    Args:
        folder: for all files; made if it is not there.
        hosts: names and addresses of the server, besides those of this machine itself.
        nodes: names of nodes.
        revoked: names whose keys are removed before: of nodes, `server` or `operator`. A server
            that runs lets a node in no more whose key is gone.

    Returns:
        The files that were made.
    """
    for node in nodes:
        rule = "need letters, digits, '.', '_' and '-'; authority, server and operator are taken"
        taken = node in (AUTHORITY, SERVER, OPERATOR)
        require(bool(_NAME.fullmatch(node)) and not taken, "node", node, rule)
        require(nodes.count(node) == 1, "node", node, "is named twice")
    names = [_host(host) for host in dict.fromkeys([*LOOPBACK, *hosts])]
    gone = [path for name in revoked for path in _revocable(folder, name)]
    there = {path for path in folder.glob("*") if path not in gone}
    authority, secret = _files(folder / AUTHORITY)
    certified = folder / f"{SERVER}.crt" in there
    rule = f"{folder} has a server certificate already; add --revoke {SERVER} to make a new one"
    require(not (certified and hosts), "host", ", ".join(hosts), rule)
    lacking = [name for name in (SERVER, OPERATOR) if _files(folder / name)[0] not in there]
    if not there & {authority, secret}:
        lacking = [AUTHORITY, *lacking]
    elif SERVER in lacking:
        rule = f"is needed to sign a new server certificate; {folder} does not have it"
        require(secret in there, "file", secret.name, rule)
    owners: dict[Path, str] = {}
    for stem in [folder / name for name in (*lacking, *nodes)]:
        for path in _files(stem):
            require(path not in there, "file", path, "exists, and is not overwritten")
            rule = f"{path.name} would also be a file of {owners.get(path)}; rename one"
            require(path not in owners, "node", stem.name, rule)
            owners[path] = stem.name
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for path in gone:
        path.unlink()
    makers = {
        AUTHORITY: lambda: _authority(folder),
        SERVER: lambda: _server(folder, names),
        OPERATOR: lambda: _operator(folder),
    }
    made = [path for name in lacking for path in makers[name]()]
    return [*made, *(path for node in nodes for path in _node_key(folder / node))]


def node_keys(folder: Path) -> dict[str, ec.EllipticCurvePublicKey]:
    """The public keys of the nodes of a folder, by name."""
    return {path.stem: _public_key(path) for path in sorted(folder.glob("*.pub"))}


def read_operator_key(path: Path) -> Ed25519PrivateKey:
    """The key that calls are signed with."""
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise BadInput("operator", path, f"cannot be read: {error}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise BadInput("operator", path, "need operator.key, as `favano keys` makes it")
    return key


def read_operators(path: Path) -> dict[str, Ed25519PublicKey]:
    """The operators that a node trusts, by name: one, or two while a key is replaced."""
    rule = "need operator.yaml, as `favano keys` makes it"
    try:
        texts = yaml.safe_load(path.read_bytes())
        if not isinstance(texts, Mapping) or not texts:
            raise BadInput("operator", path, rule)
        keys = {str(name): load_ssh_public_key(str(text).encode()) for name, text in texts.items()}
    except OSError as error:
        raise BadInput("operator", path, f"cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, ValueError, UnsupportedAlgorithm):
        raise BadInput("operator", path, rule) from None
    right = {name: key for name, key in keys.items() if isinstance(key, Ed25519PublicKey)}
    require(len(right) == len(keys), "operator", path, rule)
    return right


def operator_name(key: Ed25519PublicKey) -> str:
    """The name of an operator: the beginning of a digest of its key."""
    digest = hashes.Hash(hashes.SHA256())
    digest.update(key.public_bytes(Encoding.Raw, PublicFormat.Raw))
    return f"favano-{digest.finalize().hex()[:16]}"


def read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """The private key of a node, as `make_keys` or `ssh-keygen -t ecdsa` makes it."""
    try:
        key = load_ssh_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise BadInput("key", path, f"cannot be read: {error}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BadInput("key", path, "need an ECDSA key, as `favano keys` makes it")
    return key


def _public_key(path: Path) -> ec.EllipticCurvePublicKey:
    try:
        key = load_ssh_public_key(path.read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise BadInput("key", path, f"cannot be read: {error}") from None
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise BadInput("key", path, "need an ECDSA key, as `favano keys` makes it")
    return key


def _revocable(folder: Path, name: str) -> list[Path]:
    """The files of a name that are there, which is to be no more."""
    rule = f"is trusted by all nodes: make a new federation in another folder than {folder}"
    require(name != AUTHORITY, "revoke", name, rule)
    shown = folder / f"{name}.pub" if name not in (SERVER, OPERATOR) else _files(folder / name)[0]
    require(
        bool(_NAME.fullmatch(name)) and shown.exists(), "revoke", name, f"need a key of {folder}"
    )
    return [path for path in _files(folder / name) if path.exists()]


def _files(stem: Path) -> tuple[Path, Path]:
    """The files of a certificate, of the operator, or of a node."""
    if stem.name in (AUTHORITY, SERVER):
        return stem.with_name(f"{stem.name}.crt"), stem.with_name(f"{stem.name}.key")
    if stem.name == OPERATOR:
        return stem.with_name(f"{OPERATOR}.yaml"), stem.with_name(f"{OPERATOR}.key")
    return stem, stem.with_name(f"{stem.name}.pub")


def _authority(folder: Path) -> list[Path]:
    """The authority, which vouches for itself."""
    key, name = ec.generate_private_key(_CURVE), _called("favano authority")
    certificate = (
        _certificate(name, name, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .sign(key, hashes.SHA384())
    )
    return _write_pair(folder / AUTHORITY, certificate, key)


def _server(folder: Path, hosts: Sequence[x509.GeneralName]) -> list[Path]:
    """The server's certificate, signed by the authority of the folder."""
    _, secret = _files(folder / AUTHORITY)
    signer = load_pem_private_key(secret.read_bytes(), password=None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise BadInput("file", secret, "need the authority's key, as `favano keys` makes it")
    known = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    serves = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    key = ec.generate_private_key(_CURVE)
    certificate = (
        _certificate(_called("favano server"), _called("favano authority"), key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(serves, critical=False)
        .add_extension(known, critical=False)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .sign(signer, hashes.SHA384())
    )
    return _write_pair(folder / SERVER, certificate, key)


def _operator(folder: Path) -> list[Path]:
    """The key that calls and apps are signed with, and its public half for the nodes."""
    key = Ed25519PrivateKey.generate()
    shown, secret = _files(folder / OPERATOR)
    text = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    _write(shown, f"{operator_name(key.public_key())}: {text}\n".encode(), 0o644)
    _write(secret, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), 0o600)
    return [shown, secret]


def _write_pair(
    stem: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> list[Path]:
    shown, secret = _files(stem)
    _write(shown, certificate.public_bytes(Encoding.PEM), 0o644)
    _write(secret, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), 0o600)
    return [shown, secret]


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
        require(bool(_HOST.fullmatch(name)), "host", name, rule)
        return x509.DNSName(name)


def _called(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
