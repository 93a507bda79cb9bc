"""Opens writes of data tables, and writes the batches of their tasks. All methods do I/O and block.

A cluster of the coordinator's own process is written here. Tasks write to any other cluster themselves, as its own clients do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Any, NoReturn

import pyarrow as pa

from tiering.access.acting_for import current_subject
from tiering.access.grants import Grants
from tiering.access.identity import acting_as
from tiering.access.privileges import Privilege, Resource
from tiering.cluster.base import ClusterOwner
from tiering.cluster.capabilities import WriterHistory
from tiering.cluster.key_columns import check_primary_key_table, key_schema
from tiering.cluster.writable import WritableCluster
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.options import CoordinatorOptions
from tiering.coordinator.writers.tickets import OpenWrite, WriteTicketSigner
from tiering.errors import InvalidArgument, SourceChanged
from tiering.model.tables import TableInfo, TablePath, TableType
from tiering.rpc.v1 import writes_pb2 as pb
from tiering.rpc.v1.common_pb2 import PbTablePath
from tiering.union_read.task_codec import lakeward_version

TICKET_KEY = "write-tickets"
"""Name of the key in the store that signs tickets."""

TICKET_TTL = timedelta(hours=24)
"""Longest time of a statement: its ticket expires then."""

MAX_STATEMENT_ID = 150
"""Longest statement id in characters; with the number of the task it is a writer id."""


@dataclass(frozen=True)
class OpenedWrite:
    """A write that was just opened. `task` is what its tasks do; `remembers_writers`: the cluster recognizes repeated batches."""

    task: pb.WriteTask
    ticket: bytes
    remembers_writers: bool


class Writes:
    """Opens writes, and writes their batches."""

    def __init__(self, table_records: TableRecords, cluster: ClusterOwner, grants: Grants, options: CoordinatorOptions) -> None:
        self._table_records = table_records
        self._cluster = cluster
        self._grants = grants
        self._options = options
        self._signer: WriteTicketSigner | None = None

    def open(self, path: TablePath, statement_id: str, *, deletes: bool) -> OpenedWrite:
        """Begins a statement that writes rows of the table, or deletes rows by their keys. The caller's privilege was checked before.

        Raises UnknownTable, InvalidArgument (the id of the statement, a deletion from a log table), ClusterUnavailable, StoreError, Fenced.
        """
        if not (0 < len(statement_id) <= MAX_STATEMENT_ID and statement_id.isprintable()):
            raise InvalidArgument(f"a write needs a statement id of 1 to {MAX_STATEMENT_ID} printable characters")
        table = self._cluster.table(path)
        if deletes:
            check_primary_key_table(table)
        schema = key_schema(table) if deletes else table.schema
        expires_at = self._table_records.now().wall + TICKET_TTL
        columns = len(schema), _digest(list(schema))
        write = OpenWrite(statement_id, table.path, table.table_id, columns, deletes, current_subject(), expires_at)
        ticket, has_writer = self._tickets.sign(write), isinstance(self._cluster, WritableCluster)
        return OpenedWrite(self._task(write, table, schema, ticket if has_writer else None), ticket, has_writer)

    def _task(self, write: OpenWrite, table: TableInfo, schema: pa.Schema, ticket: bytes | None) -> pb.WriteTask:
        return pb.WriteTask(
            version=lakeward_version(),
            table_path=PbTablePath(database_name=table.path.database_name, table_name=table.path.table_name),
            table_id=table.table_id,
            operation=pb.WriteOperation.DELETE if write.deletes else pb.WriteOperation.INSERT,
            has_primary_key=table.table_type is not TableType.LOG,
            arrow_schema=schema.serialize().to_pybytes(),
            statement_id=write.statement_id,
            ticket=ticket,
            cluster=pb.PbClusterAddress(
                cluster_kind=self._options.cluster_kind,
                cluster_id=self._cluster.cluster_id,
                properties=self._options.cluster_properties,
            ),
        )

    def write(self, ticket: bytes, task: int, sequence: int, rows: pa.Table) -> None:
        """Writes one batch of a task, once for its number.

        Raises InvalidArgument (an unknown or expired ticket, another batch under this number), AccessDenied, UnknownTable, SourceChanged
        (another table of this name, or other columns), and the errors of `WritableCluster`.
        """
        write = self._living(ticket)
        cluster = self._cluster
        if not isinstance(cluster, WritableCluster):
            raise InvalidArgument("the tasks of a statement write to this cluster themselves")
        with acting_as(write.identity):
            table = self._unchanged(write)
            by_operation = cluster.append if table.table_type is TableType.LOG else cluster.upsert
            try:
                (cluster.delete if write.deletes else by_operation)(write.path, rows, write.writer_id(task), sequence)
            except InvalidArgument as error:
                if "repeated_sequence" not in error.ids:
                    raise
                _raise_other_rows(write, task, sequence, error)

    def count(self, ticket: bytes) -> int | None:
        """Returns the number of records that the statement has in the log of the table; None if the cluster cannot tell.

        Raises InvalidArgument, UnknownTable.
        """
        write = self._tickets.read(ticket)
        if not isinstance(self._cluster, WriterHistory):
            return None
        with acting_as(write.identity):
            return self._cluster.written_records(write.table_id, write.writer_ids)

    def _living(self, ticket: bytes) -> OpenWrite:
        """Returns the write of a ticket that is valid now, whose user may still write. Raises InvalidArgument, AccessDenied."""
        write = self._tickets.read(ticket)
        if write.expires_at <= self._table_records.now().wall:
            raise InvalidArgument(
                f"the statement that writes to {write.path} has run for more than {TICKET_TTL // timedelta(hours=1)} hours",
                hint="The rows that it has written stay. Divide the rows among several statements.",
            )
        self._grants.access_of(write.identity).require(Privilege.WRITE, Resource.of_table(write.path))
        return write

    def _unchanged(self, write: OpenWrite) -> TableInfo:
        """Returns the table of a write. Raises SourceChanged if it is another one now, or its columns are others."""
        table = self._cluster.table(write.path)
        count, digest = write.columns
        columns = key_schema(table) if write.deletes else table.schema
        if table.table_id != write.table_id or _digest(list(columns)[:count]) != digest:
            difference = "was dropped and created again" if table.table_id != write.table_id else "has other columns than"
            raise SourceChanged(
                f"{write.path} {difference} when the statement that writes to it began",
                hint="The rows that it has written stay. Run a statement for the others.",
                table_path=write.path,
            )
        return table

    @property
    def _tickets(self) -> WriteTicketSigner:
        if self._signer is None:
            self._signer = WriteTicketSigner(self._table_records.store.key(self._table_records.epoch, TICKET_KEY))
        return self._signer


def _digest(columns: Sequence[pa.Field[Any]]) -> str:
    return sha256(pa.schema(list(columns)).serialize().to_pybytes()).hexdigest()


def _raise_other_rows(write: OpenWrite, task: int, sequence: int, error: InvalidArgument) -> NoReturn:
    """Raises the error for a task that ran again with other rows."""
    raise InvalidArgument(
        f"task {task} of the statement that writes to {write.path} ran again, and its batch {sequence} has other rows than the batch "
        "that it wrote before: the rows of the statement are not the same each time",
        hint="Some of its rows are written, and they stay. Store the rows of the query first, such as with CREATE TABLE AS SELECT or "
        "persist(), and insert the stored rows.",
        table_path=write.path,
    ) from error
