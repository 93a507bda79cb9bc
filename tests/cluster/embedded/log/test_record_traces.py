"""A trace distinguishes a record from any other at its offset, also after the folder was restored from an older copy and the same rows came
again."""

from __future__ import annotations

import shutil
from pathlib import Path

import sqlalchemy as sa

from support.clusters.embedded import DAYS as PARTITIONED
from support.clusters.embedded import PATH, ManualClock, days, make_table, orders
from tiering.cluster.embedded.log.log_index import SEGMENTS_BELOW
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.model.tables import BucketKey

ONLY = BucketKey(None, 0)


def test_a_record_that_is_written_again_after_a_restore_has_another_trace(tmp_path: Path) -> None:
    clock, root = ManualClock(), tmp_path / "cluster"
    with EmbeddedStorage(root, clock) as storage:
        table = make_table(storage)
        storage.append(PATH, orders(0, 10), "writer", 0)
        before = storage.record_traces(table, {ONLY: 10})
    shutil.copytree(root, tmp_path / "copy")
    with EmbeddedStorage(root, clock) as storage:
        storage.append(PATH, orders(10, 10), "writer", 1)
        lost = storage.record_traces(table, {ONLY: 20})
    with EmbeddedStorage(tmp_path / "copy", clock) as storage:
        assert storage.record_traces(table, {ONLY: 10}) == before
        assert not storage.record_traces(table, {ONLY: 20})
        storage.append(PATH, orders(10, 10), "writer", 1)
        assert storage.record_traces(table, {ONLY: 20}).keys() == lost.keys()
        assert storage.record_traces(table, {ONLY: 20}) != lost


def test_a_record_that_retention_removed_has_none(storage: EmbeddedStorage, clock: ManualClock) -> None:
    table = make_table(storage, properties={"table.log.ttl": "1 h"})
    storage.append(PATH, orders(0, 10), "writer", 0)
    clock.advance(3_601)
    storage.append(PATH, orders(10, 10), "writer", 1)
    storage.maintenance.run()
    assert not storage.record_traces(table, {ONLY: 10})
    assert storage.record_traces(table, {ONLY: 11}) == storage.record_traces(table, {ONLY: 20}) != {}


def test_each_bucket_of_each_partition_has_its_own(storage: EmbeddedStorage) -> None:
    table = make_table(storage, bucket_count=2, bucket_keys=("id",), partition_keys=("region",), schema=PARTITIONED)
    storage.append(PATH, days(*((number, region, "2024-01-01") for number in range(8) for region in ("eu", "us"))), "writer", 0)
    ends = {bucket: log.log_end for bucket, log in storage.offsets(table).items()}
    traces = storage.record_traces(table, ends)
    assert traces.keys() == ends.keys()
    assert len(ends) == 4
    assert len(set(traces.values())) == 4


def test_a_long_log_is_not_walked(storage: EmbeddedStorage) -> None:
    table = make_table(storage)
    storage.append(PATH, orders(0, 10), "writer", 0)
    with storage.metadata.read() as connection:
        places = {"table": table.table_id, "places": "[[0, 0, 10]]"}
        plan = connection.execute(sa.text(f"EXPLAIN QUERY PLAN {SEGMENTS_BELOW}"), places).all()
    looks = [row.detail for row in plan if " USING PRIMARY KEY " in row.detail]
    assert len(looks) == 2
    assert all("partition_id=? AND bucket_id=? AND starting_offset" in look for look in looks)
