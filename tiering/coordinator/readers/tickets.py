"""The tickets of reads: what OpenRead fixed, signed by the service (`wire.security.signed_content`).

A ticket is good for one read: its table, offsets and snapshots, its caller, and a time. So the service need not store open reads: after a
restart, or on a standby that took over, a ticket tells everything about its read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tiering.coordinator.decisions.records import from_text, to_text
from tiering.errors import InvalidArgument
from tiering.instants import from_milliseconds, to_milliseconds
from tiering.model.reading.open_reads import OpenRead
from tiering.model.reading.scans import ReadMoment
from tiering.model.tables import BucketKey, TablePath
from tiering.wire.security.signed_content import ContentSigner

TICKET_VERSION = b"\x02"
"""The first byte of a ticket. Tickets of another version are refused."""


def unknown_ticket() -> InvalidArgument:
    """Returns the error for a ticket that is not valid here. It does not tell whether another caller has such a ticket."""
    return InvalidArgument(
        "the ticket of the read is unknown: this service did not issue it to this caller, or it was changed since",
        hint="Run the statement again. If the error stays, compare the versions of the client and the service.",
    )


class TicketSigner:
    """Signs tickets and reads them back. `key` is the secret of the service."""

    def __init__(self, key: bytes) -> None:
        self._signer = ContentSigner(key, TICKET_VERSION)

    def sign(self, read: OpenRead) -> bytes:
        """Returns the ticket of a read."""
        return self._signer.sign(_plain(read))

    def read(self, ticket: bytes) -> OpenRead:
        """Returns the read of a ticket, which may have expired. Raises InvalidArgument for bytes that this service did not sign."""
        content = self._signer.read(ticket)
        if content is None:
            raise unknown_ticket()
        return _read(content)


def _plain(read: OpenRead) -> dict[str, Any]:
    moment = read.moment
    return {
        "read": read.read_id,
        "principal": read.principal,
        "engine": read.engine,
        "application": read.application_id,
        "table": [moment.path.database_name, moment.path.table_name, moment.table_id],
        "schema": moment.schema_id,
        "snapshot": [moment.lake_snapshot_id, moment.lake_mark],
        "log": [
            [bucket.partition_id, bucket.bucket_id, moment.starting_offsets[bucket], stop]
            for bucket, stop in moment.stopping_offsets.items()
        ],
        "kv": [
            [bucket.partition_id, bucket.bucket_id, snapshot, bucket in moment.replaced] for bucket, snapshot in moment.kv_snapshots.items()
        ],
        "only_in_lake": to_text(moment.only_in_lake),
        "changelog": to_text(moment.changelog_starts),
        "times": [to_milliseconds(time) for time in (read.opened_at, read.renewed_at, read.expires_at)],
    }


def _read(content: Mapping[str, Any]) -> OpenRead:
    database, table, table_id = content["table"]
    log = {BucketKey(partition, bucket): (start, stop) for partition, bucket, start, stop in content["log"]}
    snapshot_id, mark = content["snapshot"]
    moment = ReadMoment(
        TablePath(database, table),
        table_id,
        snapshot_id,
        {bucket: start for bucket, (start, _) in log.items()},
        {bucket: stop for bucket, (_, stop) in log.items()},
        {BucketKey(partition, bucket): snapshot for partition, bucket, snapshot, _ in content["kv"]},
        frozenset(BucketKey(partition, bucket) for partition, bucket, _, is_replaced in content["kv"] if is_replaced),
        mark,
        from_text(content["only_in_lake"]),
        from_text(content["changelog"]),
        content.get("schema", 0),  # absent in a ticket of an older version
    )
    opened_at, renewed_at, expires_at = map(from_milliseconds, content["times"])
    return OpenRead(
        content["read"], moment, content["principal"], content["engine"], content["application"], opened_at, renewed_at, expires_at
    )
