"""The tickets of writes: a statement, its table and who runs it, signed by the service (`wire.security.signed_content`).

A ticket is good for the rows of one statement in one table, until it expires. So the service need not store open writes: after a restart,
or on a standby that took over, a ticket tells everything about its write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tiering.access.identity import Authentication, Identity
from tiering.errors import InvalidArgument
from tiering.instants import from_milliseconds, to_milliseconds
from tiering.model.tables import TablePath
from tiering.wire.security.signed_content import ContentSigner

TICKET_VERSION = b"\x01"
"""The first byte of a ticket. Tickets of another version are refused."""


@dataclass(frozen=True)
class OpenWrite:
    """A statement that writes, as its ticket has it. `identity` runs the statement; `deletes`: its rows are keys of rows to delete."""

    statement_id: str
    path: TablePath
    table_id: int
    columns: tuple[int, str]
    """Number and digest of the columns that the statement writes, by which a change of them is noticed."""
    deletes: bool
    identity: Identity
    expires_at: datetime

    @property
    def writer_ids(self) -> str:
        """The beginning of the writer ids of all tasks of the statement."""
        return f"{self.statement_id}/"

    def writer_id(self, task: int) -> str:
        """Returns the writer id of a task of the statement."""
        return f"{self.writer_ids}{task}"


class WriteTicketSigner:
    """Signs tickets and reads them back. `key` is the secret of the service."""

    def __init__(self, key: bytes) -> None:
        self._signer = ContentSigner(key, TICKET_VERSION)

    def sign(self, write: OpenWrite) -> bytes:
        """Returns the ticket of a write."""
        return self._signer.sign(_plain(write))

    def read(self, ticket: bytes) -> OpenWrite:
        """Returns the write of a ticket, which may have expired. Raises InvalidArgument for bytes that this service did not sign."""
        content = self._signer.read(ticket)
        if content is None:
            raise InvalidArgument(
                "the ticket of the write is unknown: this service did not issue it, or it was changed since",
                hint="Run the statement again. If the error stays, compare the versions of the client and the service.",
            )
        return _write(content)


def _plain(write: OpenWrite) -> dict[str, Any]:
    identity = write.identity
    return {
        "statement": write.statement_id,
        "table": [write.path.database_name, write.path.table_name, write.table_id],
        "columns": list(write.columns),
        "deletes": write.deletes,
        "identity": [identity.principal, identity.authentication, sorted(identity.groups), identity.is_owner, identity.has_unknown_groups],
        "expires": to_milliseconds(write.expires_at),
    }


def _write(content: Mapping[str, Any]) -> OpenWrite:
    database, table, table_id = content["table"]
    principal, authentication, groups, is_owner, has_unknown_groups = content["identity"]
    identity = Identity(
        principal, Authentication(authentication), frozenset(groups), is_owner=is_owner, has_unknown_groups=has_unknown_groups
    )
    count, digest = content["columns"]
    expires_at = from_milliseconds(content["expires"])
    return OpenWrite(content["statement"], TablePath(database, table), table_id, (count, digest), content["deletes"], identity, expires_at)
