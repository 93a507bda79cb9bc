"""Work of several threads is one write: all of it is stored before any caller is answered, or all callers get the error."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from support.clusters.memory_cluster import log_table
from support.worlds.coordinator_world import World
from support.worlds.memory_store import MemoryStore
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.memory.store import Writes
from tiering.coordinator.memory.table_records import TableRecords, Work
from tiering.errors import StoreError, UnknownTable
from tiering.model.tables import TablePath

TABLES = (1, 2, 3, 4)


class HeldStore(MemoryStore):
    """Holds the next write up until it may go on; counts writes, and fails when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.writing, self.may_write = threading.Event(), threading.Event()
        self.may_write.set()
        self.writes, self.failing = 0, False

    def apply(self, coordinator_epoch: int, writes: Writes) -> None:
        self.writes += 1
        self.writing.set()
        assert self.may_write.wait(60)
        if self.failing and self.writes > 1:
            raise StoreError("the state store could not write: disk full")
        super().apply(coordinator_epoch, writes)


class CountedQueue(list[Work[Any]]):
    """Tells of each piece of work that comes."""

    def __init__(self) -> None:
        super().__init__()
        self.came = threading.Semaphore(0)

    def append(self, work: Work[Any], /) -> None:
        super().append(work)
        self.came.release()


@pytest.fixture
def scene() -> tuple[TableRecords, HeldStore]:
    store = HeldStore()
    world = World(tables=tuple(log_table(number, TablePath("sales", f"t{number}")) for number in TABLES), store=store)
    return world.coordinator.table_records, store


def count_error(records: TableRecords, table_id: int) -> int:
    """A change that another one of the same table has to see."""
    record = records.get(table_id)
    assert record is not None
    records.put(Change(replace(record, error_count=record.error_count + 1)))
    return record.error_count + 1


@contextmanager
def while_it_writes(records: TableRecords, store: HeldStore, *work: Callable[[], int]) -> Iterator[list[Future[int]]]:
    """Brings the work while the store writes the change of table 1; ends once it has written that. Futures of all of it."""
    queue = records._work = CountedQueue()
    store.writes = 0
    store.writing.clear()
    store.may_write.clear()
    with ThreadPoolExecutor(len(work) + 1) as threads:
        first = threads.submit(records.change, lambda: count_error(records, 1))
        assert store.writing.wait(60)
        others = [threads.submit(records.change, piece) for piece in work]
        for _ in range(len(work) + 1):
            assert queue.came.acquire(timeout=60)
        assert not any(future.done() for future in (first, *others))
        store.may_write.set()
        yield [first, *others]


def stored(store: HeldStore) -> dict[int, int]:
    return {record.table_id: record.error_count for record in store.load()}


def shown(records: TableRecords) -> dict[int, int]:
    return {table_id: record.error_count for table_id, record in records.all().items()}


def test_what_comes_while_the_store_writes_is_one_write(scene: tuple[TableRecords, HeldStore]) -> None:
    records, store = scene
    pieces = [lambda table_id=table_id: count_error(records, table_id) for table_id in (2, 3, 3)]
    with while_it_writes(records, store, *pieces) as futures:
        assert sorted(future.result(60) for future in futures) == [1, 1, 1, 2]
    assert store.writes == 2
    assert stored(store) == shown(records) == {1: 1, 2: 1, 3: 2, 4: 0}


def test_no_caller_is_told_of_a_change_that_was_not_stored(scene: tuple[TableRecords, HeldStore]) -> None:
    records, store = scene
    store.failing = True
    pieces = [lambda table_id=table_id: count_error(records, table_id) for table_id in (2, 3)]
    with while_it_writes(records, store, *pieces) as (first, *others):
        assert first.result(60) == 1
        for future in others:
            with pytest.raises(StoreError):
                future.result(60)
    store.failing = False
    assert stored(store) == shown(records) == {1: 1, 2: 0, 3: 0, 4: 0}
    assert records.change(lambda: count_error(records, 2)) == 1


def test_work_that_is_refused_is_refused_alone(scene: tuple[TableRecords, HeldStore]) -> None:
    records, store = scene

    def refused() -> int:
        count_error(records, 2)
        raise UnknownTable("there is no such table")

    with while_it_writes(records, store, refused, lambda: count_error(records, 3)) as (_, second, third):
        with pytest.raises(UnknownTable):
            second.result(60)
        assert third.result(60) == 1
    assert stored(store) == {1: 1, 2: 1, 3: 1, 4: 0}, "what was put before an error is stored"


def test_a_read_of_the_store_sees_what_was_put_of_its_table(scene: tuple[TableRecords, HeldStore]) -> None:
    records, _ = scene
    reads: list[list[TableRecord]] = []

    def work() -> None:
        count_error(records, 2)
        reads.append([record for record in records.store_with(3).load() if record.error_count])
        reads.append([record for record in records.store_with(2).load() if record.error_count])

    records.change(work)
    assert [[record.table_id for record in changed] for changed in reads] == [[], [2]]


def test_a_write_that_failed_half_way_fails_all_of_the_work(scene: tuple[TableRecords, HeldStore]) -> None:
    records, store = scene

    def reads() -> int:
        records.store_with(2)
        return 0

    store.failing = True
    with while_it_writes(records, store, lambda: count_error(records, 2), reads, lambda: count_error(records, 3)) as (_, *others):
        for future in others:
            with pytest.raises(StoreError):
                future.result(60)
    store.failing = False
    assert stored(store) == {1: 1, 2: 0, 3: 0, 4: 0}


def test_the_holder_of_the_lock_waits_for_no_other(scene: tuple[TableRecords, HeldStore]) -> None:
    records, store = scene
    queue = records._work = CountedQueue()
    with ThreadPoolExecutor(1) as threads:
        with records.changing():
            other = threads.submit(records.change, lambda: count_error(records, 1))
            assert queue.came.acquire(timeout=60)
            assert records.change(lambda: count_error(records, 1)) == 1
            assert stored(store)[1] == 1
        assert other.result(60) == 2
