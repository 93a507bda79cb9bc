"""Batches of streams over tables of a real Fluss cluster, as the service plans them for Spark: from the lake on, and from offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from support.clusters.fluss_tables import FlussTables
from support.fresh.held_logs import rows_of
from support.running.cluster_of_processes import KEYED, SCHEMA, rows
from support.running.fluss_deployment import BY_HAND, FlussDeployment
from support.running.processes import wait_for
from tiering.cluster.fluss.log.bucket_log import BucketLog
from tiering.errors import InvalidArgument, LogTruncated
from tiering.model.tables import BucketKey
from tiering.union_read.streams.batches import StreamOptions
from tiering.union_read.streams.client import StreamClient
from tiering.union_read.streams.offsets import BEGINNING

MAX_RECORDS = 25


@dataclass
class Query:
    """A query that stores each batch and its end, as a checkpoint does. Each batch runs twice."""

    service: FlussDeployment
    options: StreamOptions
    columns: Sequence[str] = ("id", "text")
    offset: str | None = None

    def batch(self, max_records: int | None = None) -> list[tuple[Any, ...]]:
        """Returns the rows of the next batch; none = there is nothing new. Fails if they differ when the batch runs again."""
        client = StreamClient(self.service.uri, self.options, "query of tests")
        end = client.next_batch(self.offset, max_records)
        if end == self.offset:
            return []
        first, second = (self._rows(client, end) for _ in range(2))
        assert first == second
        self.offset = end
        return first

    def all_batches(self, max_records: int | None = None) -> list[list[tuple[Any, ...]]]:
        """Returns the rows of all batches until nothing is left."""
        batches = []
        while batch := self.batch(max_records):
            batches.append(batch)
        return batches

    def _rows(self, client: StreamClient, end: str) -> list[tuple[Any, ...]]:
        return rows_of(client.plan_batch(self.offset or BEGINNING, end, self.columns))


def test_a_stream_has_each_row_in_one_batch_beside_rounds_and_a_killed_service(service: FlussDeployment, tables: FlussTables) -> None:
    table = tables.create("streamed", SCHEMA, buckets=3, properties=BY_HAND)
    service.write(tables, table, 0, 60)
    service.lakeward("tier", str(table.path))
    service.write(tables, table, 60, 30)
    query = Query(service, StreamOptions(table.path))
    read = query.batch(MAX_RECORDS)
    assert {number for number, _ in read} <= set(range(60))  # the files of the lake come first
    service.write(tables, table, 90, 30)
    service.lakeward("tier", str(table.path))
    read += query.batch(MAX_RECORDS)
    port = service.port
    service.kill_coordinator()
    service.start_coordinator(port=port)

    batches = query.all_batches(MAX_RECORDS)

    assert all(len(batch) <= MAX_RECORDS for batch in batches)
    read += [row for batch in batches for row in batch]
    assert sorted(read) == sorted((number, f"row {number}") for number in range(120))


def test_a_changelog_streams_each_change_and_rows_refuse_a_deletion(service: FlussDeployment, tables: FlussTables) -> None:
    table = tables.create("streamed_keys", KEYED, ["id"], buckets=2, properties=BY_HAND)
    tables.upsert(table, [{"id": key, "text": f"old {key}"} for key in range(30)])
    service.lakeward("tier", str(table.path))
    changelog = Query(service, StreamOptions(table.path, changelog=True), ("id", "_change_type", "text"))
    current = Query(service, StreamOptions(table.path))
    inserts = sorted((key, "+I", f"old {key}") for key in range(30))
    assert sorted(row for batch in changelog.all_batches(MAX_RECORDS) for row in batch) == inserts
    assert current.batch() == sorted((key, f"old {key}") for key in range(30))
    tables.upsert(table, [{"id": key, "text": f"new {key}"} for key in range(5)])
    assert current.batch() == [(key, f"new {key}") for key in range(5)]
    tables.delete(table, [{"id": key} for key in range(5, 8)])

    updates = [change for key in range(5) for change in ((key, "-U", f"old {key}"), (key, "+U", f"new {key}"))]
    deletes = [(key, "-D", f"old {key}") for key in range(5, 8)]
    assert sorted(row for batch in changelog.all_batches(MAX_RECORDS) for row in batch) == sorted([*updates, *deletes])
    with pytest.raises(InvalidArgument, match="was deleted"):
        current.batch()
    current.options = StreamOptions(table.path, ignore_deletes=True)
    assert current.all_batches() == []


def test_a_log_that_was_cut_behind_a_stopped_query_is_an_error_with_the_offsets(service: FlussDeployment, tables: FlussTables) -> None:
    properties = {**BY_HAND, "table.log.ttl": "1 s", "table.log.arrow.compression.type": "NONE"}
    table = tables.create("cut", SCHEMA, buckets=1, properties=properties)
    service.write(tables, table, 0, 10)
    query = Query(service, StreamOptions(table.path))
    assert len(query.batch()) == 10
    for first in range(10, 20_010, 1_000):
        tables.append(table, rows(first, 1_000).to_batches())
    service.lakeward("tier", str(table.path))
    log = BucketLog(tables.client, table.path, table.table_id, BucketKey(None, 0))
    wait_for("retention cuts the log", lambda: log.bounds().log_start > 10)

    for _ in range(2):
        with pytest.raises(LogTruncated, match="has read up to offset 10, but the log now starts at"):
            query.batch()
    again = [number for batch in Query(service, StreamOptions(table.path)).all_batches() for number, _ in batch]
    assert sorted(again) == list(range(20_010))
