"""The embedded cluster over gRPC: a `SplitSource` for tierers, a `WritableCluster` for ingest and the demo.

Synchronous, and safe to call from several threads. An idempotent call is repeated while the service is briefly unavailable, for example
during a restart of the coordinator; a service that has never answered is reported at once. The lake record is written only by the
coordinator, in its own process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property, partial
from typing import TypeVar

import pyarrow as pa
import structlog
import tenacity
from google.protobuf.message import Message

from tiering.clock import Ids, RandomIds
from tiering.cluster.base import offsets_one_by_one
from tiering.cluster.embedded.kv.snapshot_files import EmbeddedSnapshotReader, open_snapshot_reader
from tiering.cluster.embedded.log.bucketing import key_buckets
from tiering.cluster.embedded.log.split_reader import EmbeddedSplitReader, ListedRange, open_reader
from tiering.cluster.embedded.rpc.messages import (
    APPENDED_RANGE,
    BUCKET_OFFSETS,
    BUCKET_SNAPSHOTS,
    LOG_OFFSETS,
    PARTITION,
    REFUSED_RECORD,
    SEGMENT,
    SPEC,
    STORED_SNAPSHOT,
    TIMESTAMPS,
    TRACES,
    table_from_pb,
)
from tiering.cluster.log_writer import as_batch
from tiering.cluster.table_option_checks import check_new_options
from tiering.cluster.writable import MAX_APPEND_BYTES, AppendedRange, Rows, TableSpec
from tiering.errors import InvalidArgument, InvalidData, ServiceBusy, ServiceUnreachable
from tiering.library_guards.arrow_ipc import read_schema, rows_bytes
from tiering.model.leases import KvSnapshot
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.schema.changes import SchemaChange
from tiering.model.splits import TieringSnapshotSplit, TieringSplit
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, Partition, TableInfo, TablePath, TableType
from tiering.rpc.v1 import embedded_pb2 as pb
from tiering.rpc.v1 import embedded_pb2_grpc
from tiering.wire.channel import Connection
from tiering.wire.model_codecs import BUCKET, OFFSETS, PATH, RECORDED_SNAPSHOT
from tiering.wire.pages import Pages, readable
from tiering.wire.schema_changes import changes_to_pb

_log = structlog.get_logger(__name__)

CALL_TIMEOUT_S = 30.0
"""Timeout of a call, longer than any call takes; an append waits for the disk."""
PRIMARY_KEY_TIMEOUT_S = 600.0
"""Timeout of a write to a primary-key table and of KV snapshots: a lost state is rebuilt first, from the whole table."""
DEFAULT_PATIENCE_MS = 20_000
"""Longest time that an idempotent call waits for a service that answered before. A restart takes a few seconds."""

Answer = TypeVar("Answer")


class RemoteEmbeddedCluster:
    """Connects on first use. Every call may raise ServiceUnreachable in addition to the errors of the storage."""

    remembers_writers = True
    max_write_bytes = MAX_APPEND_BYTES

    def __init__(self, uri: str, *, patience_ms: int = DEFAULT_PATIENCE_MS) -> None:
        self._uri = uri
        self._connection = Connection(uri)
        self._stub = embedded_pb2_grpc.EmbeddedClusterStub(self._connection.channel)
        self._has_answered = False
        self._ids: Ids = RandomIds()
        self._columns: dict[tuple[int, int], pa.Schema] = {}
        """Columns of former schema ids, which never change, by table id and schema id."""
        self._retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(self._may_come_back),
            wait=tenacity.wait_exponential(multiplier=0.1, max=2),
            stop=tenacity.stop_after_delay(patience_ms / 1_000),
            reraise=True,
        )

    def _may_come_back(self, error: BaseException) -> bool:
        return isinstance(error, ServiceBusy) or (isinstance(error, ServiceUnreachable) and self._has_answered)

    def _once(self, call: Callable[..., Answer], request: Message, timeout_s: float = CALL_TIMEOUT_S) -> Answer:
        with self._connection.calling():
            answer = call(request, timeout=timeout_s)
        self._has_answered = True
        return answer

    def _repeatable(self, call: Callable[..., Answer], request: Message, timeout_s: float = CALL_TIMEOUT_S) -> Answer:
        answer: Answer = self._retrying(self._once, call, request, timeout_s)
        return answer

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    def __enter__(self) -> RemoteEmbeddedCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def cluster_id(self) -> str:
        """Returns the cluster's id; requested once. Implements `TableCatalog.cluster_id`."""
        return self._repeatable(self._stub.DescribeCluster, pb.DescribeClusterRequest()).cluster_id

    def check_options(self, properties: Mapping[str, str]) -> None:
        """Checks all options. Implements `WritableCluster.check_options`."""
        check_new_options(properties)

    def create_database(self, name: str, ignore_if_exists: bool = False) -> None:
        """Creates a database. Implements `WritableCluster.create_database`."""
        attempt = self._repeatable if ignore_if_exists else self._once
        attempt(self._stub.CreateDatabase, pb.CreateDatabaseRequest(database_name=name, ignore_if_exists=ignore_if_exists))

    def databases(self) -> Sequence[str]:
        """Returns the names of all databases. Implements `TableCatalog.databases`."""
        return list(self._repeatable(self._stub.ListDatabases, pb.ListDatabasesRequest()).database_names)

    def create_table(self, path: TablePath, spec: TableSpec, ignore_if_exists: bool = False) -> TableInfo:
        """Creates a table. Implements `WritableCluster.create_table`."""
        request = SPEC.to_pb(spec, table_path=PATH.to_pb(path), ignore_if_exists=ignore_if_exists)
        attempt = self._repeatable if ignore_if_exists else self._once
        return self._table(attempt(self._stub.CreateTable, request).table)

    def drop_table(self, path: TablePath) -> None:
        """Drops a table. Implements `WritableCluster.drop_table`."""
        self._once(self._stub.DropTable, pb.DropTableRequest(table_path=PATH.to_pb(path)))

    def alter_table(self, path: TablePath, set_properties: Mapping[str, str], changes: Sequence[SchemaChange] = ()) -> TableInfo:
        """Sets options and changes columns. Implements `WritableCluster.alter_table`."""
        request = pb.AlterTableRequest(
            table_path=PATH.to_pb(path), set_properties=set_properties, changes=changes_to_pb(changes), change_id=self._ids.new_id()
        )
        table = self._table(self._repeatable(self._stub.AlterTable, request, PRIMARY_KEY_TIMEOUT_S).table)
        if changes and not table.schema_id:
            raise InvalidArgument(
                f"the service at {self._uri} is of a version that cannot change the columns of {path} in this way",
                hint="Upgrade the coordinator first.",
            )
        return table

    def set_table_option(self, path: TablePath, name: str, value: str | None, *, dry_run: bool = False) -> TableInfo:
        """Sets or resets one option. Implements `TableOptionSetting.set_table_option`."""
        request = pb.SetTableOptionRequest(table_path=PATH.to_pb(path), name=name, value=value, dry_run=dry_run)
        return self._table(self._repeatable(self._stub.SetTableOption, request).table)

    def tables(self, database_name: str | None = None) -> Sequence[TableInfo]:
        """Returns tables, sorted by path. Implements `TableCatalog.tables`."""
        tables: list[TableInfo] = []
        pages = Pages(self._uri, "tables")
        page_token = ""
        while True:
            answer = self._repeatable(self._stub.ListTables, pb.ListTablesRequest(database_name=database_name, page_token=page_token))
            page_token = answer.next_page_token
            pages.check(answer, len(answer.tables), page_token or None)
            with readable(self._uri):
                tables += map(table_from_pb, answer.tables)
            if not page_token:
                return tables

    def table(self, path: TablePath) -> TableInfo:
        """Returns one table. Implements `TableCatalog.table`."""
        return self._table(self._repeatable(self._stub.GetTable, pb.GetTableRequest(table_path=PATH.to_pb(path))).table)

    def _table(self, message: pb.PbTable) -> TableInfo:
        with readable(self._uri):
            return table_from_pb(message)

    def partitions(self, table: TableInfo) -> Sequence[Partition]:
        """Returns the partitions of a table; without partition columns no call is made. Implements `TableCatalog.partitions`."""
        if not table.partition_keys:
            return ()
        partitions: list[Partition] = []
        pages = Pages(self._uri, "partitions")
        more = True
        while more:
            after = partitions[-1].partition_id if partitions else 0
            request = pb.ListPartitionsRequest(table_id=table.table_id, after_partition_id=after)
            answer = self._repeatable(self._stub.ListPartitions, request)
            partitions += (PARTITION.from_pb(partition, bucket_count=None) for partition in answer.partitions)
            more = answer.more
            pages.check(answer, len(answer.partitions), partitions[-1].partition_id if more and partitions else None)
            more = more and bool(answer.partitions)
        return tuple(partitions)

    def drop_partition(self, path: TablePath, partition_name: str) -> None:
        """Drops a partition. Implements `WritableCluster.drop_partition`."""
        self._once(self._stub.DropPartition, pb.DropPartitionRequest(table_path=PATH.to_pb(path), partition_name=partition_name))

    def append(self, path: TablePath, rows: Rows, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        """Appends rows with one message; `log_writer.LogWriter` splits larger batches. Raises InvalidData if the rows are too large.
        Implements `WritableCluster.append`.
        """
        request = pb.AppendRequest(table_path=PATH.to_pb(path), rows=_message(rows), writer_id=writer_id, sequence=sequence)
        return _ranges(self._repeatable(self._stub.Append, request).ranges)

    def upsert(self, path: TablePath, rows: Rows, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        """Upserts rows with one message, as `append` does. Implements `WritableCluster.upsert`."""
        request = pb.UpsertRequest(table_path=PATH.to_pb(path), rows=_message(rows), writer_id=writer_id, sequence=sequence)
        return _ranges(self._repeatable(self._stub.Upsert, request, PRIMARY_KEY_TIMEOUT_S).ranges)

    def delete(self, path: TablePath, keys: Rows, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        """Deletes keys with one message, as `append` does. Implements `WritableCluster.delete`."""
        request = pb.DeleteRequest(table_path=PATH.to_pb(path), keys=_message(keys), writer_id=writer_id, sequence=sequence)
        return _ranges(self._repeatable(self._stub.Delete, request, PRIMARY_KEY_TIMEOUT_S).ranges)

    def take_kv_snapshots(self, path: TablePath) -> Mapping[BucketKey, KvSnapshot]:
        """Takes KV snapshots of a table. Implements `KvSnapshotsOnDemand.take_kv_snapshots`."""
        answer = self._repeatable(self._stub.SnapshotKv, pb.SnapshotKvRequest(table_path=PATH.to_pb(path)), PRIMARY_KEY_TIMEOUT_S)
        return BUCKET_SNAPSHOTS.from_pb(answer.snapshots)

    def offsets(self, table: TableInfo) -> Mapping[BucketKey, BucketOffsets]:
        """Returns the offsets of all buckets. Implements `LogOffsets.offsets`."""
        answer = self._repeatable(self._stub.ListOffsets, pb.ListOffsetsRequest(table_id=table.table_id))
        return BUCKET_OFFSETS.from_pb(answer.buckets)

    def offsets_of(self, tables: Sequence[TableInfo]) -> Mapping[int, Mapping[BucketKey, BucketOffsets]]:
        """Returns the offsets of several tables, with one call for each: only the coordinator, in process, asks for many. Implements
        `LogOffsets.offsets_of`.
        """
        return offsets_one_by_one(self, tables)

    def oldest_timestamps(self, table: TableInfo, offsets: Offsets) -> Mapping[BucketKey, datetime]:
        """Returns the commit times of records. Implements `LogOffsets.oldest_timestamps`."""
        request = pb.ListOldestTimestampsRequest(table_id=table.table_id, offsets=OFFSETS.to_pb(offsets))
        return TIMESTAMPS.from_pb(self._repeatable(self._stub.ListOldestTimestamps, request).timestamps)

    def record_traces(self, table: TableInfo, offsets: Offsets) -> Mapping[BucketKey, str]:
        """Returns the traces of records. Implements `RewritableLogs.record_traces`."""
        if not offsets:
            return {}
        request = pb.ListRecordTracesRequest(table_id=table.table_id, offsets=OFFSETS.to_pb(offsets))
        return TRACES.from_pb(self._repeatable(self._stub.ListRecordTraces, request).traces)

    def key_buckets(self, table: TableInfo, keys: pa.RecordBatch) -> Sequence[int]:
        """Returns the bucket of each row of bucket keys. Implements `KeyBuckets.key_buckets`."""
        return key_buckets(table, keys)

    def has_dense_offsets(self, table: TableInfo) -> bool:
        """Returns True: each offset has a record. Implements `DenseOffsets.has_dense_offsets`."""
        return True

    def settle(self, table: TableInfo) -> None:
        """Does nothing, because the service reads its folder for each call. Implements `RewritableLogs.settle`."""

    def reader(self, table: TableInfo, split: TieringSplit) -> EmbeddedSplitReader | EmbeddedSnapshotReader:
        """Returns the reader of a split. Also raises LogTruncated, InvalidArgument. Implements `SplitSource.reader`."""
        if isinstance(split, TieringSnapshotSplit):
            return self._snapshot_reader(table, split)
        pages = list(self._segment_pages(table.table_id, split.bucket, split.starting_offset, split.stopping_offset))
        segments = [SEGMENT.from_pb(segment) for page in pages for segment in page.segments]
        bounds = LOG_OFFSETS.from_pb(pages[0].bounds) if pages[0].HasField("bounds") else None
        listed = ListedRange(pages[0].root, segments, [REFUSED_RECORD.from_pb(record) for record in pages[0].refused])
        return open_reader(table, split, bounds, lambda *_: listed, partial(self.columns_at, table.table_id))

    def columns_at(self, table_id: int, schema_id: int) -> pa.Schema:
        """Returns the columns that a table had with a schema id; requested once. Implements `FormerColumns.columns_at`."""
        if (table_id, schema_id) not in self._columns:
            answer = self._repeatable(self._stub.GetTableSchema, pb.GetTableSchemaRequest(table_id=table_id, schema_id=schema_id))
            with readable(self._uri):
                self._columns[table_id, schema_id] = read_schema(answer.schema)
        return self._columns[table_id, schema_id]

    def _snapshot_reader(self, table: TableInfo, split: TieringSnapshotSplit) -> EmbeddedSnapshotReader:
        request = pb.GetKvSnapshotRequest(table_id=table.table_id, bucket=BUCKET.to_pb(split.bucket), snapshot_id=split.snapshot_id)
        answer = self._repeatable(self._stub.GetKvSnapshot, request)
        stored = STORED_SNAPSHOT.from_pb(answer.snapshot) if answer.HasField("snapshot") else None
        return open_snapshot_reader(answer.root, table, split, stored, partial(self.columns_at, table.table_id))

    def _segment_pages(
        self, table_id: int, bucket: BucketKey, starting_offset: int, stopping_offset: int
    ) -> Iterator[pb.ListSegmentsResponse]:
        pages = Pages(self._uri, "segments")
        while True:
            request = pb.ListSegmentsRequest(
                table_id=table_id, bucket=BUCKET.to_pb(bucket), starting_offset=starting_offset, stopping_offset=stopping_offset
            )
            page = self._repeatable(self._stub.ListSegments, request)
            pages.check(page, len(page.segments), page.segments[-1].stopping_offset if page.segments else None)
            yield page
            if not page.segments or page.segments[-1].stopping_offset >= stopping_offset:
                return
            starting_offset = page.segments[-1].stopping_offset

    def kv_snapshots(self, table: TableInfo) -> Mapping[BucketKey, KvSnapshot]:
        """Returns the newest KV snapshot of each bucket; for a log table no call is made. Implements `SplitSource.kv_snapshots`."""
        if table.table_type is TableType.LOG:
            return {}
        answer = self._repeatable(self._stub.ListKvSnapshots, pb.ListKvSnapshotsRequest(table_id=table.table_id))
        return BUCKET_SNAPSHOTS.from_pb(answer.snapshots)

    def lake_snapshot(self, table: TableInfo) -> RecordedLakeSnapshot | None:
        """Returns the recorded lake snapshot. Implements `TableCatalog.lake_snapshot`."""
        answer = self._repeatable(self._stub.GetLakeSnapshot, pb.GetLakeSnapshotRequest(table_id=table.table_id))
        return RECORDED_SNAPSHOT.from_pb(answer.recorded) if answer.HasField("recorded") else None


def _ranges(messages: Iterable[pb.PbAppendedRange]) -> list[AppendedRange]:
    return [APPENDED_RANGE.from_pb(message) for message in messages]


def _message(rows: Rows) -> bytes:
    data = rows_bytes(as_batch(rows))
    if len(data) > MAX_APPEND_BYTES:
        raise InvalidData(f"a write of {len(data)} bytes exceeds the limit of {MAX_APPEND_BYTES}", hint="Write fewer rows at once.")
    return data
