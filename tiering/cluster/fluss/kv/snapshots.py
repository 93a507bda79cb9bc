"""Looks up the KV snapshots of a Fluss cluster and their metadata."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tiering.cluster.fluss.kv.snapshot_files import SnapshotFile
from tiering.cluster.fluss.kv.snapshot_reader import FlussSnapshotReader, ValueFormat
from tiering.cluster.fluss.wire.api import path_to_pb
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.errors import ClusterUnavailable, KvSnapshotGone, UnknownPartition, UnknownTable
from tiering.model.leases import KvSnapshot
from tiering.model.splits import TieringSnapshotSplit
from tiering.model.tables import BucketKey, Partition, TableBucket, TableInfo, TableType
from tiering.rpc.fluss import fluss_pb2 as pb

_CALLS_AT_ONCE = 8
"""Maximum number of concurrent calls about partitions or snapshots; each answer takes a millisecond or two."""


def newest_kv_snapshots(
    client: FlussClient, table: TableInfo, partitions: Callable[[], Sequence[Partition]]
) -> Mapping[BucketKey, KvSnapshot]:
    """Returns the newest KV snapshot of each bucket; `partitions` lists the table's present partitions.

    Returns nothing for a table with an unknown format of values, which is read from its log. Raises UnknownTable, ClusterUnavailable.
    """
    if table.table_type is TableType.LOG or ValueFormat.of(table.properties) is None:
        return {}
    if not table.partition_keys:
        return dict(_bucket_snapshots(client, table, None))
    snapshots: dict[BucketKey, KvSnapshot] = {}
    with ThreadPoolExecutor(_CALLS_AT_ONCE) as pool:
        for answers in pool.map(lambda partition: _partition_snapshots(client, table, partition, partitions), partitions()):
            snapshots.update(answers)
    return snapshots


def _metadata(client: FlussClient, place: TableBucket, snapshot_id: int) -> Any:
    """Returns the GetKvSnapshotMetadataResponse. Raises KvSnapshotGone if the cluster does not have it (any more), ClusterUnavailable."""
    request = pb.GetKvSnapshotMetadataRequest(
        table_id=place.table_id, partition_id=place.bucket.partition_id, bucket_id=place.bucket.bucket_id, snapshot_id=snapshot_id
    )
    return client.coordinator(request)


def log_offsets_of(client: FlussClient, snapshots: Mapping[TableBucket, int]) -> Mapping[TableBucket, int]:
    """Returns the log offset of each snapshot (bucket -> snapshot id), without snapshots that do not exist. Raises ClusterUnavailable."""

    def log_offset(place: TableBucket) -> int | None:
        try:
            return int(_metadata(client, place, snapshots[place]).log_offset)
        except KvSnapshotGone:
            return None

    with ThreadPoolExecutor(_CALLS_AT_ONCE) as pool:
        answers = zip(snapshots, pool.map(log_offset, snapshots), strict=True)
        return {place: offset for place, offset in answers if offset is not None}


def open_snapshot_reader(
    client: FlussClient, table: TableInfo, split: TieringSnapshotSplit, schemas: Mapping[int, bytes], storage: Mapping[str, str]
) -> FlussSnapshotReader:
    """Returns the reader of `split`. `schemas`: the JSON of each schema id of the table; `storage`: as in `open_remote`.

    Raises KvSnapshotGone, ClusterUnavailable.
    """
    metadata = _metadata(client, TableBucket(table.table_id, split.bucket), split.snapshot_id)
    files = tuple(SnapshotFile(file.remote_path, file.local_file_name) for file in metadata.snapshot_files)
    return FlussSnapshotReader(split, table.schema, schemas, files, storage, ValueFormat.of(table.properties) or ValueFormat())


def _partition_snapshots(
    client: FlussClient, table: TableInfo, partition: Partition, partitions: Callable[[], Sequence[Partition]]
) -> Collection[tuple[BucketKey, KvSnapshot]]:
    try:
        return list(_bucket_snapshots(client, table, partition))
    except (ClusterUnavailable, UnknownPartition):  # 0.9.1 answers with a generic failure for a partition that vanished
        if any(present.partition_id == partition.partition_id for present in partitions()):
            raise
        return ()


def _bucket_snapshots(client: FlussClient, table: TableInfo, partition: Partition | None) -> Iterator[tuple[BucketKey, KvSnapshot]]:
    partition_name = None if partition is None else partition.partition_name
    answer = client.coordinator(pb.GetLatestKvSnapshotsRequest(table_path=path_to_pb(table.path), partition_name=partition_name))
    if answer.table_id != table.table_id:
        raise UnknownTable(f"the table {table.path} with id {table.table_id} does not exist", table_id=table.table_id)
    if partition is not None and answer.partition_id != partition.partition_id:
        return  # another partition has its name now
    for snapshot in answer.latest_snapshots:
        if snapshot.HasField("snapshot_id"):
            bucket = BucketKey(None if partition is None else partition.partition_id, snapshot.bucket_id)
            yield bucket, KvSnapshot(snapshot.snapshot_id, snapshot.log_offset)
