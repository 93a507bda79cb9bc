"""Binds a tierer to the identity that its calls prove: its id, process and leases are stored under that identity's name.

So another identity cannot name them. Its heartbeat, ack or failure is about a tierer, process or lease of its own, which has none of these
rounds. Names in the store are bound in the same way, so that the binding survives a restart. For the owner of the service, and if the
service does not authenticate callers, names stay as they were sent.
"""

from __future__ import annotations

import hashlib

from tiering.access.identity import Identity, current_identity
from tiering.errors import InvalidArgument
from tiering.rpc.v1 import coordinator_pb2 as pb

_SEPARATOR = "/"
_LEASE_DIGITS = 16


def bind_tierer(message: pb.PbTierer | pb.PbRound) -> None:
    """Replaces the tierer's names in a request with the caller's own ones. Raises InvalidArgument."""
    identity = current_identity()
    if not _is_bound(identity):
        return
    if _SEPARATOR in message.tierer_id:
        raise InvalidArgument(f"the tierer id {message.tierer_id!r} contains {_SEPARATOR!r}", hint="Choose another --tierer-id.")
    if not message.tierer_id or not message.HasField("incarnation"):
        raise InvalidArgument("an authenticated tierer must send its id and its process name", hint="Update the tierer.")
    message.tierer_id = f"{identity.principal}{_SEPARATOR}{message.tierer_id}"
    message.incarnation = _digest(identity, message.incarnation)[:32]


def bound_lease_id(lease_id: str) -> str:
    """Returns the id under which a lease of the caller is stored."""
    identity = current_identity()
    return f"{lease_id}-{_digest(identity, '')[:_LEASE_DIGITS]}" if lease_id and _is_bound(identity) else lease_id


def _is_bound(identity: Identity) -> bool:
    return identity.is_checked and not identity.is_owner


def _digest(identity: Identity, text: str) -> str:
    return hashlib.sha256(f"{identity.authentication}\0{identity.principal}\0{text}".encode()).hexdigest()
