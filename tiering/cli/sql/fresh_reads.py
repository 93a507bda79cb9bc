"""Union reads for the engine `duckdb`: over a data folder with the coordinator's records, or planned by a service."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

import pyarrow as pa

from sys_tables.offline.fresh_rows import OpenRead
from tiering.cluster.base import SplitSource, TableCatalog
from tiering.cluster.skipping import MarkedRecords, marked_records
from tiering.coordinator.decisions.records import LakeState
from tiering.coordinator.memory.store import Store
from tiering.coordinator.observing.lake_reader import Lakes
from tiering.errors import LakewardError
from tiering.model.reading.scans import ReadMoment, ReadScan
from tiering.model.tables import TableInfo, TablePath
from tiering.union_read.plan import LakeOpener, open_read, plan_scan, scan_tasks, with_changelog_starts
from tiering.union_read.read_client import OpenedRead, ReadClient
from tiering.union_read.task_codec import decode
from tiering.wire.channel import Connection

RENEW_SECONDS = 60.0
"""Time between two renewals of a read. A read expires five minutes after the last one."""


@dataclass(frozen=True)
class LocalRead:
    """A `FreshRead` that plans in this process."""

    cluster: SplitSource
    open_lake: LakeOpener
    table: TableInfo
    moment: ReadMoment
    marked: MarkedRecords

    @property
    def lake_snapshot_id(self) -> int | None:
        """The lake snapshot of the read (`FreshRead.lake_snapshot_id`)."""
        return self.moment.lake_snapshot_id

    @property
    def lake_mark(self) -> int | None:
        """The mark of the lake snapshot (`FreshRead.lake_mark`)."""
        return self.moment.lake_mark

    @property
    def lake_rows_are_merged(self) -> bool:
        """True if a KV snapshot replaces lake rows: it says which rows exist, but not which keys are gone."""
        return bool(self.moment.replaced)

    def rows(self, scan: ReadScan) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a scan (`FreshRead.rows`)."""
        readers = plan_scan(self.cluster, self.open_lake, self.moment, scan, self.marked)
        for task in scan_tasks(self.table, readers, scan):
            yield from task.read()


def reads_of_folder(store: Store, cluster: SplitSource, open_lake: LakeOpener) -> OpenRead:
    """Returns the reads of a data folder. The base check and the skipped records are those of the coordinator, from its records."""
    lakes = Lakes(cluster, open_lake)

    @contextmanager
    def opened(path: TablePath) -> Iterator[LocalRead]:
        # The order of reads is the coordinator's: its records, the cluster's record, the lake, the partitions, the log.
        records = {record.table_id: record for record in store.load()}
        moment = open_read(cluster, path, lambda table: lakes.base_for_reading(records.get(table.table_id), table))
        moment = with_changelog_starts(cluster, moment)
        table, record = cluster.table(path), records.get(moment.table_id)
        lake = LakeState() if record is None else record.lake
        marked = marked_records(cluster, table, lake.skipped_records, lake.put_aside_offsets)
        yield LocalRead(cluster, open_lake, table, moment, marked)

    return opened


@dataclass(frozen=True)
class ServiceRead:
    """A `FreshRead` that the service planned."""

    client: ReadClient
    opened: OpenedRead
    ticket: _RenewedTicket
    table: TableInfo

    @property
    def lake_snapshot_id(self) -> int | None:
        """The lake snapshot of the read (`FreshRead.lake_snapshot_id`)."""
        return self.opened.lake_snapshot_id

    @property
    def lake_mark(self) -> int | None:
        """The mark of the lake snapshot (`FreshRead.lake_mark`)."""
        return self.opened.lake_mark

    @property
    def lake_rows_are_merged(self) -> bool:
        """True for a primary-key table, because the service does not tell which buckets a KV snapshot replaces."""
        return bool(self.table.primary_key)

    def rows(self, scan: ReadScan) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a scan (`FreshRead.rows`)."""
        tasks, ticket = self.client.plan(self.ticket.current, scan)
        if ticket is not None:
            self.ticket.replace(ticket)
        for task in tasks:
            yield from decode(task).read()


def reads_of_service(connection: Connection, tables: TableCatalog) -> OpenRead:
    """Returns the reads of a service, which fixes their moments and keeps what they need until the statement ends."""
    client = ReadClient(connection, "duckdb")

    @contextmanager
    def opened(path: TablePath) -> Iterator[ServiceRead]:
        read = client.open(path)
        with closing(_RenewedTicket(client, read.ticket)) as ticket:
            yield ServiceRead(client, read, ticket, tables.table(path))

    return opened


class _RenewedTicket:
    """The ticket of an open read. A thread renews it until `close`, so that the service keeps what the read needs."""

    def __init__(self, client: ReadClient, ticket: bytes) -> None:
        self.current = ticket
        self._client = client
        self._replacing = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="renew-read", daemon=True)
        self._thread.start()

    def replace(self, ticket: bytes) -> None:
        """Sets the ticket that a scan returned. A renewal that began before the scan does not undo it."""
        with self._replacing:
            self.current = ticket

    def close(self) -> None:
        """Stops the renewals, and ends the read. If that fails, the read ends when it expires."""
        self._ended.set()
        self._thread.join()
        with suppress(LakewardError):
            self._client.close(self.current)

    def _renew(self) -> None:
        while not self._ended.wait(RENEW_SECONDS):
            with self._replacing, suppress(LakewardError):  # the next renewal may succeed
                self.current = self._client.renew(self.current)
