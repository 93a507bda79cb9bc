"""Streaming queries over tables of a real Fluss cluster: they begin in the lake, continue in the log, and survive SIGKILL."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.clusters.fluss_tables import FlussTables
from support.running.cluster_of_processes import KEYED, SCHEMA, rows
from support.running.fluss_deployment import BY_HAND, FlussDeployment
from support.running.processes import wait_for
from support.spark.stream_driver import DriverPlan, batches, ids, run
from tiering.cli.spark.properties import CATALOG, catalog_properties, plugin_jar
from tiering.cluster.fluss.log.bucket_log import BucketLog
from tiering.model.tables import BucketKey, TableInfo

MAX_RECORDS = 25


def query_of(service: FlussDeployment, table: TableInfo, folder: Path, suffix: str = "", **options: Any) -> DriverPlan:
    """A query that has not begun."""
    name = f"{CATALOG}.{table.path.database_name}.`{table.path.table_name}{suffix}`"
    texts = {option: str(value) for option, value in options.items()}
    return DriverPlan(str(folder), name, options=texts, properties=catalog_properties(service.uri, plugin_jar()))


@pytest.mark.soak
def test_a_killed_query_continues_with_each_row_in_one_batch(service: FlussDeployment, tables: FlussTables, tmp_path: Path) -> None:
    table = tables.create("streamed", SCHEMA, buckets=3, properties=BY_HAND)
    query = query_of(service, table, tmp_path, maxRecordsPerTrigger=MAX_RECORDS)
    service.write(tables, table, 0, 60)
    service.lakeward("tier", str(table.path))
    service.write(tables, table, 60, 30)

    for start, kill in ((90, {"kill_within": 0}), (100, {"kill_before": 2}), (110, {"kill_after": 3})):
        assert run(service, query, **kill).popen.returncode == -signal.SIGKILL
        service.write(tables, table, start, 10)
        service.lakeward("tier", str(table.path))
    driver = run(service, query)

    assert driver.popen.returncode == 0, driver.output()
    assert ids(query) == list(range(120))


def test_a_changelog_streams_each_change_of_a_key(service: FlussDeployment, tables: FlussTables, tmp_path: Path) -> None:
    table = tables.create("streamed_keys", KEYED, ["id"], buckets=2, properties=BY_HAND)
    query = query_of(service, table, tmp_path, suffix="$changelog", maxRecordsPerTrigger=MAX_RECORDS)
    tables.upsert(table, [{"id": key, "text": f"old {key}"} for key in range(30)])
    service.lakeward("tier", str(table.path))
    assert run(service, query, kill_within=0).popen.returncode == -signal.SIGKILL
    tables.upsert(table, [{"id": key, "text": f"new {key}"} for key in range(5)])
    tables.delete(table, [{"id": key} for key in range(5, 8)])
    driver = run(service, query)

    assert driver.popen.returncode == 0, driver.output()
    changes = sorted((row["id"], row["_change_type"], row["text"]) for batch in batches(query).values() for row in batch)
    inserts = [(key, "+I", f"old {key}") for key in range(30)]
    updates = [change for key in range(5) for change in ((key, "-U", f"old {key}"), (key, "+U", f"new {key}"))]
    assert changes == sorted([*inserts, *updates, *((key, "-D", f"old {key}") for key in range(5, 8))])


@pytest.mark.soak
def test_rows_after_changes_begin_in_the_lake(service: FlussDeployment, tables: FlussTables, tmp_path: Path) -> None:
    table = tables.create("streamed_rows", KEYED, ["id"], buckets=2, properties=BY_HAND)
    tables.upsert(table, [{"id": key, "text": "old"} for key in range(10)])
    service.lakeward("tier", str(table.path))
    tables.upsert(table, [{"id": key, "text": "new"} for key in (3, 12)])
    query = query_of(service, table, tmp_path)
    assert run(service, query).popen.returncode == 0
    assert ids(query) == sorted([*range(10), 3, 12])
    tables.delete(table, [{"id": 4}])

    refused = run(service, query)

    assert refused.popen.returncode != 0
    assert "$changelog" in refused.output()
    assert run(service, replace(query, options={"ignoreDeletes": "true"})).popen.returncode == 0


def test_a_log_that_was_cut_behind_a_stopped_query_ends_it_with_the_offsets(
    service: FlussDeployment, tables: FlussTables, tmp_path: Path
) -> None:
    properties = {**BY_HAND, "table.log.ttl": "1 s", "table.log.arrow.compression.type": "NONE"}
    table = tables.create("cut", SCHEMA, buckets=1, properties=properties)
    query = query_of(service, table, tmp_path / "first")
    service.write(tables, table, 0, 10)
    assert run(service, query).popen.returncode == 0
    for first in range(10, 20_010, 1_000):
        tables.append(table, rows(first, 1_000).to_batches())
    service.lakeward("tier", str(table.path))
    log = BucketLog(tables.client, table.path, table.table_id, BucketKey(None, 0))
    wait_for("retention cuts the log", lambda: log.bounds().log_start > 10)

    refused = run(service, query)

    assert refused.popen.returncode != 0
    assert "[LogTruncated] bucket 0" in refused.output()
    assert "has read up to offset 10, but the log now starts at" in refused.output()
    assert ids(query) == list(range(10))
    again = query_of(service, table, tmp_path / "second")
    assert run(service, again).popen.returncode == 0
    assert ids(again) == list(range(20_010))
