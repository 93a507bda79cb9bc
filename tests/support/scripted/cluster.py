"""A Fluss cluster of one process that speaks the messages of 0.9 or of 1.0: no server of 1.0 can be had (docs/versions.md).

It stands for the coordinator and the only tablet server. Tests create tables, append record batches and take privileges away. `upgrade`
restarts it as 1.0, as a rolling upgrade does. What a real 1.0 server does otherwise, it cannot show.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.clusters.fluss_log import record_batch, schema_json, type_json
from support.clusters.scripted_fluss import EVERY_CALL, Refused, ScriptedFluss
from tiering.cluster.fluss.wire import api
from tiering.cluster.fluss.wire.errors import AUTHORIZATION, LAKE_SNAPSHOT_NOT_EXIST, LOG_OFFSET_OUT_OF_RANGE, TABLE_NOT_EXIST
from tiering.model.tables import BucketKey, TablePath
from tiering.rpc.fluss import fluss_pb2 as pb

INVALID_BUCKET_ROUTING = 74
UNKNOWN_TABLE_OR_BUCKET = 21
NEW_KEYS = range(1060, 1067)
"""Calls that 1.0 has and 0.9 has not."""
LAKE = {"table.datalake.enabled": "true", "table.datalake.freshness": "60 s", "table.datalake.format": "iceberg"}
HISTORICAL = "__historical__"
FIRST = BucketKey(None, 0)
"""The first bucket of a table without partitions."""


@dataclass
class ScriptedPartition:
    """A partition. `bucket_count` is its own; `remote_data_dir` None: the first directory of the cluster."""

    partition_id: int
    name: str
    bucket_count: int
    remote_data_dir: str | None = None


@dataclass
class ScriptedTable:
    """A table with its logs: the record batches of each bucket as `(start, stop, bytes)`."""

    table_id: int
    path: TablePath
    schema: pa.Schema
    bucket_count: int
    properties: dict[str, str]
    partition_keys: Sequence[str] = ()
    bucket_keys: Sequence[str] = ()
    partitions: dict[int, ScriptedPartition] = field(default_factory=dict)
    logs: dict[BucketKey, list[tuple[int, int, bytes]]] = field(default_factory=dict)
    remote_until: dict[BucketKey, int] = field(default_factory=dict)
    """Offsets up to which a bucket's log is only in remote storage."""
    has_changed_buckets: bool = False
    remote_data_dir: str | None = None
    lake_snapshots: dict[int, str] = field(default_factory=dict)
    """Paths of the registered offsets files, by lake snapshot."""

    def json(self) -> bytes:
        columns = [{"name": item.name, "data_type": type_json(item.type, item.nullable)} for item in self.schema]
        return json.dumps(
            {
                "schema": {"columns": columns},
                "partition_key": list(self.partition_keys),
                "bucket_key": list(self.bucket_keys),
                "bucket_count": self.bucket_count,
                "properties": self.properties,
                "custom_properties": {},
            }
        ).encode()

    def buckets_of(self, partition_id: int | None) -> int:
        return self.bucket_count if partition_id is None else self.partitions[partition_id].bucket_count


class ScriptedCluster(ScriptedFluss):
    """`folder` is its remote storage. `release` is "0.9" or "1.0". `denied` has (operation, path) that its user may not do."""

    def __init__(self, folder: Path, release: str = "1.0") -> None:
        self.folder = folder
        self.tables: dict[TablePath, ScriptedTable] = {}
        self.denied: set[tuple[str, TablePath]] = set()
        self.finished: list[pb.PbHeartbeatReqForTable] = []
        self.failed: list[pb.PbHeartbeatReqForTable] = []
        self.misrouted = 0
        """Number of requests that were refused because of their number of buckets."""
        self.described: list[TablePath] = []
        """The table of each GetTableInfo."""
        self.due: list[TablePath] = []
        """Tables that the next heartbeats assign."""
        self.routed: list[int | None] = []
        """The number of buckets of each request about a log that was answered; None = it had none."""
        self.lists_bucket_counts = True
        """Whether ListPartitionInfos has the number of buckets of each partition (1.0)."""
        self._offsets_files: dict[str, pb.PbTableOffsets] = {}
        self._next_id = 0
        answers = {key: getattr(self, name) for key, name in _ANSWERS.items()}
        super().__init__(versions_of(release), answers)
        self.release = release

    def upgrade(self, release: str = "1.0") -> None:
        """All servers restart in this release. Open connections end."""
        self.release, self.versions = release, versions_of(release)
        self.hang_up()

    @property
    def is_new(self) -> bool:
        return self.release == "1.0"

    # ---- Actions of clients and administrators ----

    def create(
        self, name: str, schema: pa.Schema, buckets: int = 1, properties: Mapping[str, str] | None = None, **shape: Any
    ) -> ScriptedTable:
        """A lake-enabled log table in the database `sales`."""
        table = ScriptedTable(self._id(), TablePath("sales", name), schema, buckets, {**LAKE, **(properties or {})}, **shape)
        self.tables[table.path] = table
        return table

    def drop(self, table: ScriptedTable) -> None:
        del self.tables[table.path]

    def add_partition(self, table: ScriptedTable, name: str, remote_data_dir: str | None = None) -> ScriptedPartition:
        """A partition with as many buckets as the table has now."""
        partition = ScriptedPartition(self._id(), name, table.bucket_count, remote_data_dir)
        table.partitions[partition.partition_id] = partition
        return partition

    def change_buckets(self, table: ScriptedTable, count: int) -> None:
        """ALTER TABLE ... SET ('bucket.num' = count): it counts for later partitions."""
        table.bucket_count, table.has_changed_buckets = count, True

    def append(self, table: ScriptedTable, rows: pa.RecordBatch, bucket: BucketKey = FIRST, **batch: Any) -> None:
        """One record batch with these rows at the end of a bucket's log. `batch`: more of `record_batch`. An empty one uses one offset."""
        log = table.logs.setdefault(bucket, [])
        start, offsets = log[-1][1] if log else 0, max(rows.num_rows, 1)
        log.append((start, start + offsets, record_batch(rows, start, offsets=offsets, **batch)))

    def move_to_remote(self, table: ScriptedTable, bucket: BucketKey) -> Path:
        """Moves a bucket's log to one file in the directory of its table or partition; returns the file."""
        file = self._segment(table, bucket)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"".join(data for _, _, data in table.logs[bucket]))
        table.remote_until[bucket] = table.logs[bucket][-1][1]
        return file

    def recorded(self, table: ScriptedTable) -> dict[BucketKey, int]:
        """The offsets that are registered for the newest lake snapshot."""
        if not table.lake_snapshots:
            return {}
        path = list(table.lake_snapshots.values())[-1]
        return {api.bucket_of(bucket): bucket.log_end_offset for bucket in self._offsets_files[path].bucket_offsets}

    def _id(self) -> int:
        self._next_id += 1
        return self._next_id

    def _segment(self, table: ScriptedTable, bucket: BucketKey) -> Path:
        partition = "" if bucket.partition_id is None else f"/{table.partitions[bucket.partition_id].name}"
        directory = table.remote_data_dir
        if bucket.partition_id is not None:
            directory = table.partitions[bucket.partition_id].remote_data_dir or directory
        root = Path(directory or self.folder / "remote")
        return root / f"log/sales/{table.path.table_name}{partition}/{bucket.bucket_id}/segment/{0:020d}.log"

    # ---- Answers ----

    def _check(self, operation: str, path: TablePath) -> None:
        if (operation, path) in self.denied:
            raise Refused(
                AUTHORIZATION,
                f"Principal FlussPrincipal{{name='lakeward', type='User'}} have no authorization to operate {operation} on resource "
                f"Resource{{type=TABLE, name='{path}'}} ",
            )

    def _table(self, message: Any) -> ScriptedTable:
        path = TablePath(message.database_name, message.table_name)
        self._check("DESCRIBE", path)
        if path not in self.tables:
            raise Refused(TABLE_NOT_EXIST, f"Table {path} does not exist.")
        return self.tables[path]

    def _by_id(self, table_id: int, operation: str) -> ScriptedTable:
        for table in self.tables.values():
            if table.table_id == table_id:
                self._check(operation, table.path)
                return table
        raise Refused(UNKNOWN_TABLE_OR_BUCKET, f"unknown table {table_id}")

    def _visible_tables(self) -> Iterator[ScriptedTable]:
        return (table for path, table in self.tables.items() if ("DESCRIBE", path) not in self.denied)

    def _list_databases(self, _: pb.ListDatabasesRequest) -> pb.ListDatabasesResponse:
        return pb.ListDatabasesResponse(database_name=sorted({table.path.database_name for table in self._visible_tables()}))

    def _list_tables(self, request: pb.ListTablesRequest) -> pb.ListTablesResponse:
        paths = (table.path for table in self._visible_tables())
        return pb.ListTablesResponse(table_name=[path.table_name for path in paths if path.database_name == request.database_name])

    def _metadata(self, request: pb.MetadataRequest) -> pb.MetadataResponse:
        host, port = self._server.server_address
        node = pb.PbServerNode(node_id=0, host=str(host), port=port)
        answer = pb.MetadataResponse(coordinator_server=node, tablet_servers=[node])
        for path in request.table_path:
            table = self.tables.get(TablePath(path.database_name, path.table_name))
            if table is None:
                raise Refused(-1, "no such table")
            if ("DESCRIBE", table.path) in self.denied:
                continue
            described = answer.table_metadata.add(
                table_path=path, table_id=table.table_id, schema_id=1, table_json=table.json(), created_time=1, modified_time=1
            )
            if not table.partition_keys:
                _lead(described.bucket_metadata, table.bucket_count)
        for table in self._visible_tables():
            for partition_id in set(request.partitions_id) & table.partitions.keys():
                partition = table.partitions[partition_id]
                message = answer.partition_metadata.add(table_id=table.table_id, partition_name=partition.name, partition_id=partition_id)
                _lead(message.bucket_metadata, partition.bucket_count)
                if self.is_new:
                    message.bucket_count = partition.bucket_count
        return answer

    def _get_table_info(self, request: pb.GetTableInfoRequest) -> pb.GetTableInfoResponse:
        self.described.append(TablePath(request.table_path.database_name, request.table_path.table_name))
        table = self._table(request.table_path)
        answer = pb.GetTableInfoResponse(table_id=table.table_id, schema_id=1, table_json=table.json(), created_time=1, modified_time=1)
        if self.is_new and table.remote_data_dir is not None:
            answer.remote_data_dir = table.remote_data_dir
        return answer

    def _get_table_schema(self, request: pb.GetTableSchemaRequest) -> pb.GetTableSchemaResponse:
        return pb.GetTableSchemaResponse(schema_id=1, schema_json=schema_json(self._table(request.table_path).schema))

    def _list_partitions(self, request: pb.ListPartitionInfosRequest) -> pb.ListPartitionInfosResponse:
        table, answer = self._table(request.table_path), pb.ListPartitionInfosResponse()
        for partition in table.partitions.values():
            if partition.name == HISTORICAL and not request.include_system_partitions:
                continue
            spec = pb.PbPartitionSpec()
            for key, value in zip(table.partition_keys, partition.name.split("$"), strict=True):
                spec.partition_key_values.add(key=key, value=value)
            message = answer.partitions_info.add(partition_id=partition.partition_id, partition_spec=spec)
            if self.is_new and self.lists_bucket_counts:
                message.bucket_count = partition.bucket_count
            if self.is_new and partition.remote_data_dir is not None:
                message.remote_data_dir = partition.remote_data_dir
        return answer

    def _check_routing(self, table: ScriptedTable, partition_id: int | None, message: Any) -> None:
        routed = message.routing_bucket_count if message.HasField("routing_bucket_count") else None
        if self.is_new and table.has_changed_buckets and routed != table.buckets_of(partition_id):
            self.misrouted += 1
            raise Refused(INVALID_BUCKET_ROUTING, f"the request was routed with {routed} buckets")
        self.routed.append(routed)

    def _list_offsets(self, request: pb.ListOffsetsRequest) -> pb.ListOffsetsResponse:
        table = self._by_id(request.table_id, "DESCRIBE" if self.is_new else "")
        partition_id = request.partition_id if request.HasField("partition_id") else None
        self._check_routing(table, partition_id, request)
        answer = pb.ListOffsetsResponse()
        for bucket_id in request.bucket_id:
            if bucket_id >= table.buckets_of(partition_id):
                answer.buckets_resp.add(bucket_id=bucket_id, error_code=UNKNOWN_TABLE_OR_BUCKET, error_message="unknown bucket")
                continue
            log = table.logs.get(BucketKey(partition_id, bucket_id), [])
            answer.buckets_resp.add(bucket_id=bucket_id, offset=log[-1][1] if log and request.offset_type else 0)
        return answer

    def _fetch_log(self, request: pb.FetchLogRequest) -> pb.FetchLogResponse:
        answer = pb.FetchLogResponse()
        for of_table in request.tables_req:
            part = answer.tables_resp.add(table_id=of_table.table_id)
            for bucket_request in of_table.buckets_req:
                bucket = api.bucket_of(bucket_request)
                content = part.buckets_resp.add(partition_id=bucket.partition_id, bucket_id=bucket.bucket_id)
                try:
                    table = self._by_id(of_table.table_id, "READ")
                    self._check_routing(table, bucket.partition_id, bucket_request)
                    self._fetch(table, bucket, bucket_request.fetch_offset, content)
                except Refused as refusal:
                    content.error_code, content.error_message = refusal.code, str(refusal)
        return answer

    def _fetch(self, table: ScriptedTable, bucket: BucketKey, offset: int, content: pb.PbFetchLogRespForBucket) -> None:
        log = table.logs.get(bucket, [])
        content.high_watermark = log[-1][1] if log else 0
        if offset > content.high_watermark:
            raise Refused(LOG_OFFSET_OUT_OF_RANGE, f"offset {offset} is out of range")
        if offset < table.remote_until.get(bucket, 0):
            file, info = self._segment(table, bucket), content.remote_log_fetch_info
            info.remote_log_tablet_dir, info.first_start_pos = str(file.parent.parent), 0
            info.remote_log_segments.add(
                remote_log_segment_id=file.parent.name,
                remote_log_start_offset=0,
                remote_log_end_offset=table.remote_until[bucket],
                segment_size_in_bytes=file.stat().st_size,
            )
            return
        content.records = b"".join(data for _, stop, data in log if stop > offset)

    def _latest_kv_snapshots(self, request: pb.GetLatestKvSnapshotsRequest) -> pb.GetLatestKvSnapshotsResponse:
        return pb.GetLatestKvSnapshotsResponse(table_id=self._table(request.table_path).table_id)

    def _get_lake_snapshot(self, request: pb.GetLakeSnapshotRequest) -> pb.GetLakeSnapshotResponse:
        table = self._table(request.table_path)
        snapshot_id = request.snapshot_id if request.HasField("snapshot_id") else next(reversed(table.lake_snapshots), None)
        if snapshot_id not in table.lake_snapshots:
            raise Refused(LAKE_SNAPSHOT_NOT_EXIST, "no lake snapshot")
        answer = pb.GetLakeSnapshotResponse(table_id=table.table_id, snapshot_id=snapshot_id)
        for bucket in self._offsets_files[table.lake_snapshots[snapshot_id]].bucket_offsets:
            answer.bucket_snapshots.add(
                partition_id=bucket.partition_id if bucket.HasField("partition_id") else None,
                bucket_id=bucket.bucket_id,
                log_offset=bucket.log_end_offset,
            )
        return answer

    def _prepare(self, request: pb.PrepareLakeTableSnapshotRequest) -> pb.PrepareLakeTableSnapshotResponse:
        answer = pb.PrepareLakeTableSnapshotResponse()
        for offsets in request.bucket_offsets:
            table = self._table(offsets.table_path)
            root = Path(table.remote_data_dir or self.folder / "remote")
            file = root / f"lake/{table.path.database_name}/{table.path.table_name}-{table.table_id}/metadata/{uuid.uuid4()}.offsets"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(offsets.SerializeToString())
            self._offsets_files[str(file)] = offsets
            answer.prepare_lake_table_resp.add(table_id=table.table_id, lake_table_offsets_path=str(file))
        return answer

    def _commit_lake(self, request: pb.CommitLakeTableSnapshotRequest) -> pb.CommitLakeTableSnapshotResponse:
        answer = pb.CommitLakeTableSnapshotResponse()
        for metadata in request.lake_table_snapshot_metadata:
            table = self._by_id(metadata.table_id, "")
            table.lake_snapshots[metadata.snapshot_id] = metadata.tiered_bucket_offsets_file_path
            kept = metadata.earliest_snapshot_id_to_keep
            while kept in table.lake_snapshots and kept != (oldest := next(iter(table.lake_snapshots))):
                Path(table.lake_snapshots.pop(oldest)).unlink()
            answer.table_resp.add(table_id=metadata.table_id)
        return answer

    def _heartbeat(self, request: pb.LakeTieringHeartbeatRequest) -> pb.LakeTieringHeartbeatResponse:
        answer = pb.LakeTieringHeartbeatResponse(coordinator_epoch=1)
        self.finished += request.finished_tables
        self.failed += request.failed_tables
        for rows, into in (
            (request.tiering_tables, answer.tiering_table_resp),
            (request.finished_tables, answer.finished_table_resp),
            (request.failed_tables, answer.failed_table_resp),
        ):
            for row in rows:
                into.add(table_id=row.table_id)
        if request.request_table and self.due:
            table = self.tables[self.due.pop(0)]
            answer.tiering_table.CopyFrom(
                pb.PbLakeTieringTableInfo(table_id=table.table_id, table_path=api.path_to_pb(table.path), tiering_epoch=self._id())
            )
        return answer


def versions_of(release: str) -> Mapping[int, tuple[int, int]]:
    """The versions in the answer to ApiVersions of a server of the release."""
    if release == "0.9":
        return EVERY_CALL
    return {**EVERY_CALL, api.GET_KV_SNAPSHOT_METADATA.key: (0, 1), api.ALTER_TABLE.key: (0, 1), **dict.fromkeys(NEW_KEYS, (0, 0))}


def _lead(buckets: Any, count: int) -> None:
    for bucket_id in range(count):
        buckets.add(bucket_id=bucket_id, leader_id=0, replica_id=[0])


_ANSWERS = {
    api.LIST_DATABASES.key: "_list_databases",
    api.LIST_TABLES.key: "_list_tables",
    api.METADATA.key: "_metadata",
    api.GET_TABLE_INFO.key: "_get_table_info",
    api.GET_TABLE_SCHEMA.key: "_get_table_schema",
    api.LIST_PARTITION_INFOS.key: "_list_partitions",
    api.LIST_OFFSETS.key: "_list_offsets",
    api.FETCH_LOG.key: "_fetch_log",
    api.GET_LATEST_KV_SNAPSHOTS.key: "_latest_kv_snapshots",
    api.GET_LAKE_SNAPSHOT.key: "_get_lake_snapshot",
    api.PREPARE_LAKE_TABLE_SNAPSHOT.key: "_prepare",
    api.COMMIT_LAKE_TABLE_SNAPSHOT.key: "_commit_lake",
    api.LAKE_TIERING_HEARTBEAT.key: "_heartbeat",
}
