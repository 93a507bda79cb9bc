"""A record's trace is the same wherever the record is copied to, and another one after Fluss lost it and wrote another in its place."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from support.clusters.fluss_owner import opened_source
from support.clusters.fluss_server import kill_with_notes, noted_end
from support.clusters.fluss_tables import FlussTables
from support.running.processes import wait_for
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.cluster.fluss.log.bucket_log import BucketLog
from tiering.cluster.fluss.source import FlussSource
from tiering.model.tables import BucketKey, BucketOffsets, TableInfo

SCHEMA = pa.schema({"n": pa.int64(), "text": pa.string()})
B0, B1 = BucketKey(None, 0), BucketKey(None, 1)
NUMBERS = itertools.count()


def batch(start: int, stop: int) -> pa.RecordBatch:
    return pa.record_batch({"n": np.arange(start, stop), "text": [f"some text of row {number}" for number in range(start, stop)]}, SCHEMA)


@pytest.fixture
def source(cluster: LocalFlussCluster) -> Iterator[FlussSource]:
    with opened_source(cluster.bootstrap_servers) as source:
        yield source


def traces(source: FlussSource, table: TableInfo, *offsets: int) -> list[str | None]:
    return [source.record_traces(table, {B0: offset}).get(B0) for offset in offsets]


def test_a_record_is_known_by_the_same_when_its_segment_is_remote(tables: FlussTables, source: FlussSource) -> None:
    table = tables.create("traced", SCHEMA, properties={"table.log.arrow.compression.type": "NONE"})
    for first in range(0, 20_000, 500):
        tables.append(table, [batch(first, first + 500)])
    before = traces(source, table, 1, 500, 501, 20_000)
    log = BucketLog(tables.client, table.path, table.table_id, B0)
    wait_for("the first segment to be remote", lambda: log.fetch(0, 1, 1_000)[1].HasField("remote_log_fetch_info"))
    assert traces(source, table, 1, 500, 501, 20_000) == before
    assert before[0] == before[1]  # of one record batch
    assert len(set(before)) == 3
    assert None not in before


def test_records_that_are_not_there_have_nothing_that_they_are_known_by(tables: FlussTables, source: FlussSource) -> None:
    table = tables.create(f"short_{next(NUMBERS)}", SCHEMA, buckets=2)  # it may run again (`support.running.fluss_health`)
    tables.append(table, [batch(0, 10)])
    log = {bucket: BucketLog(tables.client, table.path, table.table_id, bucket).bounds().log_end for bucket in (B0, B1)}
    (filled,) = [bucket for bucket, end in log.items() if end]
    assert set(source.record_traces(table, {filled: 10})) == {filled}
    assert source.record_traces(table, {filled: 11}) == {}


def test_a_record_in_the_place_of_a_lost_one_has_another_trace(
    tables: FlussTables, cluster: LocalFlussCluster, source: FlussSource
) -> None:
    table = tables.create("cut", SCHEMA)
    for first in (0, 40, 80):
        tables.append(table, [batch(first, first + 40)])
    wait_for("the log's end is noted", lambda: noted_end(cluster, 0, table) == 120)
    before = traces(source, table, 40, 80, 120)
    kill_with_notes(cluster, 0, table, 40)
    cluster.wait_ready()
    log = BucketLog(tables.client, table.path, table.table_id, B0)
    assert log.bounds() == BucketOffsets(0, 40)
    tables.append(table, [batch(40, 140)])
    after = traces(source, table, 40, 80, 120)
    assert after[0] == before[0]
    assert None not in after
    assert set(after[1:]).isdisjoint(before[1:])
