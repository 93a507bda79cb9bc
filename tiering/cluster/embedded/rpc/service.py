"""The embedded cluster over gRPC: the servicer that the coordinator's process adds to its server.

Storage work runs in threads of its own, never on the event loop. No answer exceeds gRPC's 4 MiB: listings of tables,
partitions and segments come in pages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NoReturn, TypeVar

import grpc.aio
import structlog

from tiering.cluster.embedded.kv.refused_records import RefusedRecord
from tiering.cluster.embedded.log.segments import Segment
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.errors import LakewardError
from tiering.library_guards.arrow_ipc import WRITE_LIMITS, read_rows, read_schema
from tiering.library_guards.panics import contained
from tiering.model.names import parse_table_path
from tiering.model.tables import BucketOffsets, TableInfo
from tiering.rpc.v1 import embedded_pb2 as messages
from tiering.rpc.v1 import embedded_pb2_grpc
from tiering.wire import embedded
from tiering.wire.error_status import status_code, status_text, trailing_metadata
from tiering.wire.offsets import bucket_from_pb, bucket_to_pb, offsets_from_pb, offsets_to_pb

PRIMARY_KEY_THREADS = 4
"""Writes to primary-key tables wait for each other, and for KV snapshots: in threads of their own nobody else waits with them."""
STORAGE_THREADS = 8
"""Appends wait for the disk; a few at once share its syncs with readers of the metadata."""
SEGMENTS_PER_PAGE = 10_000
"""Some 120 bytes each."""
PARTITIONS_PER_PAGE = 2_000
"""Names of at most 803 bytes."""
TABLES_PAGE_BYTES = 2 * 1024 * 1024

_log = structlog.get_logger(__name__)
Answer = TypeVar("Answer")
Context = grpc.aio.ServicerContext[Any, Any]


def add_to_server(server: grpc.aio.Server, storage: EmbeddedStorage) -> None:
    """Makes `server` serve `storage`. The storage must stay open until the server has stopped."""
    embedded_pb2_grpc.add_EmbeddedClusterServicer_to_server(EmbeddedClusterServicer(storage), server)


class EmbeddedClusterServicer(embedded_pb2_grpc.EmbeddedClusterServicer):
    """One method an RPC: message in, storage call in a thread, message out."""

    def __init__(self, storage: EmbeddedStorage) -> None:
        self._storage = storage
        self._pool = ThreadPoolExecutor(STORAGE_THREADS, thread_name_prefix="embedded-cluster")
        self._primary_key_pool = ThreadPoolExecutor(PRIMARY_KEY_THREADS, thread_name_prefix="embedded-cluster-primary-key")

    async def _run(self, context: Context, work: Callable[[], Answer], pool: ThreadPoolExecutor | None = None) -> Answer:
        try:
            return await asyncio.get_running_loop().run_in_executor(pool or self._pool, contained(work))
        except LakewardError as error:
            await _abort(context, error, status_code(error))
        except Exception as error:
            _log.exception("embedded_cluster_call_failed")
            await _abort(context, error, grpc.StatusCode.INTERNAL)

    async def DescribeCluster(self, request: messages.DescribeClusterRequest, context: Context) -> messages.DescribeClusterResponse:
        return messages.DescribeClusterResponse(cluster_id=self._storage.cluster_id)

    async def CreateDatabase(self, request: messages.CreateDatabaseRequest, context: Context) -> messages.CreateDatabaseResponse:
        await self._run(context, partial(self._storage.create_database, request.database_name, request.ignore_if_exists))
        return messages.CreateDatabaseResponse()

    async def ListDatabases(self, request: messages.ListDatabasesRequest, context: Context) -> messages.ListDatabasesResponse:
        return messages.ListDatabasesResponse(database_names=await self._run(context, self._storage.databases))

    async def CreateTable(self, request: messages.CreateTableRequest, context: Context) -> messages.CreateTableResponse:
        def create() -> TableInfo:
            return self._storage.create_table(
                embedded.path_from_pb(request.table_path), embedded.spec_from_pb(request), request.ignore_if_exists
            )

        return messages.CreateTableResponse(table=embedded.table_to_pb(await self._run(context, create)))

    async def DropTable(self, request: messages.DropTableRequest, context: Context) -> messages.DropTableResponse:
        await self._run(context, partial(self._storage.drop_table, embedded.path_from_pb(request.table_path)))
        return messages.DropTableResponse()

    async def AlterTable(self, request: messages.AlterTableRequest, context: Context) -> messages.AlterTableResponse:
        def alter() -> TableInfo:
            added = list(read_schema(request.add_columns)) if request.add_columns else []
            return self._storage.alter_table(embedded.path_from_pb(request.table_path), dict(request.set_properties), added)

        return messages.AlterTableResponse(table=embedded.table_to_pb(await self._run(context, alter)))

    async def SetTableOption(self, request: messages.SetTableOptionRequest, context: Context) -> messages.SetTableOptionResponse:
        value = request.value if request.HasField("value") else None
        work = partial(self._storage.set_table_option, embedded.path_from_pb(request.table_path), request.name, value)
        return messages.SetTableOptionResponse(table=embedded.table_to_pb(await self._run(context, work)))

    async def ListTables(self, request: messages.ListTablesRequest, context: Context) -> messages.ListTablesResponse:
        return await self._run(context, partial(self._list_tables, request))

    def _list_tables(self, request: messages.ListTablesRequest) -> messages.ListTablesResponse:
        """A page token is the path of the last table before it; tables are sorted by path."""
        answer = messages.ListTablesResponse()
        size = 0
        after = parse_table_path(request.page_token) if request.page_token else None
        for table in self._storage.tables(request.database_name if request.HasField("database_name") else None):
            if after is not None and table.path <= after:
                continue
            message = embedded.table_to_pb(table)
            size += message.ByteSize()
            if answer.tables and size > TABLES_PAGE_BYTES:
                answer.next_page_token = str(embedded.path_from_pb(answer.tables[-1].table_path))
                break
            answer.tables.append(message)
        return answer

    async def GetTable(self, request: messages.GetTableRequest, context: Context) -> messages.GetTableResponse:
        table = await self._run(context, partial(self._storage.table, embedded.path_from_pb(request.table_path)))
        return messages.GetTableResponse(table=embedded.table_to_pb(table))

    async def ListPartitions(self, request: messages.ListPartitionsRequest, context: Context) -> messages.ListPartitionsResponse:
        work = partial(self._storage.list_partitions, request.table_id, request.after_partition_id, PARTITIONS_PER_PAGE)
        found = await self._run(context, work)
        return messages.ListPartitionsResponse(partitions=map(embedded.partition_to_pb, found), more=len(found) == PARTITIONS_PER_PAGE)

    async def DropPartition(self, request: messages.DropPartitionRequest, context: Context) -> messages.DropPartitionResponse:
        await self._run(context, partial(self._storage.drop_partition, embedded.path_from_pb(request.table_path), request.partition_name))
        return messages.DropPartitionResponse()

    async def Append(self, request: messages.AppendRequest, context: Context) -> messages.AppendResponse:
        def append() -> messages.AppendResponse:
            rows = read_rows(request.rows, WRITE_LIMITS)
            ranges = self._storage.append(embedded.path_from_pb(request.table_path), rows, request.writer_id, request.sequence)
            return messages.AppendResponse(ranges=map(embedded.range_to_pb, ranges))

        return await self._run(context, append)

    async def Upsert(self, request: messages.UpsertRequest, context: Context) -> messages.UpsertResponse:
        def upsert() -> messages.UpsertResponse:
            rows = read_rows(request.rows, WRITE_LIMITS)
            ranges = self._storage.upsert(embedded.path_from_pb(request.table_path), rows, request.writer_id, request.sequence)
            return messages.UpsertResponse(ranges=map(embedded.range_to_pb, ranges))

        return await self._run(context, upsert, self._primary_key_pool)

    async def Delete(self, request: messages.DeleteRequest, context: Context) -> messages.DeleteResponse:
        def delete() -> messages.DeleteResponse:
            keys = read_rows(request.keys, WRITE_LIMITS)
            ranges = self._storage.delete(embedded.path_from_pb(request.table_path), keys, request.writer_id, request.sequence)
            return messages.DeleteResponse(ranges=map(embedded.range_to_pb, ranges))

        return await self._run(context, delete, self._primary_key_pool)

    async def SnapshotKv(self, request: messages.SnapshotKvRequest, context: Context) -> messages.SnapshotKvResponse:
        work = partial(self._storage.take_kv_snapshots, embedded.path_from_pb(request.table_path))
        return messages.SnapshotKvResponse(snapshots=embedded.snapshots_to_pb(await self._run(context, work, self._primary_key_pool)))

    async def ListKvSnapshots(self, request: messages.ListKvSnapshotsRequest, context: Context) -> messages.ListKvSnapshotsResponse:
        found = await self._run(context, partial(self._storage.list_kv_snapshots, request.table_id))
        return messages.ListKvSnapshotsResponse(snapshots=embedded.snapshots_to_pb(found))

    async def GetKvSnapshot(self, request: messages.GetKvSnapshotRequest, context: Context) -> messages.GetKvSnapshotResponse:
        work = partial(self._storage.kv_snapshot, request.table_id, bucket_from_pb(request.bucket), request.snapshot_id)
        return embedded.stored_snapshot_to_pb(str(self._storage.root), await self._run(context, work))

    async def ListOffsets(self, request: messages.ListOffsetsRequest, context: Context) -> messages.ListOffsetsResponse:
        log = self._storage.log
        if request.HasField("bucket"):
            bucket = bucket_from_pb(request.bucket)
            bounds = await self._run(context, partial(log.bounds, request.table_id, bucket))
            offsets = {} if bounds is None else {bucket: bounds}
        else:
            offsets = await self._run(context, partial(log.offsets, request.table_id))
        return messages.ListOffsetsResponse(buckets=[embedded.bounds_to_pb(bucket, bounds) for bucket, bounds in offsets.items()])

    async def ListOldestTimestamps(
        self, request: messages.ListOldestTimestampsRequest, context: Context
    ) -> messages.ListOldestTimestampsResponse:
        work = partial(self._storage.log.oldest_timestamps, request.table_id, offsets_from_pb(request.offsets))
        return messages.ListOldestTimestampsResponse(
            timestamps=[
                messages.ListOldestTimestampsResponse.OldestTimestamp(bucket=bucket_to_pb(bucket), timestamp=embedded.time_to_pb(moment))
                for bucket, moment in (await self._run(context, work)).items()
            ]
        )

    async def ListSegments(self, request: messages.ListSegmentsRequest, context: Context) -> messages.ListSegmentsResponse:
        bucket, log = bucket_from_pb(request.bucket), self._storage.log

        def look() -> tuple[list[Segment], BucketOffsets | None, Sequence[RefusedRecord]]:
            wanted = (request.starting_offset, request.stopping_offset, SEGMENTS_PER_PAGE)
            segments, bounds = log.segments(request.table_id, bucket, *wanted), log.bounds(request.table_id, bucket)
            return segments, bounds, log.refused(request.table_id, bucket)

        segments, bounds, refused = await self._run(context, look)
        return messages.ListSegmentsResponse(
            root=str(self._storage.root),
            segments=map(embedded.segment_to_pb, segments),
            bounds=None if bounds is None else embedded.bounds_to_pb(bucket, bounds),
            refused=map(embedded.refused_to_pb, refused),
        )

    async def GetLakeSnapshot(self, request: messages.GetLakeSnapshotRequest, context: Context) -> messages.GetLakeSnapshotResponse:
        snapshot = await self._run(context, partial(self._storage.lake_record, request.table_id))
        if snapshot is None:
            return messages.GetLakeSnapshotResponse()
        return messages.GetLakeSnapshotResponse(lake_snapshot_id=snapshot.lake_snapshot_id, offsets=offsets_to_pb(snapshot.offsets))


async def _abort(context: Context, error: Exception, code: grpc.StatusCode) -> NoReturn:
    await context.abort(code, status_text(error), trailing_metadata(error))
    raise AssertionError("abort returned")
