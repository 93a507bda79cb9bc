"""KV snapshots of tables with either layout of values, from the request to the rows; a later layout is not read."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from support.clusters.fluss_rows import encode_value, write_kv_snapshot
from support.clusters.memory_cluster import log_table
from support.scripted.source import scripted_source
from tiering.cluster.fluss.source import FlussSource
from tiering.cluster.fluss.wire.api import GET_KV_SNAPSHOT_METADATA, GET_LATEST_KV_SNAPSHOTS
from tiering.model.leases import KvSnapshot
from tiering.model.splits import TieringSnapshotSplit
from tiering.model.tables import BucketKey, TableType
from tiering.rpc.fluss import fluss_pb2 as pb

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())])
TABLE = replace(log_table(buckets=1), schema=SCHEMA, table_type=TableType.PRIMARY_KEY, primary_key=("id",))
LAYOUT_VERSION = "table.kv.value-layout-version"
B0 = BucketKey(None, 0)
SNAPSHOT = KvSnapshot(7, 40)
ROWS = [(1, "a"), (2, None), (3, "c")]


@contextmanager
def served(folder: Path, tag_bytes: int) -> Iterator[FlussSource]:
    """A server with one KV snapshot, whose values have a tag of that many bytes."""
    values = [struct.pack(">q", 2**40 + row[0])[:tag_bytes] + encode_value(1, SCHEMA.types, row) for row in ROWS]
    latest = pb.GetLatestKvSnapshotsResponse(table_id=TABLE.table_id)
    latest.latest_snapshots.add(bucket_id=0, snapshot_id=SNAPSHOT.snapshot_id, log_offset=SNAPSHOT.log_offset)
    metadata = pb.GetKvSnapshotMetadataResponse(log_offset=SNAPSHOT.log_offset)
    for file in write_kv_snapshot(folder, values):
        metadata.snapshot_files.add(remote_path=file.remote_path, local_file_name=file.local_name)
    with scripted_source(TABLE, {GET_LATEST_KV_SNAPSHOTS: lambda _: latest, GET_KV_SNAPSHOT_METADATA: lambda _: metadata}) as source:
        yield source


@pytest.mark.parametrize(("properties", "tag_bytes"), [({}, 0), ({LAYOUT_VERSION: "1"}, 0), ({LAYOUT_VERSION: "2"}, 8)])
def test_the_rows_of_a_snapshot_are_read(tmp_path: Path, properties: dict[str, str], tag_bytes: int) -> None:
    table = replace(TABLE, properties=properties)
    with served(tmp_path, tag_bytes) as source:
        assert source.kv_snapshots(table) == {B0: SNAPSHOT}
        split = TieringSnapshotSplit(TABLE.path, B0, None, SNAPSHOT.snapshot_id, SNAPSHOT.log_offset, SNAPSHOT.log_offset)
        rows = pa.Table.from_batches(source.reader(table, split).read())
    assert list(zip(rows["id"].to_pylist(), rows["text"].to_pylist(), strict=True)) == ROWS


def test_a_table_with_a_later_layout_has_no_snapshot_to_read(tmp_path: Path) -> None:
    """The rounds of such a table begin with its log."""
    table = replace(TABLE, properties={LAYOUT_VERSION: "3"})
    with served(tmp_path, 8) as source:
        assert source.kv_snapshots(table) == {}
