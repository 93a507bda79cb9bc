"""`table.log.ttl`: the log begins later once its oldest segments are old, in the lake, and in no need to restore rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.clusters.changelog import rows_of
from support.clusters.embedded import PATH, ManualClock, cities, make_table, orders, scan, scan_all, split_of
from tiering.cluster.embedded.kv.state import state_file
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.errors import DataCorrupt, InvalidArgument, LogTruncated
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey, TableBucket, TableInfo

ONLY = BucketKey(None, 0)
TTL = {"table.log.ttl": "1 h"}
TIERED = TTL | {"table.datalake.enabled": "true"}


def append_each_minute(storage: EmbeddedStorage, clock: ManualClock, count: int) -> None:
    """Segments of ten records: [0, 10), [10, 20), ..."""
    for number in range(count):
        storage.append(PATH, orders(number * 10, 10), "writer", number)
        clock.advance(60)


def bounds(storage: EmbeddedStorage, table: TableInfo) -> tuple[int, int]:
    ends = storage.offsets(table)[ONLY]
    return ends.log_start, ends.log_end


def segment_files(storage: EmbeddedStorage) -> list[Path]:
    return list((storage.root / "log").glob("*/*.arrow"))


def test_whole_old_segments_are_cut_and_the_rest_stays(storage: EmbeddedStorage, clock: ManualClock) -> None:
    table = make_table(storage, properties=TTL)
    append_each_minute(storage, clock, 3)
    size = storage.offsets(table)[ONLY].bytes_per_record
    storage.maintenance.run()
    assert bounds(storage, table) == (0, 30)
    clock.advance(3_600 - 3 * 60)
    storage.maintenance.run()
    assert bounds(storage, table) == (10, 30)
    assert storage.offsets(table)[ONLY].bytes_per_record == pytest.approx(size, rel=0.1)
    assert scan_all(storage, table)["id"].to_pylist() == list(range(10, 30))
    assert len(segment_files(storage)) == 2
    with pytest.raises(LogTruncated, match="starts at offset 10, after 0"):
        scan(storage, table, 0, 0, 30)
    clock.advance(3_600)
    storage.maintenance.run()
    assert bounds(storage, table) == (30, 30)
    storage.append(PATH, orders(30, 10), "writer", 3)
    assert scan_all(storage, table)["id"].to_pylist() == list(range(30, 40))


def test_without_a_ttl_a_log_is_kept_for_ever(storage: EmbeddedStorage, clock: ManualClock) -> None:
    table = make_table(storage)
    append_each_minute(storage, clock, 1)
    clock.advance(10**8)
    storage.maintenance.run()
    assert bounds(storage, table) == (0, 10)
    with pytest.raises(InvalidArgument, match=r"table\.log\.ttl must be longer than zero"):
        storage.alter_table(PATH, {"table.log.ttl": "0"})
    storage.alter_table(PATH, TTL)
    storage.maintenance.run()
    assert bounds(storage, table) == (10, 10)


def test_what_the_lake_does_not_have_yet_stays_however_old(storage: EmbeddedStorage, clock: ManualClock) -> None:
    table = make_table(storage, properties=TIERED)
    append_each_minute(storage, clock, 3)
    clock.advance(7_200)
    storage.maintenance.run()
    assert bounds(storage, table) == (0, 30)
    storage.record_lake_snapshot(table, RecordedLakeSnapshot(7, {ONLY: 25}))
    storage.maintenance.run()
    assert bounds(storage, table) == (20, 30)


def test_the_log_of_a_primary_key_table_goes_back_to_its_oldest_snapshot(tmp_path: Path, clock: ManualClock) -> None:
    with EmbeddedStorage(tmp_path, clock) as storage:
        table = make_table(storage, primary_key=("id",), properties=TTL)
        for number in range(4):
            storage.upsert(PATH, cities((number, "a"), (9, f"{number}")), "writer", number)
            if number in (1, 2):
                storage.take_kv_snapshots(PATH)
            elif number == 0:
                storage.alter_table(PATH, {"table.kv.snapshot.interval": "10 d"})
                clock.advance(7_200)
                storage.maintenance.run()
                assert bounds(storage, table) == (0, 2)  # no snapshot yet
        clock.advance(7_200)
        storage.maintenance.run()
        assert bounds(storage, table) == (5, 11)  # what both snapshots hold is 0..5 and 0..8
        segment = min(segment_files(storage), key=lambda file: file.stat().st_mtime_ns)
    state_file(tmp_path, table.table_id).unlink()
    with EmbeddedStorage(tmp_path, clock) as storage:
        storage.upsert(PATH, cities((9, "last")), "writer", 9)
        assert rows_of(scan_all(storage, table), [(0, "a"), (1, "a"), (9, "1")]) == {0: "a", 1: "a", 2: "a", 3: "a", 9: "last"}
        assert segment.exists()


def test_the_log_of_a_tiered_primary_key_table_waits_for_the_lake_and_for_leases(storage: EmbeddedStorage, clock: ManualClock) -> None:
    table = make_table(storage, primary_key=("id",), properties=TIERED | {"table.kv.snapshot.interval": "365 d"})
    for number in range(4):  # records [0, 1), [1, 2), ...: each a segment, behind each a snapshot
        storage.upsert(PATH, cities((number, "a")), "writer", number)
        (snapshot,) = storage.take_kv_snapshots(PATH).values()
        if number == 1:
            storage.acquire_lease("lease", 86_400_000, {TableBucket(table.table_id, ONLY): snapshot.snapshot_id})
    clock.advance(7_200)
    storage.maintenance.run()
    assert bounds(storage, table) == (0, 4)  # not tiered at all
    storage.record_lake_snapshot(table, RecordedLakeSnapshot(7, {ONLY: 1}))
    storage.maintenance.run()
    assert bounds(storage, table) == (1, 4)  # tiered up to 1
    storage.record_lake_snapshot(table, RecordedLakeSnapshot(8, {ONLY: 4}))
    storage.maintenance.run()
    assert bounds(storage, table) == (2, 4)  # the leased snapshot is as of 2, and the log is read on from there
    storage.drop_lease("lease")
    for _ in range(2):  # the snapshot goes in one pass, the log behind it in the next
        storage.maintenance.run()
    assert bounds(storage, table) == (3, 4)  # the older of the two newest snapshots


def test_a_reader_that_began_before_the_cut_is_told_of_it_and_damage_stays_damage(storage: EmbeddedStorage, clock: ManualClock) -> None:
    table = make_table(storage, properties=TTL)
    append_each_minute(storage, clock, 2)

    whole = storage.reader(table, split_of(table, 0, 0, 20))
    clock.advance(3_600 - 120)
    storage.maintenance.run()
    with pytest.raises(LogTruncated, match="was cut while it was read"):
        list(whole.read())
    (left,) = segment_files(storage)
    left.unlink()
    with pytest.raises(DataCorrupt, match="the segment is missing"):
        scan(storage, table, 0, 10, 20)


def test_a_cut_survives_a_restart_and_leaves_no_files(tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedStorage(tmp_path, clock) as storage:
        table = make_table(storage, properties=TTL)
        append_each_minute(storage, clock, 3)
        clock.advance(7_200)
        with monkeypatch.context() as patch:
            patch.setattr("tiering.cluster.embedded.maintenance.remove_files", lambda *_: None)  # dies before the files are removed
            storage.maintenance.run()
        assert len(segment_files(storage)) == 3
    with EmbeddedStorage(tmp_path, clock) as storage:
        assert (bounds(storage, table), segment_files(storage)) == ((30, 30), [])
        assert (tmp_path / "log" / str(table.table_id) / "log-starts.json").exists()
