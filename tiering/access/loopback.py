"""Addresses that only this machine reaches, and the name of the file in which a service's owner finds its token.

Without TLS, the token of a service is safe only with the one process that has the service's address and port. Another user of the machine
can listen on the same port at `[::1]` while the service has `127.0.0.1`. So the file is named by the address, and each address has one
spelling. The Spark plugin uses the same names (`catalog/.../connection/ServiceAddress.java`).
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

LOCALHOST = "127.0.0.1"
"""The address of the name `localhost`, for services and clients. `[::1]` is another address, which another program may have."""

_MACHINE_ID_FILES = ("/etc/machine-id", "/var/lib/dbus/machine-id", "/proc/sys/kernel/hostname")
_MACHINE_ID_DIGITS = 16


def connected_host(host: str) -> str:
    """Returns the host to which a client connects. `localhost` is always 127.0.0.1."""
    return LOCALHOST if host.lower() == "localhost" else host


def is_loopback(host: str) -> bool:
    """Returns whether only this machine reaches the address. No name except `localhost` is resolved, because its address may change."""
    address = _ip_address(connected_host(host))
    return address is not None and address.is_loopback


def stays_on_this_machine(host: str) -> bool:
    """Returns whether a connection to the host stays on this machine. A client that connects to 0.0.0.0 or [::] reaches itself."""
    address = _ip_address(host)
    return is_loopback(host) or (address is not None and address.is_unspecified)


def token_file_name(host: str, port: str) -> str:
    """Returns the name of the token file for the service at this address on this machine."""
    address = _ip_address(connected_host(host))
    name = host.lower() if address is None else _canonical_text(address)
    return f"{name}_{port}_{machine_id()}"


def addresses_of_listener(host: str) -> Sequence[str]:
    """Returns the loopback addresses of a service that listens on `host`, for clients on this machine; otherwise `host`.

    A service that listens on `[::]` has 127.0.0.1, too, because gRPC opens one socket for both.
    """
    address = _ip_address(host)
    if address is None or not address.is_unspecified:
        return (host,)
    return (LOCALHOST,) if address.version == 4 else (LOCALHOST, "[::1]")


@cache
def machine_id() -> str:
    """Returns digits that differ between machines which share the user's folder. They are a hash, because the id is confidential.

    The source of that rule is machine-id(5). `unknown` on a machine without an id, such as macOS.
    """
    for file in _MACHINE_ID_FILES:
        with suppress(OSError, UnicodeDecodeError):
            if text := Path(file).read_text(encoding="ascii").strip():
                return hashed_machine_id(text)
    return "unknown"


def hashed_machine_id(text: str) -> str:
    """Returns the digits in the name of a token file, for the content of `/etc/machine-id`."""
    return hashlib.sha256(f"lakeward {text}".encode()).hexdigest()[:_MACHINE_ID_DIGITS]


def _ip_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _canonical_text(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """Returns one text per address. An unspecified address becomes the loopback address of its kind, which a connection to it reaches."""
    if address.is_unspecified:
        return LOCALHOST if address.version == 4 else "0-0-0-0-0-0-0-1"
    if address.version == 4:
        return str(address)
    return "-".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))
