"""Clients of the service TableWrites: one that opens a write, and one with which executors write the batches of a task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import tenacity

from tiering.errors import ServiceBusy, ServiceUnreachable
from tiering.library_guards.arrow_ipc import rows_bytes
from tiering.model.tables import TablePath
from tiering.rpc.v1 import writes_pb2 as pb
from tiering.rpc.v1.common_pb2 import PbTablePath
from tiering.rpc.v1.writes_pb2_grpc import TableWritesStub
from tiering.wire.channel import Connection

CALL_SECONDS = 60
"""Timeout of a call that writes nothing."""
WRITE_SECONDS = 600
"""Timeout of one batch: a primary-key table whose state is lost is rebuilt first, from the whole table."""
PATIENCE_SECONDS = 120
"""Longest time for which a batch is sent again while no service answers. A restart takes seconds, a take-over by a standby some 10 s."""

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class OpenedWrite:
    """An open write, as the service describes it. `task` are the bytes of a WriteTask."""

    task: bytes
    ticket: bytes
    remembers_writers: bool


class WriteClient:
    """Calls the service over a connection. Its methods raise the errors of the service, and ServiceUnreachable."""

    def __init__(self, connection: Connection, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._connection = connection
        self._stub = TableWritesStub(connection.channel)
        self._retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type((ServiceUnreachable, ServiceBusy)),
            wait=tenacity.wait_exponential(multiplier=0.1, max=2),
            stop=tenacity.stop_after_delay(patience_seconds),
            reraise=True,
        )

    def open(self, path: TablePath, statement_id: str, operation: pb.WriteOperation.ValueType = pb.WriteOperation.INSERT) -> OpenedWrite:
        """Begins a write of the table."""
        table = PbTablePath(database_name=path.database_name, table_name=path.table_name)
        request = pb.OpenWriteRequest(table_path=table, operation=operation, statement_id=statement_id)
        answer = self._once(self._stub.OpenWrite, request, CALL_SECONDS)
        return OpenedWrite(answer.task, answer.ticket, answer.remembers_writers)

    def write(self, ticket: bytes, task: int, sequence: int, rows: pa.RecordBatch) -> None:
        """Writes one batch of a task. Sends it again while no service answers, which writes it once."""
        request = pb.WriteRowsRequest(ticket=ticket, task=task, sequence=sequence, rows=rows_bytes(rows))
        self._retrying(self._once, self._stub.WriteRows, request, WRITE_SECONDS)

    def count(self, ticket: bytes) -> int | None:
        """Returns the number of records of the statement in the log of the table; None if the cluster cannot tell."""
        answer = self._once(self._stub.CountWritten, pb.CountWrittenRequest(ticket=ticket), CALL_SECONDS)
        return answer.records if answer.HasField("records") else None

    def _once(self, call: Callable[..., Answer], request: object, timeout_s: float) -> Answer:
        with self._connection.calling():
            return call(request, timeout=timeout_s)
