"""The background's requests to the cluster, and the results that it keeps."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from support.background import tick
from support.clusters.memory_cluster import MemoryCluster, log_table
from support.worlds.coordinator_world import START, World
from tiering.coordinator.observing import lag
from tiering.coordinator.observing.lag import Lag, Observation, lag_of
from tiering.errors import ClusterUnavailable, LakeUnavailable
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, TableInfo, TablePath

TABLES = 5


class Listening(MemoryCluster):
    """Remembers what it was called; every record is as old as its offset is low. `silent` tables' times cannot be had."""

    def __init__(self, *tables: TableInfo) -> None:
        super().__init__(*tables)
        self.together: list[int] = []
        self.times: list[int] = []
        self.silent: set[int] = set()

    def offsets_of(self, tables: Sequence[TableInfo]) -> Mapping[int, Mapping[BucketKey, BucketOffsets]]:
        self.together.append(len(tables))
        return super().offsets_of(tables)

    def oldest_timestamps(self, table: TableInfo, offsets: Offsets) -> Mapping[BucketKey, datetime]:
        self.times.append(table.table_id)
        if table.table_id in self.silent:
            raise ClusterUnavailable("away")
        return {bucket: START + timedelta(seconds=offset) for bucket, offset in offsets.items()}


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(lag, "CHUNK", 2)
    monkeypatch.setattr("support.worlds.coordinator_world.MemoryCluster", Listening)
    world = World(tuple(log_table(number, TablePath("many", f"t{number}")) for number in range(1, TABLES + 1)))
    world.clock.advance(100)  # no row is from the future
    yield world
    world.coordinator.close()


def observed_table_ids(world: World) -> list[int]:
    """Tables whose times were called for since."""
    assert isinstance(world.cluster, Listening)
    times, world.cluster.times = world.cluster.times, []
    return times


def observe(world: World) -> list[int]:
    world.clock.advance(1)
    world.coordinator.observer.observe_all()
    return observed_table_ids(world)


def observed_lag(world: World, table_id: int = 1) -> Lag:
    lag_now = world.coordinator.observer.lag(world.record(world.tables[table_id - 1]))
    assert lag_now is not None
    return lag_now


def test_tables_are_asked_about_many_at_a_time_and_times_only_where_rows_are_missing(many: World) -> None:
    many.append(3, table=many.tables[2])
    assert observe(many) == [3]
    assert isinstance(many.cluster, Listening)
    assert many.cluster.together == [2, 2, 1]
    assert [observed_lag(many, number).records for number in range(1, TABLES + 1)] == [0, 0, 3, 0, 0]


def test_of_tables_with_many_buckets_fewer_are_asked_about_at_a_time(many: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(many.cluster, Listening)
    monkeypatch.setattr(lag, "CHUNK", 100)
    monkeypatch.setattr(lag, "CHUNK_BUCKETS", 4)
    observe(many)
    assert many.cluster.together == [4, 1], "how many buckets they have is not known yet"
    many.cluster.together = []
    observe(many)
    assert many.cluster.together == [2, 2, 1]


def test_the_oldest_row_is_asked_for_once_while_the_lake_stays_where_it_is(many: World) -> None:
    many.append(3)
    assert observe(many) == [1]
    first = observed_lag(many)
    assert observe(many) == []
    assert observed_lag(many) == Lag(first.records, first.size_bytes, START, first.observed_time + timedelta(seconds=1))
    many.append(4)
    assert observe(many) == []
    assert (observed_lag(many).records, observed_lag(many).oldest_time) == (7, START)


def test_it_is_asked_for_again_when_the_lake_went_on_the_log_was_cut_or_another_bucket_has_rows(many: World) -> None:
    many.append(3)
    observe(many)
    many.append(2, bucket=1)
    assert observe(many) == [1]
    many.cluster.logs[1][BucketKey(None, 0)] = (1, 3)
    many.cluster.logs[1][BucketKey(None, 1)] = (2, 2)
    assert observe(many) == [1]
    assert (observed_lag(many).records, observed_lag(many).oldest_time) == (2, START + timedelta(seconds=1))
    many.due()
    tierer = many.tierer()
    assignment = next(assignment for assignment in (tierer.get() for _ in range(TABLES)) if assignment.table_id == 1)
    tierer.commit(assignment)
    many.append(5)
    tierer.ack(assignment)
    observe(many)
    assert (observed_lag(many).records, observed_lag(many).oldest_time) == (5, START + timedelta(seconds=3))


def test_times_that_could_not_be_had_are_asked_for_again(many: World) -> None:
    assert isinstance(many.cluster, Listening)
    many.append(3)
    many.append(3, table=many.tables[1])
    many.cluster.silent = {1}
    assert observe(many) == [1, 2]
    assert many.coordinator.observer.lag(many.record()) is None
    assert observed_lag(many, 2).records == 3
    many.cluster.silent = set()
    assert observe(many) == [1]
    assert observed_lag(many).oldest_time == START


def test_some_times_are_not_taken_for_all(many: World, monkeypatch: pytest.MonkeyPatch) -> None:
    some: dict[BucketKey, datetime] = {BucketKey(None, 1): START + timedelta(seconds=9)}
    monkeypatch.setattr(many.cluster, "oldest_timestamps", lambda table, offsets: some)
    many.append(3)
    many.append(3, bucket=1)
    observe(many)
    assert observed_lag(many).oldest_time == START + timedelta(seconds=9)
    some[BucketKey(None, 0)] = START + timedelta(seconds=4)
    observe(many)
    assert observed_lag(many).oldest_time == START + timedelta(seconds=4)


def test_one_chunk_that_fails_does_not_take_the_others_along(many: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def troubled(table: TableInfo) -> Mapping[BucketKey, BucketOffsets]:
        if table.table_id in (1, 2):
            raise ClusterUnavailable("away")
        return MemoryCluster.offsets(many.cluster, table)

    monkeypatch.setattr(many.cluster, "offsets", troubled)
    observe(many)
    lags = [many.coordinator.observer.lag(many.record(table)) for table in many.tables]
    assert [entry is None for entry in lags] == [True, True, False, False, False]


def test_a_table_that_is_gone_is_forgotten(many: World) -> None:
    observe(many)
    gone = many.record()
    del many.cluster.by_path[gone.path]
    tick(many.coordinator)
    observe(many)
    assert many.coordinator.observer.lag(gone) is None


def test_the_background_rests_between_tables_and_stops_when_told_to(many: World) -> None:
    many.coordinator.observer.observe_all(iter([True, False]).__next__)
    lags = [many.coordinator.observer.lag(many.record(table)) for table in many.tables]
    assert [entry is None for entry in lags] == [False, False, True, True, True]


def test_a_look_over_many_tables_asks_nothing(many: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(many.cluster, Listening)
    records = many.coordinator.table_records.live()
    monkeypatch.setattr(lag, "ON_DEMAND_TABLES", TABLES - 1)
    many.coordinator.observer.refresh(records)
    assert many.cluster.together == []
    many.coordinator.observer.refresh(records[1:])
    assert sum(many.cluster.together) == TABLES - 1
    many.coordinator.observer.refresh(records[1:])
    assert sum(many.cluster.together) == TABLES - 1


def test_pending_counts_from_the_lake_or_from_the_logs_start() -> None:
    buckets = {BucketKey(None, 0): BucketOffsets(5, 10, 2.5), BucketKey(None, 1): BucketOffsets(0, 4, 2.5)}
    observation = Observation(START, buckets, START)
    assert (lag_of(observation, None).records, lag_of(observation, None).size_bytes) == (9, 22)
    assert lag_of(observation, {"0": 8, "1": 4}).records == 2
    done = lag_of(observation, {"0": 12, "1": 4})
    assert (done.records, done.size_bytes, done.oldest_time, done.age_ms(START)) == (0, 0, None, 0)
    unsized = replace(observation, buckets={BucketKey(None, 0): BucketOffsets(0, 1)}, oldest_time=None)
    assert (lag_of(unsized, None).size_bytes, lag_of(unsized, None).age_ms(START)) == (None, None)


def test_lag_is_never_negative() -> None:
    observation = Observation(START, {BucketKey(None, 0): BucketOffsets(0, 1, 1.0)}, START + timedelta(seconds=9))
    assert lag_of(observation, None).age_ms(START) == 0


def test_a_lake_table_that_hangs_keeps_no_log_unobserved_and_waits_apart_from_then_on(world: World) -> None:
    world.append(10)
    tierer, assignment = world.assigned()
    tierer.run(assignment)
    world.restart()
    read, hangs, called = world.lake.view, threading.Event(), threading.Event()

    def hanging_view(path: TablePath) -> None:
        called.set()
        assert hangs.wait(20)
        raise LakeUnavailable("no answer")

    world.lake.view = hanging_view  # type: ignore[method-assign]
    observer = world.coordinator.observer
    pass_over_lakes = threading.Thread(target=observer.measure_lakes)
    pass_over_lakes.start()
    assert called.wait(20)
    world.append(5)
    observer.observe_all()
    assert observer.lag(world.record()).records == 5  # type: ignore[union-attr]
    hangs.set()
    pass_over_lakes.join(20)
    looks = list[TablePath]()
    world.lake.view = lambda path: looks.append(path) or read(path)  # type: ignore[method-assign,func-returns-value]
    world.clock.advance(61)
    observer.measure_lakes()
    assert looks == []
    observer.measure_lakes(failing=True)
    assert looks == [world.table.path]
