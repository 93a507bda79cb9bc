"""A client of the service TableReads: opens a read of a table and gets the bytes of the tasks of its scans."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from tiering.instants import from_milliseconds
from tiering.model.reading.scans import ReadScan
from tiering.model.tables import TablePath
from tiering.rpc.v1 import reads_pb2 as pb
from tiering.rpc.v1.common_pb2 import PbTablePath
from tiering.rpc.v1.reads_pb2_grpc import TableReadsStub
from tiering.union_read.task_codec import TaskJoiner
from tiering.wire.channel import Connection
from tiering.wire.read_scans import scan_to_pb

OPEN_SECONDS = 60
"""Timeout of opening a read: the service reads the lake's catalog and the cluster's offsets."""
PLAN_SECONDS = 600
"""Timeout of planning a scan: the service reads all manifests of a snapshot."""
CALL_SECONDS = 10
"""Timeout of a call without I/O at the service."""


@dataclass(frozen=True)
class OpenedRead:
    """An open read, as the service describes it."""

    read_id: str
    ticket: bytes
    schema: pa.Schema
    """The columns of the table."""
    lake_snapshot_id: int | None
    log_records: int
    """Upper bound of the number of log records."""
    expires_at: datetime
    lake_mark: int | None = None
    """`ReadMoment.lake_mark`; None also from an older service."""


class ReadClient:
    """Calls the service over a connection. Its methods raise the errors of the service, and ServiceUnreachable."""

    def __init__(self, connection: Connection, engine: str, application_id: str = "") -> None:
        self._connection = connection
        self._stub = TableReadsStub(connection.channel)
        self._engine = engine
        self._application_id = application_id

    def open(self, path: TablePath, ttl_ms: int = 0) -> OpenedRead:
        """Fixes the moment of a read of the table as of now. Without a renewal the read stays open for `ttl_ms`; 0 = 5 minutes."""
        table = PbTablePath(database_name=path.database_name, table_name=path.table_name)
        request = pb.OpenReadRequest(table_path=table, engine=self._engine, application_id=self._application_id, ttl_ms=ttl_ms)
        with self._connection.calling():
            answer = self._stub.OpenRead(request, timeout=OPEN_SECONDS)
        return OpenedRead(
            answer.read_id,
            answer.ticket,
            pa.ipc.read_schema(pa.py_buffer(answer.arrow_schema)),
            answer.lake_snapshot_id if answer.HasField("lake_snapshot_id") else None,
            answer.log_records,
            from_milliseconds(answer.expires_at_ms),
            answer.lake_mark if answer.HasField("lake_mark") else None,
        )

    def plan(self, ticket: bytes, scan: ReadScan) -> tuple[list[bytes], bytes | None]:
        """Returns the bytes of the tasks of a scan, and the ticket to use from now on; None = the same."""
        joiner, new_ticket = TaskJoiner(), None
        with self._connection.calling():
            for answer in self._stub.PlanRead(pb.PlanReadRequest(ticket=ticket, scan=scan_to_pb(scan)), timeout=PLAN_SECONDS):
                joiner.add(answer.tasks, answer.last_task_continues)
                new_ticket = answer.ticket if answer.HasField("ticket") else new_ticket
        return joiner.tasks, new_ticket

    def count(self, ticket: bytes, scan: ReadScan) -> int | None:
        """Returns the exact number of rows of a scan; None if only reading the rows tells it. The ticket stays the same."""
        request = pb.PlanReadRequest(ticket=ticket, scan=scan_to_pb(scan), count=True)
        with self._connection.calling():
            answers = list(self._stub.PlanRead(request, timeout=PLAN_SECONDS))
        return next((answer.row_count for answer in answers if answer.HasField("row_count")), None)

    def renew(self, ticket: bytes) -> bytes:
        """Extends the time of a read, and returns its new ticket."""
        with self._connection.calling():
            answer = self._stub.RenewRead(pb.RenewReadRequest(ticket=ticket), timeout=CALL_SECONDS)
        return bytes(answer.ticket)

    def close(self, ticket: bytes) -> None:
        """Ends a read: the service no longer keeps what it needs."""
        with self._connection.calling():
            self._stub.CloseRead(pb.CloseReadRequest(ticket=ticket), timeout=CALL_SECONDS)
