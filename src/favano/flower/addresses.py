"""Addresses of a server: which are of this machine, and which may be joined how."""

from __future__ import annotations

from ipaddress import ip_address

from favano.errors import require


def check_address(address: str, *, secure: bool, insecure: bool) -> str:
    """The host of HOST:PORT; refuses plaintext to another machine unless it is asked for."""
    host, colon, port = address.rpartition(":")
    right = bool(host and colon) and port.isdecimal() and 0 < int(port) < 2**16
    require(right, "address", address, "need HOST:PORT")
    rule = "requires a root certificate or insecure, not both"
    require(not (secure and insecure), "insecure", insecure, rule)
    rule = "is another machine: need a root certificate (`favano keys`), or insecure for plaintext"
    require(secure or insecure or is_loopback(host), "address", address, rule)
    return host


def is_loopback(host: str) -> bool:
    """Whether a name or an address is that of this machine itself.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "[::1]", "0.0.0.0", "10.0.0.1")]
    [True, True, True, False, False]
    """
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
