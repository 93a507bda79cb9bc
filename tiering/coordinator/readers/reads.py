"""Opens reads of data tables and plans their scans, with the coordinator's records. All methods do I/O and block.

A read is fixed by the same base check as a round. The coordinator's records tell which lake head a check has passed already, and which
records `CALL sys.skip_record` left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from uuid import uuid4

import structlog

from tiering.access.acting_for import current_subject
from tiering.access.grants import Grants
from tiering.access.privileges import Privilege, Resource
from tiering.cluster.base import ClusterOwner
from tiering.cluster.skipping import MarkedRecords, marked_records
from tiering.coordinator.decisions.records import EventRecord, Level, TableRecord
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.observing.discovery import Discovery
from tiering.coordinator.observing.lake_reader import Lakes
from tiering.coordinator.readers.open_reads import OpenReads
from tiering.coordinator.readers.stored_holds import StoredHolds
from tiering.coordinator.readers.tickets import TicketSigner, unknown_ticket
from tiering.durations import format_duration
from tiering.errors import InvalidArgument, PeerTooOld, PermanentTieringError, SourceChanged
from tiering.lake.file_lists import FollowingLake
from tiering.lake.rules.base_check import Base
from tiering.model.names import LAKE_SUFFIX, sql_name
from tiering.model.reading.open_reads import AGAIN, MAX_TTL, READ_TTL, OpenRead
from tiering.model.reading.scans import ReadMoment, ReadPart, ReadScan
from tiering.model.tables import TableBucket, TableInfo, TablePath
from tiering.union_read.count import count_rows
from tiering.union_read.plan import lease_snapshots, open_read, plan_scan, scan_tasks, with_changelog_starts
from tiering.union_read.streams.batches import StreamedTable
from tiering.union_read.tasks import ReadTask

_log = structlog.get_logger(__name__)

TICKET_KEY = "read-tickets"
"""Name of the key in the store that signs tickets."""

LEASE_OWNER = "reads"
"""Owner of the leases on the KV snapshots of reads in `sys.kv_snapshot_leases`."""

NEVER_CLOSE = frozenset({"python", "stream"})
"""Engines whose reads end by their time. The planner of the plain data source is a process that ends before the rows are read, and a
stream that is stopped makes no more calls."""

_MILLISECOND = timedelta(milliseconds=1)


def lease_of(read_id: str) -> str:
    """Returns the id of the lease on the KV snapshots of a read."""
    return f"read-{read_id}"


def _expired(read: OpenRead, now: datetime) -> EventRecord:
    path = read.moment.path
    return EventRecord(
        occurred_at=now,
        level=Level.WARN,
        event_type="READ_EXPIRED",
        message=f"a read by {read.engine or 'an unknown engine'} was not renewed: its snapshot and log records are no longer kept",
        principal=read.principal or None,
        database_name=path.database_name,
        table_name=path.table_name,
        details={"table_id": read.moment.table_id, "read_id": read.read_id, "application_id": read.application_id},
    )


def _checked_ttl(ttl_ms: int) -> timedelta:
    if not 0 <= ttl_ms <= MAX_TTL // _MILLISECOND:
        raise InvalidArgument(
            f"a read cannot be kept open for {format_duration(ttl_ms)}",
            hint=f"Name a time of at most {MAX_TTL // timedelta(hours=1)} hours in the option `keepFor`, such as '3 h'.",
        )
    return timedelta(milliseconds=ttl_ms) if ttl_ms else READ_TTL


def _lake_alone(path: TablePath) -> str:
    return f"SELECT * FROM {sql_name(path, LAKE_SUFFIX)} reads the lake copy as it is."


@dataclass(frozen=True)
class OpenedRead:
    """A read that was just opened: its table at this moment, and its ticket."""

    read: OpenRead
    table: TableInfo
    ticket: bytes
    lake_has_other_columns: bool = False
    """`FollowingLake.has_other_columns`."""


class Reads:
    """Opens, renews, plans and closes reads."""

    def __init__(self, table_records: TableRecords, cluster: ClusterOwner, lakes: Lakes, discovery: Discovery, grants: Grants) -> None:
        self._table_records = table_records
        self._cluster = cluster
        self._lakes = lakes
        self._discovery = discovery
        self._grants = grants
        self._signer: TicketSigner | None = None
        self._has_leases = True
        """False: the cluster refused the last lease because it has none. Reads continue without a lease, as rounds do."""
        self._holds = StoredHolds(table_records)
        self.open_reads = OpenReads(lambda: table_records.now().wall, self._holds.inherited)

    def open(self, path: TablePath, engine: str, application_id: str, ttl_ms: int = 0) -> OpenedRead:
        """Fixes the moment of a read of a table as of now. The caller's privilege was checked before. Without a renewal the read stays open
        for `ttl_ms`; 0 = READ_TTL.

        Raises InvalidArgument (a negative `ttl_ms`, or one above MAX_TTL), UnknownTable, the errors of the base check, LogTruncated,
        LakeUnavailable, ClusterUnavailable, StoreError, Fenced, ServiceBusy.
        """
        ttl = _checked_ttl(ttl_ms)
        principal = current_subject().principal
        self.open_reads.check_room(principal)
        table = self._cluster.table(path)
        with self.open_reads.opening(table.table_id):
            read_id = uuid4().hex
            with _hint_at_the_copy(path):
                moment = open_read(self._cluster, path, self._checked_base, partial(self._lease, read_id, ttl))
            now = self.now()
            read = OpenRead(read_id, moment, principal, engine, application_id, now, now, now + ttl)
            self.keep(read)
        table = self._cluster.table(path)
        if table.table_id != moment.table_id:
            raise SourceChanged(f"{path} was dropped and created again while a read of it was opened", hint=AGAIN, table_path=path)
        return OpenedRead(read, table, self._tickets.sign(read), self._has_other_columns(table, moment))

    def _has_other_columns(self, table: TableInfo, moment: ReadMoment) -> bool:
        """Whether the lake copy has former names or types of the table's columns. Raises LakeUnavailable."""
        lake = self._lakes.of(table.lake_format)
        if moment.lake_snapshot_id is None or table.schema_id <= 1 or not isinstance(lake, FollowingLake):
            return False
        view = lake.view(table.path)
        return view is not None and lake.has_other_columns(table, view, moment.lake_snapshot_id)

    def renew(self, ticket: bytes) -> tuple[OpenRead, bytes]:
        """Extends the time of the read, and returns it with its new ticket.

        Raises InvalidArgument (an unknown ticket), AccessDenied, UnknownTable, ReadExpired, KvSnapshotGone, StoreError, Fenced.
        """
        renewed = self._renewed(self._usable(ticket))
        return renewed, self._tickets.sign(renewed)

    def keep(self, read: OpenRead) -> None:
        """Keeps what a read needs until it expires, also beyond the end of this process. Raises StoreError, Fenced."""
        self._holds.ensure(read)
        self.open_reads.keep(read)

    def close(self, ticket: bytes) -> None:
        """Ends the read. Raises InvalidArgument."""
        read = self._own(ticket)
        self.open_reads.close(read)
        if read.moment.kv_snapshots:
            with suppress(PeerTooOld):  # a cluster without leases
                self._cluster.drop_lease(lease_of(read.read_id))

    def expire(self) -> None:
        """Ends the reads whose time is over, with an event for each whose reader should have closed it. Their leases end by themselves.

        Raises StoreError, Fenced.
        """
        self._holds.expire(self.now())
        events = [_expired(read, self._table_records.now().wall) for read in self.open_reads.expire() if read.engine not in NEVER_CLOSE]
        if events:
            with self._table_records.changing():
                self._table_records.put(events=events)

    def plan(self, ticket: bytes, scan: ReadScan) -> tuple[list[ReadTask], bytes | None]:
        """Returns the tasks of a scan, and the ticket to use from now on; None = the same.

        Raises InvalidArgument (an unknown ticket or column), AccessDenied, UnknownTable, ReadExpired, SourceChanged, LogTruncated,
        KvSnapshotGone, LakeUnavailable, StoreError, Fenced.
        """
        read, new_ticket = self._scanned(ticket, scan)
        table = self._cluster.table(read.moment.path)
        with _hint_at_the_copy(table.path):
            readers = plan_scan(self._cluster, self._lakes.of, read.moment, scan, self._marked(table))
        return scan_tasks(table, readers, scan), new_ticket

    def count(self, ticket: bytes, scan: ReadScan) -> tuple[int | None, bytes | None]:
        """Returns the exact number of rows of a scan, and the ticket to use from now on; None = the same. The number is None if only
        reading the rows tells it. Raises the errors of `plan`."""
        read, new_ticket = self._scanned(ticket, scan)
        table = self._cluster.table(read.moment.path)
        with _hint_at_the_copy(table.path):
            return count_rows(self._cluster, self._lakes.of, read.moment, scan, self._marked(table)), new_ticket

    def streamed(self, path: TablePath, read_id: str) -> tuple[StreamedTable, TableInfo]:
        """Returns the parts with which batches of a stream of the table are planned, and the table. `read_id`: the read of the stream.

        Raises UnknownTable, ServiceBusy (the stream is new, and too many reads are open).
        """
        self.open_reads.check_room(current_subject().principal, read_id)
        table = self._cluster.table(path)
        return StreamedTable(self._cluster, self._lakes.of, self._checked_base, self._marked(table)), table

    def now(self) -> datetime:
        """Returns the coordinator's time."""
        return self._table_records.now().wall

    def _scanned(self, ticket: bytes, scan: ReadScan) -> tuple[OpenRead, bytes | None]:
        """Returns the read that a scan belongs to, and its new ticket; None = the same.

        A scan of CHANGELOG renews the read. The first one fixes where the changelog begins. The log from there on is kept before any task
        is returned, and the new ticket has it, so that a later coordinator knows it, too.
        """
        read = self._usable(ticket)
        if scan.part is not ReadPart.CHANGELOG:
            return read, None
        with self.open_reads.opening(read.moment.table_id):
            if not read.moment.changelog_starts:
                read = replace(read, moment=with_changelog_starts(self._cluster, read.moment))
            read = self._renewed(read)
        return read, self._tickets.sign(read)

    def _renewed(self, read: OpenRead) -> OpenRead:
        """Extends the time of the read, and returns it with its new times. What it needs is in the store before.

        Raises KvSnapshotGone (its lease ended, because the reader could not renew for long), ReadExpired, StoreError, Fenced.
        """
        until = self.open_reads.renewed(read)
        self._holds.ensure(until)
        renewed = self.open_reads.renew(read)
        # Tasks of other buckets still need what the read keeps, so a lost KV snapshot does not end the rest.
        lease_snapshots(read.moment, partial(self._lease, read.read_id, until.expires_at - until.renewed_at))
        return renewed

    def _usable(self, ticket: bytes) -> OpenRead:
        """Returns the read of a ticket, with what is known of it since. Raises AccessDenied, UnknownTable, ReadExpired."""
        return self.open_reads.check(self._allowed(ticket))

    def _lease(self, read_id: str, ttl: timedelta, snapshots: Mapping[TableBucket, int]) -> Collection[TableBucket]:
        """Leases the KV snapshots of a read for `ttl` from now on. Returns the buckets whose snapshot does not exist any more.

        In a cluster without leases a snapshot may be deleted while it is read: this is the error KvSnapshotGone of its task. Each call
        tries again, because the cluster may have been upgraded.
        """
        try:
            missing = self._cluster.acquire_lease(lease_of(read_id), ttl // _MILLISECOND, snapshots, owner=LEASE_OWNER)
        except PeerTooOld as error:
            if self._has_leases:
                _log.warning("reads use KV snapshots without leases: the cluster does not have them", error=error.message)
            self._has_leases = False
            return ()
        self._has_leases = True
        return missing

    def _checked_base(self, table: TableInfo) -> Base:
        return self._lakes.base_for_reading(self._record(table), table)

    def _record(self, table: TableInfo) -> TableRecord | None:
        record = self._table_records.get(table.table_id)
        if record is None and table.lake_enabled:  # the table may be so new that it is not discovered yet
            self._discovery.refresh()
            record = self._table_records.get(table.table_id)
        return record

    def _marked(self, table: TableInfo) -> MarkedRecords:
        record = self._table_records.get(table.table_id)
        if record is None:
            return MarkedRecords()
        return marked_records(self._cluster, table, record.lake.skipped_records, record.lake.put_aside_offsets)

    def _allowed(self, ticket: bytes) -> OpenRead:
        """Returns the read of a ticket, if its caller may still read the table. Raises AccessDenied, UnknownTable."""
        read = self._own(ticket)
        self._grants.current().require(Privilege.SELECT, Resource.of_table(read.moment.path))
        return read

    def _own(self, ticket: bytes) -> OpenRead:
        read = self._tickets.read(ticket)
        if read.principal != current_subject().principal:
            raise unknown_ticket()
        return read

    @property
    def _tickets(self) -> TicketSigner:
        if self._signer is None:
            self._signer = TicketSigner(self._table_records.store.key(self._table_records.epoch, TICKET_KEY))
        return self._signer


@contextmanager
def _hint_at_the_copy(path: TablePath) -> Iterator[None]:
    """Adds to a permanent error of the lake table that its copy can still be read as it is."""
    try:
        yield
    except PermanentTieringError as error:
        error.hint = f"{error.hint} {_lake_alone(path)}".strip()
        raise
