"""A Fluss cluster as a tierer sees it: tables, offsets, KV snapshots, and readers of splits."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import blake2b

import pyarrow as pa
import structlog

from tiering.cluster.base import SplitReader
from tiering.cluster.fluss.kv.snapshots import newest_kv_snapshots, open_snapshot_reader
from tiering.cluster.fluss.lake_record import LakeRecord
from tiering.cluster.fluss.log.batches import BatchHeader
from tiering.cluster.fluss.log.bucketing import key_buckets
from tiering.cluster.fluss.log.headers import header_answers
from tiering.cluster.fluss.log.reader import open_log_reader
from tiering.cluster.fluss.log.record_sizes import RecordSizes
from tiering.cluster.fluss.log.schemas import parse_schema_json
from tiering.cluster.fluss.log_offsets import FlussLogOffsets, commit_time, header_of, oldest_headers
from tiering.cluster.fluss.settings import FlussConnection, FlussSettings
from tiering.cluster.fluss.tables import FlussTables
from tiering.cluster.fluss.wire.api import path_to_pb
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.errors import (
    ClusterAccessDenied,
    ClusterUnavailable,
    DataCorrupt,
    LakeRecordUnreadable,
    SetupError,
    SourceChanged,
    UnknownTable,
    UnsupportedLogVersion,
)
from tiering.model.assignments import ServiceMode
from tiering.model.leases import KvSnapshot
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.splits import TieringLogSplit, TieringSnapshotSplit, TieringSplit
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, Partition, TableInfo
from tiering.rpc.fluss import fluss_pb2 as fluss

_log = structlog.get_logger(__name__)

SETTLE_SECONDS = 2.0
"""Delay before a log is read again whose state may be temporary: an election is over in that time."""
UNREADABLE = RecordedLakeSnapshot(-1, {})
"""Stands for a record whose file is missing: it is behind any lake, so the next base check makes the coordinator register the lake's state
again (H1).
"""


class FlussSource(FlussTables):
    """A `SplitSource`; it closes its client. Implements `TableCatalog`, `LogOffsets`, `RewritableLogs`, `KeyBuckets` and `ServiceModes`."""

    def __init__(self, connection: FlussConnection, client: FlussClient, settings: FlussSettings) -> None:
        super().__init__(client, settings.upkeep)
        self._connection = connection
        self._settings = settings
        self._offsets = FlussLogOffsets(client)
        self._sizes = RecordSizes(client)
        self._schemas = SchemaHistory(client)
        self._lake_record = LakeRecord(client)
        self._bounds_lock = threading.Lock()
        self._known_bounds: dict[int, Mapping[BucketKey, BucketOffsets]] = {}

    @property
    def cluster_id(self) -> str:
        """Returns the name that the operator gave it (`--fluss-cluster-id`)."""
        return self._settings.cluster_id

    @property
    def service_mode(self) -> ServiceMode:
        """Returns whether the cluster is shared with another tiering service."""
        return self._settings.mode

    def lake_snapshot(self, table: TableInfo) -> RecordedLakeSnapshot | None:
        """Returns the registered lake snapshot. Raises LakeRecordUnreadable, except on an exclusive cluster."""
        try:
            return self._lake_record.read(table)
        except LakeRecordUnreadable:
            if self.service_mode is not ServiceMode.EXCLUSIVE:
                raise
            return UNREADABLE

    def offsets(self, table: TableInfo) -> Mapping[BucketKey, BucketOffsets]:
        """Returns the offsets of all buckets, with sampled record sizes."""
        partitions = self.partitions(table)
        offsets = self._offsets.of([(table, partitions)])
        if table.table_id not in offsets:
            raise UnknownTable(f"the table {table.path} with id {table.table_id} does not exist", table_id=table.table_id)
        bounds = self._sizes.sampled(table, offsets[table.table_id])
        with self._bounds_lock:
            self._known_bounds[table.table_id] = bounds
        return bounds

    def offsets_of(self, tables: Sequence[TableInfo]) -> Mapping[int, Mapping[BucketKey, BucketOffsets]]:
        """Returns the offsets of several tables, with record sizes that are already known."""
        listed: list[tuple[TableInfo, Sequence[Partition]]] = []
        for table in tables:
            try:
                listed.append((table, self.partitions(table) if table.partition_keys else ()))
            except UnknownTable:
                continue
            except ClusterAccessDenied as error:
                _log.debug("the partitions of a table cannot be listed", table=str(table.path), error=error.message)
        offsets = self._offsets.of(listed)
        return {table.table_id: self._sizes.attached(table, offsets[table.table_id]) for table, _ in listed if table.table_id in offsets}

    def oldest_timestamps(self, table: TableInfo, offsets: Offsets) -> Mapping[BucketKey, datetime]:
        headers = oldest_headers(self._client, table, offsets, self._settings.storage)
        self._sizes.note(table.table_id, headers)
        return {bucket: commit_time(header) for bucket, header in headers.items()}

    def record_traces(self, table: TableInfo, offsets: Offsets) -> Mapping[BucketKey, str]:
        """Returns the traces of records, with one call for each tablet server that reads headers of record batches."""
        traces: dict[BucketKey, str] = {}
        answered: set[BucketKey] = set()
        for answer in header_answers(self._client, table, {bucket: offset - 1 for bucket, offset in offsets.items()}):
            answered.add(answer.bucket)
            try:
                header = header_of(self._client, table, answer, self._settings.storage)
            except (ClusterUnavailable, DataCorrupt, SetupError, UnsupportedLogVersion) as error:
                # A segment of tiered records that is damaged, unreadable or unreachable must not stop a round, because no round reads it
                # any more.
                _log.debug("a record's trace cannot be read", table=str(table.path), bucket=str(answer.bucket), error=error.message)
                continue
            if header is not None and header.starting_offset <= answer.offset < header.stopping_offset:
                traces[answer.bucket] = _trace(header)
        for bucket in set(offsets) - answered:
            raise ClusterUnavailable(
                f"no server returns the records of bucket {bucket} of {table.path} now",
                hint="The bucket gets a leader when a tablet server with one of its replicas runs.",
                table_id=table.table_id,
                bucket=bucket,
            )
        return traces

    def settle(self, table: TableInfo) -> None:
        """Waits until a new leader knows which segments are remote and how far its replicas have read."""
        with self._bounds_lock:
            buckets = tuple(self._known_bounds.get(table.table_id, ()))
        for bucket in buckets:
            self._client.forget_leader(table.path, table.table_id, bucket)
        time.sleep(SETTLE_SECONDS)

    def kv_snapshots(self, table: TableInfo) -> Mapping[BucketKey, KvSnapshot]:
        return newest_kv_snapshots(self._client, table, lambda: self.partitions(table))

    def key_buckets(self, table: TableInfo, keys: pa.RecordBatch) -> Sequence[int] | None:
        """Returns the bucket of each row of bucket keys. Implements `KeyBuckets.key_buckets`."""
        return key_buckets(table, keys)

    def reader(self, table: TableInfo, split: TieringSplit) -> SplitReader:
        schemas = self._schemas.of(table)
        if isinstance(split, TieringSnapshotSplit):
            return open_snapshot_reader(self._client, table, split, schemas, self._settings.storage)
        return open_log_reader(self._connection, table, split, self._bounds(table, split), schemas, self._settings.storage)

    def _bounds(self, table: TableInfo, split: TieringLogSplit) -> BucketOffsets | None:
        """Returns the bounds of the bucket's log; None = the bucket does not exist.

        Uses the bounds with which the round was planned if they contain the whole split: the reader detects what retention has removed
        since.
        """
        with self._bounds_lock:
            bounds = self._known_bounds.get(table.table_id, {}).get(split.bucket)
        if bounds is None or not bounds.log_start <= split.starting_offset <= split.stopping_offset <= bounds.log_end:
            bounds = self.offsets(table).get(split.bucket)
        return bounds

    def close(self) -> None:
        self._offsets.close()
        self._client.close()


_BYTES = 8
"""Size of a trace; every marker has one for each bucket."""


# A trace is a hash that distinguishes a record from any other at its offset, made from the header of its record batch. Fluss 0.9.1 may
# lose the end of a log whose bucket has no replicas when its tablet server is killed, and reuses the offsets. A record batch never
# changes, wherever it is copied: its first offset, its commit time and its checksum identify it.
def _trace(header: BatchHeader) -> str:
    return blake2b(struct.pack("<qqI", header.starting_offset, header.commit_ms, header.crc), digest_size=_BYTES).hexdigest()


class SchemaHistory:
    """The schemas of tables, by table id. Schemas never change, so each is requested once. Safe to use from several threads."""

    def __init__(self, client: FlussClient) -> None:
        self._client = client
        self._schemas: dict[int, dict[int, bytes]] = {}
        self._lock = threading.Lock()

    def of(self, table: TableInfo) -> Mapping[int, bytes]:
        """Returns schema id -> its JSON, from the first to one that has the columns of `table`.

        Raises SourceChanged if another table has its name now, UnknownTable, ClusterUnavailable.
        """
        with self._lock:
            known_schemas = self._schemas.get(table.table_id, {})
        if not known_schemas or not _has_columns(known_schemas[max(known_schemas)], table):
            known_schemas = self._ask(table, known_schemas)
            with self._lock:
                self._schemas[table.table_id] = known_schemas
        return known_schemas

    def _ask(self, table: TableInfo, known_schemas: Mapping[int, bytes]) -> dict[int, bytes]:
        """Requests the missing schemas. GetTableSchema takes a name, so the table id is checked afterwards: schemas of another table with
        that name are never used.
        """
        path = path_to_pb(table.path)
        newest = self._client.coordinator(fluss.GetTableInfoRequest(table_path=path)).schema_id
        schemas = dict(known_schemas)
        for schema_id in range(1, newest + 1):
            if schema_id not in schemas:
                request = fluss.GetTableSchemaRequest(table_path=path, schema_id=schema_id)
                schemas[schema_id] = self._client.coordinator(request).schema_json
        if self._client.coordinator(fluss.GetTableInfoRequest(table_path=path)).table_id != table.table_id:
            raise SourceChanged(f"{table.path} was dropped and recreated", table_id=table.table_id)
        return schemas


def _has_columns(schema_json: bytes, table: TableInfo) -> bool:
    return set(parse_schema_json(schema_json).names).issuperset(table.schema.names)
