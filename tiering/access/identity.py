"""The identity of a caller. The transport proves it before any request is read; no message can name one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from urllib.parse import unquote


class Authentication(StrEnum):
    """How an identity was proved."""

    NONE = "none"
    """No proof: a service on loopback without authentication, or one that was started as insecure."""
    TOKEN = "token"  # the name of a method, not a secret
    MTLS = "mtls"
    OIDC = "oidc"


@dataclass(frozen=True)
class Identity:
    """An authenticated caller. `principal` is the name in grants, events and audit. `peer` is the address in gRPC's notation."""

    principal: str
    authentication: Authentication
    groups: frozenset[str] = frozenset()
    peer: str = ""
    is_owner: bool = False
    """Whether it is the user that runs the service, who has the token in the data folder and could change everything in it."""
    has_unknown_groups: bool = False
    """Whether it may be in more groups: a service that acts for a user sends only the user's name."""

    @property
    def is_checked(self) -> bool:
        """Whether the caller was authenticated. Otherwise nothing is refused."""
        return self.authentication is not Authentication.NONE


UNCHECKED = Identity("", Authentication.NONE)
"""The identity without authentication, which is also that of the coordinator's own work."""

_current: ContextVar[Identity] = ContextVar("identity", default=UNCHECKED)


def current_identity() -> Identity:
    """Returns the identity of the call of this thread or task; UNCHECKED outside of a call.

    `log_context.carried` passes it to pool threads.
    """
    return _current.get()


def quota_owner(peer: str) -> str:
    """Returns the owner of the present call's quota: its principal, or its address without authentication. `peer` is gRPC's name."""
    identity = current_identity()
    return f"principal {identity.principal}" if identity.is_checked else address_of(peer)


@lru_cache(maxsize=4_096)
def address_of(peer: str) -> str:
    """Returns the address of a peer without its port, as quotas count it. For IPv6 it is the 64-bit network, which one machine may own.

    `ipv4:127.0.0.1:1` and `ipv6:%5B::1%5D:1` are examples of peers.
    """
    scheme, _, host_and_port = peer.partition(":")
    if scheme not in ("ipv4", "ipv6"):
        return peer
    host = unquote(host_and_port.rpartition(":")[0]).strip("[]").partition("%")[0]
    try:
        address = ip_address(host)
    except ValueError:
        return f"{scheme}:{host}"
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None:
        return f"ipv6:{ip_network((int(address) >> 64 << 64, 64))}"
    return f"ipv4:{address.ipv4_mapped if isinstance(address, IPv6Address) else address}"


@contextmanager
def acting_as(identity: Identity) -> Iterator[None]:
    """Sets the identity for the code in the block."""
    token = _current.set(identity)
    try:
        yield
    finally:
        _current.reset(token)
