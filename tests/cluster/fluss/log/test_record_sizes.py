"""Sizes of a real Fluss cluster's records, estimated from headers of their batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.message import Message

from support.clusters.fluss_owner import opened_source
from support.clusters.fluss_tables import FlussTables
from support.running.processes import wait_for
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.cluster.fluss.log.record_sizes import RecordSizes
from tiering.cluster.fluss.settings import FlussConnection, ServerAddress
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.model.tables import BucketKey, BucketOffsets, TableInfo
from tiering.planning.plan_splits import plan_round
from tiering.rpc.fluss import fluss_pb2 as pb

SCHEMA = pa.schema([("id", pa.int64()), ("noise", pa.float64())])
B0, B1 = BucketKey(None, 0), BucketKey(None, 1)
NOISE = np.random.default_rng(1)


def noise(count: int) -> pa.RecordBatch:
    """Rows that no compression makes smaller than 8 bytes."""
    return pa.record_batch([pa.array(np.arange(count)), pa.array(NOISE.random(count))], schema=SCHEMA)


def bytes_per_record(cluster: LocalFlussCluster, table: TableInfo, records: int) -> float:
    """Returns the size of a record in the server's files."""
    files = (cluster.folder / "data").rglob(f"{table.path.table_name}-{table.table_id}/log-*/*.log")
    return sum(file.stat().st_size for file in files) / records


class CountingClient(FlussClient):
    """Counts what it fetches of logs."""

    def __init__(self, connection: FlussConnection) -> None:
        super().__init__(connection)
        self.fetches = 0

    def call(self, server: ServerAddress, request: Message) -> Any:
        self.fetches += isinstance(request, pb.FetchLogRequest)
        return super().call(server, request)


def test_an_estimate_is_near_what_the_files_have(cluster: LocalFlussCluster, tables: FlussTables) -> None:
    table = tables.create("sized", SCHEMA, buckets=2, properties={"table.log.arrow.compression.type": "NONE"})
    with opened_source(cluster.bootstrap_servers) as source:
        assert {log.bytes_per_record for log in source.offsets(table).values()} == {None}
        for count in (1_000, 1_000, 1_000, 3):
            tables.append(table, [noise(count)])
        offsets = source.offsets(table)
        size = sum((log.bytes_per_record or 0) * log.log_end for log in offsets.values()) / 3_003
        assert size == pytest.approx(bytes_per_record(cluster, table, 3_003), rel=0.2)
        assert source.offsets_of([table])[table.table_id] == offsets
        plan = plan_round(table, {}, offsets, ())
        assert plan.estimated_bytes == pytest.approx(3_003 * size, rel=0.01)
        assert all((log.bytes_per_record is None) == (log.log_end == 0) for log in offsets.values())


def test_records_that_compress_well_count_what_they_take_in_memory(cluster: LocalFlussCluster, tables: FlussTables) -> None:
    table = tables.create("even", SCHEMA)
    tables.append(table, [pa.record_batch([pa.array([1] * 10_000), pa.array([2.0] * 10_000)], schema=SCHEMA)])
    assert bytes_per_record(cluster, table, 10_000) < 8
    with opened_source(cluster.bootstrap_servers) as source:
        assert source.offsets(table)[B0].bytes_per_record == 16


def test_a_log_is_looked_at_again_only_when_it_has_grown(cluster: LocalFlussCluster, tables: FlussTables) -> None:
    table = tables.create("grown", SCHEMA)
    client = CountingClient(FlussConnection.parse(cluster.bootstrap_servers))
    sizes = RecordSizes(client)
    tables.append(table, [noise(500)])
    first = sizes.sampled(table, {B0: BucketOffsets(0, 500)})
    assert client.fetches == 2  # its end and, the first time, its start
    assert sizes.sampled(table, {B0: BucketOffsets(0, 500)}) == first == sizes.attached(table, {B0: BucketOffsets(0, 500)})
    assert client.fetches == 2
    tables.append(table, [noise(500)])
    sizes.sampled(table, {B0: BucketOffsets(0, 1_000)})
    assert client.fetches == 3
    client.close()


def small_and_large() -> tuple[pa.RecordBatch, pa.RecordBatch]:
    schema = pa.schema([("id", pa.int64()), ("blob", pa.binary())])
    small = pa.record_batch([pa.array(range(100)), pa.array([b""] * 100)], schema=schema)
    return small, pa.record_batch([pa.array(range(5)), pa.array([NOISE.bytes(100_000) for _ in range(5)])], schema=schema)


def test_large_records_among_small_ones_are_not_missed_at_either_end(tables: FlussTables) -> None:
    small, large = small_and_large()
    table = tables.create("blobs", small.schema)
    sizes = RecordSizes(tables.client)

    def estimate(end: int) -> float:
        return sizes.sampled(table, {B0: BucketOffsets(0, end)})[B0].bytes_per_record or 0

    tables.append(table, [small])
    assert 0 < estimate(100) < 100
    tables.append(table, [large])
    assert estimate(105) > 4_000
    tables.append(table, [small])
    assert estimate(205) > 4_000  # what came since the last look begins with them
    tables.append(table, [small])
    assert 0 < estimate(305) < 100


def test_large_records_in_the_midst_of_a_remote_log_are_known_by_its_segments(tables: FlussTables) -> None:
    small, large = small_and_large()
    table = tables.create("moved", small.schema)
    for batch in (small, large, small, small):
        tables.append(table, [batch])

    def estimate() -> float:
        """Returns the estimate of a new client."""
        return RecordSizes(tables.client).sampled(table, {B0: BucketOffsets(0, 305)})[B0].bytes_per_record or 0

    wait_for("the large records are remote", lambda: estimate() > 1_000)


def test_what_cannot_be_learned_is_not_known_and_what_has_vanished_is_forgotten(tables: FlussTables) -> None:
    table = tables.create("unknown", SCHEMA)
    tables.append(table, [noise(10)])
    bounds = {B0: BucketOffsets(0, 10), B1: BucketOffsets(0, 10)}  # there is no second bucket
    sizes = RecordSizes(tables.client)
    sampled = sizes.sampled(table, bounds)
    assert sampled[B0].bytes_per_record
    assert sampled[B1].bytes_per_record is None
    assert sizes.attached(table, {B1: bounds[B1]}) == {B1: bounds[B1]}
    assert sizes.attached(table, bounds)[B0].bytes_per_record is None
