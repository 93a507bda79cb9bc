"""Converts the embedded cluster's values to messages of embedded.proto, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tiering.cluster.embedded.kv.refused_records import RefusedRecord
from tiering.cluster.embedded.kv.snapshot_files import SnapshotFile, StoredSnapshot
from tiering.cluster.embedded.log.segments import Segment
from tiering.cluster.table_options import described
from tiering.cluster.writable import AppendedRange, TableSpec
from tiering.lake.table_options import shown_options
from tiering.library_guards.arrow_ipc import read_schema
from tiering.model.leases import KvSnapshot
from tiering.model.tables import BucketKey, BucketOffsets, Partition, TableInfo, TablePath, TableType
from tiering.rpc.v1 import embedded_pb2
from tiering.wire.common import bucket_from_pb, bucket_to_pb, path_from_pb, path_to_pb, time_from_pb, time_to_pb


def table_to_pb(table: TableInfo) -> embedded_pb2.PbTable:
    """Returns the message of a table. Every caller may request it, so values of options that may be secrets are hidden."""
    return embedded_pb2.PbTable(
        table_id=table.table_id,
        table_path=path_to_pb(table.path),
        table_type=table.table_type.value,
        schema=table.schema.serialize().to_pybytes(),
        bucket_count=table.bucket_count,
        bucket_keys=table.bucket_keys,
        primary_key=table.primary_key,
        partition_keys=table.partition_keys,
        properties=shown_options(table.properties),
        created_at=time_to_pb(table.created_at),
        lake_enabled_at=None if table.lake_enabled_at is None else time_to_pb(table.lake_enabled_at),
        added_columns=table.added_columns,
    )


def table_from_pb(pb: embedded_pb2.PbTable) -> TableInfo:
    table = TableInfo(
        table_id=pb.table_id,
        path=path_from_pb(pb.table_path),
        table_type=TableType(pb.table_type),
        schema=read_schema(pb.schema),
        bucket_count=pb.bucket_count,
        created_at=time_from_pb(pb.created_at),
        bucket_keys=tuple(pb.bucket_keys),
        primary_key=tuple(pb.primary_key),
        partition_keys=tuple(pb.partition_keys),
        lake_enabled_at=time_from_pb(pb.lake_enabled_at) if pb.HasField("lake_enabled_at") else None,
        added_columns=tuple(pb.added_columns),
    )
    return described(table, dict(pb.properties))


def spec_to_pb(path: TablePath, spec: TableSpec, ignore_if_exists: bool) -> embedded_pb2.CreateTableRequest:
    return embedded_pb2.CreateTableRequest(
        table_path=path_to_pb(path),
        schema=spec.schema.serialize().to_pybytes(),
        bucket_count=spec.bucket_count,
        bucket_keys=spec.bucket_keys,
        properties=spec.properties,
        ignore_if_exists=ignore_if_exists,
        primary_key=spec.primary_key,
        partition_keys=spec.partition_keys,
    )


def spec_from_pb(pb: embedded_pb2.CreateTableRequest) -> TableSpec:
    """Returns the table specification. Raises InvalidData for a schema that cannot be read."""
    return TableSpec(
        schema=read_schema(pb.schema),
        bucket_count=pb.bucket_count,
        bucket_keys=tuple(pb.bucket_keys),
        properties=dict(pb.properties),
        primary_key=tuple(pb.primary_key),
        partition_keys=tuple(pb.partition_keys),
    )


def bounds_to_pb(bucket: BucketKey, bounds: BucketOffsets) -> embedded_pb2.ListOffsetsResponse.BucketOffsets:
    return embedded_pb2.ListOffsetsResponse.BucketOffsets(
        bucket=bucket_to_pb(bucket),
        log_start_offset=bounds.log_start,
        log_end_offset=bounds.log_end,
        bytes_per_record=bounds.bytes_per_record,
    )


def bounds_from_pb(pb: embedded_pb2.ListOffsetsResponse.BucketOffsets) -> BucketOffsets:
    bytes_per_record = pb.bytes_per_record if pb.HasField("bytes_per_record") else None
    return BucketOffsets(pb.log_start_offset, pb.log_end_offset, bytes_per_record)


def partition_to_pb(partition: Partition) -> embedded_pb2.PbPartition:
    return embedded_pb2.PbPartition(partition_id=partition.partition_id, partition_name=partition.partition_name)


def range_to_pb(appended: AppendedRange) -> embedded_pb2.AppendResponse.Range:
    return embedded_pb2.AppendResponse.Range(
        bucket=bucket_to_pb(appended.bucket), starting_offset=appended.starting_offset, stopping_offset=appended.stopping_offset
    )


def range_from_pb(pb: embedded_pb2.AppendResponse.Range) -> AppendedRange:
    return AppendedRange(bucket_from_pb(pb.bucket), pb.starting_offset, pb.stopping_offset)


def snapshots_to_pb(snapshots: Mapping[BucketKey, KvSnapshot]) -> list[embedded_pb2.PbKvSnapshot]:
    return [
        embedded_pb2.PbKvSnapshot(bucket=bucket_to_pb(bucket), snapshot_id=snapshot.snapshot_id, log_offset=snapshot.log_offset)
        for bucket, snapshot in snapshots.items()
    ]


def snapshots_from_pb(pbs: Iterable[embedded_pb2.PbKvSnapshot]) -> dict[BucketKey, KvSnapshot]:
    return {bucket_from_pb(pb.bucket): KvSnapshot(pb.snapshot_id, pb.log_offset) for pb in pbs}


def stored_snapshot_to_pb(root: str, snapshot: StoredSnapshot | None) -> embedded_pb2.GetKvSnapshotResponse:
    if snapshot is None:
        return embedded_pb2.GetKvSnapshotResponse(root=root)
    return embedded_pb2.GetKvSnapshotResponse(
        root=root,
        log_offset=snapshot.log_offset,
        columns=snapshot.columns,
        files=[
            embedded_pb2.PbKvSnapshotFile(path=file.path, size_bytes=file.size_bytes, crc32=file.crc32, records=file.records)
            for file in snapshot.files
        ],
    )


def stored_snapshot_from_pb(snapshot_id: int, pb: embedded_pb2.GetKvSnapshotResponse) -> StoredSnapshot | None:
    if not pb.HasField("log_offset"):
        return None
    files = tuple(SnapshotFile(file.path, file.size_bytes, file.crc32, file.records) for file in pb.files)
    return StoredSnapshot(snapshot_id, pb.log_offset, pb.columns, files)


def segment_to_pb(segment: Segment) -> embedded_pb2.PbSegment:
    return embedded_pb2.PbSegment(
        path=segment.path,
        starting_offset=segment.starting_offset,
        stopping_offset=segment.stopping_offset,
        size_bytes=segment.size_bytes,
        crc32=segment.crc32,
        commit_timestamp_us=segment.commit_us,
        columns=segment.columns,
    )


def segment_from_pb(pb: embedded_pb2.PbSegment) -> Segment:
    return Segment(pb.path, pb.starting_offset, pb.stopping_offset, pb.size_bytes, pb.crc32, pb.commit_timestamp_us, pb.columns)


def refused_to_pb(record: RefusedRecord) -> embedded_pb2.PbRefusedRecord:
    return embedded_pb2.PbRefusedRecord(offset=record.offset, value=record.value, error=record.error, is_skipped=record.is_skipped)


def refused_from_pb(pb: embedded_pb2.PbRefusedRecord) -> RefusedRecord:
    return RefusedRecord(pb.offset, pb.value, pb.error, pb.is_skipped)
