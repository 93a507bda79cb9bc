"""Who calls. An identity is proved by the transport, before any request is read; no message names one."""

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
    """Nobody was asked: a service on loopback without authentication, or one that was started as insecure."""
    TOKEN = "token"  # the name of a way, and no secret
    MTLS = "mtls"
    OIDC = "oidc"


@dataclass(frozen=True)
class Identity:
    """`principal` is the name that grants, events and the audit use; `peer` is the address, as gRPC names it."""

    principal: str
    authentication: Authentication
    groups: frozenset[str] = frozenset()
    peer: str = ""
    is_owner: bool = False
    """Whether it is the user whom the service runs as: it holds the token in the data folder, and could change all that is there."""
    has_unknown_groups: bool = False
    """Whether it may be in more groups: a service that acts for a user tells the user's name alone."""

    @property
    def is_checked(self) -> bool:
        """Whether somebody proved who they are; else nothing is refused to them."""
        return self.authentication is not Authentication.NONE


UNCHECKED = Identity("", Authentication.NONE)
"""Of work that no call asked for, too: what the coordinator does by itself."""

_current: ContextVar[Identity] = ContextVar("identity", default=UNCHECKED)


def current_identity() -> Identity:
    """Of the call that this thread or task works for; UNCHECKED outside of one. `log_context.carried` takes it into a pool of threads."""
    return _current.get()


def quota_owner(peer: str) -> str:
    """Whose quota the present call counts for: its principal's, or its address's where nobody proved who calls. `peer`: gRPC's name."""
    identity = current_identity()
    return f"principal {identity.principal}" if identity.is_checked else address_of(peer)


@lru_cache(maxsize=4_096)
def address_of(peer: str) -> str:
    """The address of a peer, without its port, as quotas count it: of IPv6 the network of 64 bits, all of which one machine may have.

    `ipv4:127.0.0.1:1` and `ipv6:%5B::1%5D:1` are peers.
    """
    scheme, _, rest = peer.partition(":")
    if scheme not in ("ipv4", "ipv6"):
        return peer
    host = unquote(rest.rpartition(":")[0]).strip("[]").partition("%")[0]
    try:
        address = ip_address(host)
    except ValueError:
        return f"{scheme}:{host}"
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None:
        return f"ipv6:{ip_network((int(address) >> 64 << 64, 64))}"
    return f"ipv4:{address.ipv4_mapped if isinstance(address, IPv6Address) else address}"


@contextmanager
def acting_as(identity: Identity) -> Iterator[None]:
    """What is inside works for somebody."""
    token = _current.set(identity)
    try:
        yield
    finally:
        _current.reset(token)
