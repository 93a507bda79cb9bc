"""A tierer belongs to the identity that its calls prove: its id, its process and its leases are kept under that identity's name.

So whoever proves another identity cannot name them: a heartbeat, an acknowledgement or a failure of theirs is about a tierer, a process
or a lease of their own, which has none of the other's rounds. What is kept in the store is bound the same way, so that the binding holds
over a restart. The owner of the service, and a service that checks nobody, has the names as they were sent.
"""

from __future__ import annotations

import hashlib

from tiering.access.identity import Identity, current_identity
from tiering.errors import InvalidArgument
from tiering.rpc.v1 import coordinator_pb2 as pb

_SEPARATOR = "/"
_LEASE_DIGITS = 16


def bind_tierer(message: pb.PbTierer | pb.PbRound) -> None:
    """Writes the caller's own names into what a request says of its tierer. Raises InvalidArgument."""
    identity = current_identity()
    if not _is_bound(identity):
        return
    if _SEPARATOR in message.tierer_id:
        raise InvalidArgument(f"a tierer's id has no {_SEPARATOR!r}, but is {message.tierer_id!r}", hint="Choose another --tierer-id.")
    if not message.tierer_id or not message.HasField("incarnation"):
        raise InvalidArgument("a tierer that proves who it is must name itself and its process", hint="Update the tierer.")
    message.tierer_id = f"{identity.principal}{_SEPARATOR}{message.tierer_id}"
    message.incarnation = _digest(identity, message.incarnation)[:32]


def bound_lease_id(lease_id: str) -> str:
    """The id under which a lease of the caller is kept."""
    identity = current_identity()
    return f"{lease_id}-{_digest(identity, '')[:_LEASE_DIGITS]}" if lease_id and _is_bound(identity) else lease_id


def _is_bound(identity: Identity) -> bool:
    return identity.is_checked and not identity.is_owner


def _digest(identity: Identity, text: str) -> str:
    return hashlib.sha256(f"{identity.authentication}\0{identity.principal}\0{text}".encode()).hexdigest()
