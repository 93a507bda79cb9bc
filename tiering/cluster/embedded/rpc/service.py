"""The embedded cluster over gRPC: the servicer that the coordinator's process adds to its server.

Storage work runs in separate threads, never on the event loop. No answer exceeds gRPC's 4 MiB: listings of tables, partitions and segments
are paged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import grpc.aio

from tiering.access.grants import EVERYTHING, Access, current_access
from tiering.access.privileges import SERVICE, Privilege, Resource
from tiering.cluster.embedded.kv.refused_records import RefusedRecord
from tiering.cluster.embedded.log.segments import Segment
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
    schema_to_pb,
    table_to_pb,
)
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.writable import AppendedRange, Rows
from tiering.errors import UnknownDatabase
from tiering.library_guards.arrow_ipc import WRITE_LIMITS, read_rows, read_schema
from tiering.library_guards.panics import contained
from tiering.log_context import carried
from tiering.model.names import parse_table_path
from tiering.model.schema.changes import additions
from tiering.model.tables import BucketOffsets, TableInfo, TablePath
from tiering.rpc.v1 import embedded_pb2 as pb
from tiering.rpc.v1 import embedded_pb2_grpc
from tiering.wire.model_codecs import BUCKET, OFFSETS, PATH, RECORDED_SNAPSHOT
from tiering.wire.schema_changes import changes_from_pb

PRIMARY_KEY_THREADS = 4
"""Number of threads for primary-key tables. Writes to these wait for each other and for KV snapshots; with separate threads no other call
waits with them.
"""
STORAGE_THREADS = 8
"""Number of threads for other storage work. Appends wait for the disk, so several run concurrently."""
SEGMENTS_PER_PAGE = 10_000
"""Number of segments on a page, with some 120 bytes each."""
PARTITIONS_PER_PAGE = 2_000
"""Number of partitions on a page, with names of at most 803 bytes."""
TABLES_PAGE_BYTES = 2 * 1024 * 1024

Answer = TypeVar("Answer")
Context = grpc.aio.ServicerContext[Any, Any]


def add_to_server(server: grpc.aio.Server, storage: EmbeddedStorage) -> None:
    """Makes `server` serve `storage`. The storage must stay open until the server has stopped."""
    embedded_pb2_grpc.add_EmbeddedClusterServicer_to_server(EmbeddedClusterServicer(storage), server)


class EmbeddedClusterServicer(embedded_pb2_grpc.EmbeddedClusterServicer):
    """One method for each RPC: it decodes the message, calls the storage in a thread, and encodes the answer."""

    def __init__(self, storage: EmbeddedStorage) -> None:
        self._storage = storage
        self._pool = ThreadPoolExecutor(STORAGE_THREADS, thread_name_prefix="embedded-cluster")
        self._primary_key_pool = ThreadPoolExecutor(PRIMARY_KEY_THREADS, thread_name_prefix="embedded-cluster-primary-key")

    async def _run(self, work: Callable[..., Answer], *arguments: Any, pool: ThreadPoolExecutor | None = None) -> Answer:
        """Runs `work` in a thread of the pool and returns its result. Raises its errors, with which the server's guard ends the call."""
        run = carried(contained(partial(work, *arguments)))
        return await asyncio.get_running_loop().run_in_executor(pool or self._pool, run)

    async def DescribeCluster(self, request: pb.DescribeClusterRequest, context: Context) -> pb.DescribeClusterResponse:
        return pb.DescribeClusterResponse(cluster_id=self._storage.cluster_id)

    async def CreateDatabase(self, request: pb.CreateDatabaseRequest, context: Context) -> pb.CreateDatabaseResponse:
        await self._run(self._storage.create_database, request.database_name, request.ignore_if_exists)
        return pb.CreateDatabaseResponse()

    async def ListDatabases(self, request: pb.ListDatabasesRequest, context: Context) -> pb.ListDatabasesResponse:
        access = self._listing_access()
        return pb.ListDatabasesResponse(database_names=await self._run(self._databases, access))

    def _databases(self, access: Access) -> Sequence[str]:
        """Returns the databases that the caller may describe, or of which it may see a table."""
        databases = self._storage.databases()
        if access.is_unrestricted:
            return databases
        seen_databases = {table.path.database_name for table in self._storage.tables() if access.sees(table.path)}
        return [name for name in databases if name in seen_databases or access.may(Privilege.DESCRIBE, Resource(name))]

    def _listing_access(self) -> Access:
        """Returns the caller's access for listings; a tierer may list all tables."""
        access = current_access()
        return EVERYTHING if access.may(Privilege.TIERER, SERVICE) else access

    async def CreateTable(self, request: pb.CreateTableRequest, context: Context) -> pb.CreateTableResponse:
        def create() -> TableInfo:
            return self._storage.create_table(PATH.from_pb(request.table_path), SPEC.from_pb(request), request.ignore_if_exists)

        return pb.CreateTableResponse(table=table_to_pb(await self._run(create)))

    async def DropTable(self, request: pb.DropTableRequest, context: Context) -> pb.DropTableResponse:
        await self._run(self._storage.drop_table, PATH.from_pb(request.table_path))
        return pb.DropTableResponse()

    async def AlterTable(self, request: pb.AlterTableRequest, context: Context) -> pb.AlterTableResponse:
        def alter() -> TableInfo:
            added = additions(read_schema(request.add_columns) if request.add_columns else ())
            changes = [*added, *changes_from_pb(request.changes, read_schema)]
            path, change_id = PATH.from_pb(request.table_path), request.change_id or None
            return self._storage.alter_table(path, dict(request.set_properties), changes, change_id)

        # A change of columns waits for writes to a primary-key table.
        return pb.AlterTableResponse(table=table_to_pb(await self._run(alter, pool=self._primary_key_pool)))

    async def SetTableOption(self, request: pb.SetTableOptionRequest, context: Context) -> pb.SetTableOptionResponse:
        value = request.value if request.HasField("value") else None
        path = PATH.from_pb(request.table_path)
        work = partial(self._storage.set_table_option, path, request.name, value, dry_run=request.dry_run)
        return pb.SetTableOptionResponse(table=table_to_pb(await self._run(work)))

    async def ListTables(self, request: pb.ListTablesRequest, context: Context) -> pb.ListTablesResponse:
        return await self._run(self._list_tables, request, self._listing_access())

    def _list_tables(self, request: pb.ListTablesRequest, access: Access) -> pb.ListTablesResponse:
        """Returns one page of tables. A page token is the path of the last table on the previous page; tables are sorted by path."""
        answer = pb.ListTablesResponse()
        size = 0
        after = parse_table_path(request.page_token) if request.page_token else None
        database = request.database_name if request.HasField("database_name") else None
        if database is not None and not access.is_unrestricted and database not in self._databases(access):
            raise UnknownDatabase(f"there is no database {database!r}")
        for table in self._storage.tables(database):
            if (after is not None and table.path <= after) or not access.sees(table.path):
                continue
            message = table_to_pb(table)
            size += message.ByteSize()
            if answer.tables and size > TABLES_PAGE_BYTES:
                answer.next_page_token = str(PATH.from_pb(answer.tables[-1].path))
                break
            answer.tables.append(message)
        return answer

    async def GetTable(self, request: pb.GetTableRequest, context: Context) -> pb.GetTableResponse:
        table = await self._run(self._storage.table, PATH.from_pb(request.table_path))
        return pb.GetTableResponse(table=table_to_pb(table))

    async def GetTableSchema(self, request: pb.GetTableSchemaRequest, context: Context) -> pb.GetTableSchemaResponse:
        schema = await self._run(self._storage.columns_at, request.table_id, request.schema_id)
        return pb.GetTableSchemaResponse(schema=schema_to_pb(schema))

    async def ListPartitions(self, request: pb.ListPartitionsRequest, context: Context) -> pb.ListPartitionsResponse:
        page = (request.table_id, request.after_partition_id, PARTITIONS_PER_PAGE)
        partitions = await self._run(self._storage.list_partitions, *page)
        return pb.ListPartitionsResponse(partitions=map(PARTITION.to_pb, partitions), more=len(partitions) == PARTITIONS_PER_PAGE)

    async def DropPartition(self, request: pb.DropPartitionRequest, context: Context) -> pb.DropPartitionResponse:
        await self._run(self._storage.drop_partition, PATH.from_pb(request.table_path), request.partition_name)
        return pb.DropPartitionResponse()

    async def Append(self, request: pb.AppendRequest, context: Context) -> pb.AppendResponse:
        return pb.AppendResponse(ranges=await self._write(request, request.rows, self._storage.append))

    async def Upsert(self, request: pb.UpsertRequest, context: Context) -> pb.UpsertResponse:
        return pb.UpsertResponse(ranges=await self._write(request, request.rows, self._storage.upsert, self._primary_key_pool))

    async def Delete(self, request: pb.DeleteRequest, context: Context) -> pb.DeleteResponse:
        return pb.DeleteResponse(ranges=await self._write(request, request.keys, self._storage.delete, self._primary_key_pool))

    async def _write(
        self,
        request: pb.AppendRequest | pb.UpsertRequest | pb.DeleteRequest,
        rows: bytes,
        write: Callable[[TablePath, Rows, str, int], Sequence[AppendedRange]],
        pool: ThreadPoolExecutor | None = None,
    ) -> list[pb.PbAppendedRange]:
        def work() -> list[pb.PbAppendedRange]:
            written = write(PATH.from_pb(request.table_path), read_rows(rows, WRITE_LIMITS), request.writer_id, request.sequence)
            return [APPENDED_RANGE.to_pb(appended) for appended in written]

        return await self._run(work, pool=pool)

    async def SnapshotKv(self, request: pb.SnapshotKvRequest, context: Context) -> pb.SnapshotKvResponse:
        path = PATH.from_pb(request.table_path)
        snapshots = await self._run(self._storage.take_kv_snapshots, path, pool=self._primary_key_pool)
        return pb.SnapshotKvResponse(snapshots=BUCKET_SNAPSHOTS.to_pb(snapshots))

    async def ListKvSnapshots(self, request: pb.ListKvSnapshotsRequest, context: Context) -> pb.ListKvSnapshotsResponse:
        snapshots = await self._run(self._storage.list_kv_snapshots, request.table_id)
        return pb.ListKvSnapshotsResponse(snapshots=BUCKET_SNAPSHOTS.to_pb(snapshots))

    async def GetKvSnapshot(self, request: pb.GetKvSnapshotRequest, context: Context) -> pb.GetKvSnapshotResponse:
        snapshot = await self._run(self._storage.kv_snapshot, request.table_id, BUCKET.from_pb(request.bucket), request.snapshot_id)
        stored = None if snapshot is None else STORED_SNAPSHOT.to_pb(snapshot)
        return pb.GetKvSnapshotResponse(root=str(self._storage.root), snapshot=stored)

    async def ListOffsets(self, request: pb.ListOffsetsRequest, context: Context) -> pb.ListOffsetsResponse:
        offsets = await self._run(self._storage.log.offsets, request.table_id)
        return pb.ListOffsetsResponse(buckets=BUCKET_OFFSETS.to_pb(offsets))

    async def ListOldestTimestamps(self, request: pb.ListOldestTimestampsRequest, context: Context) -> pb.ListOldestTimestampsResponse:
        timestamps = await self._run(self._storage.log.oldest_timestamps, request.table_id, OFFSETS.from_pb(request.offsets))
        return pb.ListOldestTimestampsResponse(timestamps=TIMESTAMPS.to_pb(timestamps))

    async def ListRecordTraces(self, request: pb.ListRecordTracesRequest, context: Context) -> pb.ListRecordTracesResponse:
        traces = await self._run(self._storage.log.record_traces, request.table_id, OFFSETS.from_pb(request.offsets))
        return pb.ListRecordTracesResponse(traces=TRACES.to_pb(traces))

    async def ListSegments(self, request: pb.ListSegmentsRequest, context: Context) -> pb.ListSegmentsResponse:
        bucket, log = BUCKET.from_pb(request.bucket), self._storage.log

        def read_segments() -> tuple[list[Segment], BucketOffsets | None, Sequence[RefusedRecord]]:
            page_range = (request.starting_offset, request.stopping_offset, SEGMENTS_PER_PAGE)
            segments, bounds = log.segments(request.table_id, bucket, *page_range), log.bounds(request.table_id, bucket)
            return segments, bounds, log.refused(request.table_id, bucket)

        segments, bounds, refused = await self._run(read_segments)
        return pb.ListSegmentsResponse(
            root=str(self._storage.root),
            segments=map(SEGMENT.to_pb, segments),
            bounds=None if bounds is None else LOG_OFFSETS.to_pb(bounds),
            refused=map(REFUSED_RECORD.to_pb, refused),
        )

    async def GetLakeSnapshot(self, request: pb.GetLakeSnapshotRequest, context: Context) -> pb.GetLakeSnapshotResponse:
        snapshot = await self._run(self._storage.lake_record, request.table_id)
        return pb.GetLakeSnapshotResponse(recorded=None if snapshot is None else RECORDED_SNAPSHOT.to_pb(snapshot))
