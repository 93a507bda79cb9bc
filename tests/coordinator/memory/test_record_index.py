"""Look-ups without a scan of all records, for records with an unusual history."""

from __future__ import annotations

from dataclasses import replace

from support.clusters.memory_cluster import log_table
from support.worlds.coordinator_world import START, World
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.memory.record_index import RecordIndex
from tiering.model.states import TableState
from tiering.model.tables import TablePath

HERE, THERE = TablePath("sales", "here"), TablePath("sales", "there")


def record(table_id: int, path: TablePath, state: TableState | None = TableState.SCHEDULED) -> TableRecord:
    return TableRecord(table_id, path.database_name, path.table_name, "LOG", "iceberg", 1_000, "", state, START)


def renew(index: RecordIndex, before: dict[int, TableRecord], *records: TableRecord) -> None:
    index.renew(records, before)
    before |= {record.table_id: record for record in records}


def test_a_path_names_the_table_that_has_it_now() -> None:
    index, before = RecordIndex(), dict[int, TableRecord]()
    renew(index, before, record(1, HERE))
    renew(index, before, record(1, HERE, None), record(2, HERE))
    assert index.by_path(HERE) == 2
    renew(index, before, record(1, HERE, None))
    assert index.by_path(HERE) == 2, "that the former one is gone is told once more"
    renew(index, before, record(2, THERE))
    assert (index.by_path(HERE), index.by_path(THERE)) == (None, 2)
    renew(index, before, record(2, HERE), record(3, THERE))
    renew(index, before, record(3, HERE), record(2, THERE))
    assert (index.by_path(HERE), index.by_path(THERE)) == (3, 2)


def test_tables_whose_latest_rounds_failed_are_counted() -> None:
    index, before = RecordIndex(), dict[int, TableRecord]()
    renew(index, before, replace(record(1, HERE), consecutive_failures=2), record(2, THERE))
    assert (len(index.failing), index.tables) == (1, 2)
    renew(index, before, record(1, HERE))
    assert (len(index.failing), index.tables) == (0, 2)
    renew(index, before, replace(record(1, HERE, None), consecutive_failures=2))
    assert (len(index.failing), index.tables) == (0, 1)


def test_only_the_thread_that_drafts_sees_the_waiting_work_of_the_draft() -> None:
    other = log_table(2, TablePath("sales", "second"))
    world = World((log_table(), other))
    table_records = world.coordinator.table_records
    with table_records.changing():
        with table_records.together():
            table_records.put(Change(replace(world.record(), state=TableState.PENDING)))
            assert [record.table_id for record in table_records.waiting()] == [1]
            assert not table_records.work_waits()
            table_records.put(
                Change(replace(world.record(), state=TableState.SCHEDULED)), Change(replace(world.record(other), state=TableState.PENDING))
            )
            assert [record.table_id for record in table_records.waiting()] == [2]
            assert [record.state for record in table_records.live()] == ["Scheduled", "Pending"]
        assert [record.table_id for record in table_records.waiting()] == [2]
        assert table_records.work_waits()
    world.coordinator.close()
