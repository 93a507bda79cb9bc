"""When the coordinator looks at the health of lake tables, and what a look may cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from support.clusters.memory_cluster import log_table
from support.worlds.coordinator_world import World
from tiering.coordinator.observing.lake_health import LakeHealthObserver
from tiering.coordinator.observing.lake_reader import Lakes
from tiering.errors import LakeUnavailable
from tiering.lake.health.measure import FilePlace, LakeMeasure, file_totals
from tiering.model.tables import TableInfo, TablePath


class MeasuredTables:
    """A lake whose tables take `seconds` to look at; `broken` ones cannot be read."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.looks: list[str] = []
        self.broken: set[str] = set()
        self.seconds = 0.0

    def view(self, path: TablePath) -> object:
        self.looks.append(path.table_name)
        self._world.clock.advance(self.seconds)
        if path.table_name in self.broken:
            raise LakeUnavailable("away")
        return object()

    def measure(self, table: TableInfo, view: object) -> LakeMeasure:
        return LakeMeasure(file_totals([FilePlace(1)], 1), len(self.looks), None, 1, 1, 1)

    def taken(self) -> list[str]:
        looks, self.looks = self.looks, []
        return looks


@pytest.fixture
def world() -> Iterator[World]:
    opened = World((log_table(1, TablePath("sales", "orders")), log_table(2, TablePath("sales", "visits"))))
    yield opened
    opened.coordinator.close()


@pytest.fixture
def lake(world: World) -> MeasuredTables:
    return MeasuredTables(world)


@pytest.fixture
def observer(world: World, lake: MeasuredTables) -> LakeHealthObserver:
    lakes = Lakes(world.cluster, cast(Any, lambda _: lake))
    return LakeHealthObserver(world.coordinator.table_records, lakes, world.coordinator.discovery)


def commit(world: World, number: int = 0) -> None:
    """A round of a table lands in the lake."""
    table = world.tables[number]
    world.append(table=table)
    world.due()
    tierer = world.tierer()
    for _ in world.tables:
        assignment = tierer.get()
        if assignment.table_id == table.table_id:
            tierer.run(assignment)
            return
        tierer.fail(assignment)
    raise AssertionError("no round of the table began")


def looks(world: World, lake: MeasuredTables, observer: LakeHealthObserver, seconds: float) -> list[str]:
    """The tables that a pass of the background looks at, so much later."""
    world.clock.advance(seconds)
    observer.observe()
    return lake.taken()


def test_a_table_is_looked_at_once_it_has_a_commit_and_again_when_its_snapshot_changed(
    world: World, lake: MeasuredTables, observer: LakeHealthObserver
) -> None:
    assert looks(world, lake, observer, 60) == []
    commit(world)
    assert looks(world, lake, observer, 0) == ["orders"]
    assert looks(world, lake, observer, 60) == []
    commit(world)
    assert looks(world, lake, observer, 60) == ["orders"]


def test_other_writers_are_noticed_after_ten_minutes(world: World, lake: MeasuredTables, observer: LakeHealthObserver) -> None:
    commit(world)
    assert looks(world, lake, observer, 0) == ["orders"]
    assert looks(world, lake, observer, 599) == []
    assert looks(world, lake, observer, 1) == ["orders"]


def test_a_table_takes_a_hundredth_of_the_time_at_most(world: World, lake: MeasuredTables, observer: LakeHealthObserver) -> None:
    lake.seconds = 5
    commit(world)
    assert looks(world, lake, observer, 0) == ["orders"]
    ended = world.clock.wall
    commit(world)
    rest = 500 - (world.clock.wall - ended).total_seconds()
    assert looks(world, lake, observer, rest - 1) == []
    assert looks(world, lake, observer, 1) == ["orders"]


def test_a_look_that_failed_keeps_the_last_observation_and_is_repeated_later(
    world: World, lake: MeasuredTables, observer: LakeHealthObserver
) -> None:
    commit(world)
    observer.observe()
    record = world.record()
    observation = observer.observation(record)
    assert observation is not None
    assert observation.health is not None
    assert (observation.observed_time, observation.health.score) == (world.clock.now(), 100)
    lake.broken = {"orders"}
    commit(world)
    lake.taken()
    assert looks(world, lake, observer, 60) == ["orders"]
    assert observer.observation(record) is observation
    assert looks(world, lake, observer, 590) == []
    lake.broken = set()
    assert looks(world, lake, observer, 10) == ["orders"]
    assert observer.observation(record) is not observation


def test_metadata_that_no_reader_expects_keeps_no_other_table_from_its_look(
    world: World, lake: MeasuredTables, observer: LakeHealthObserver, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(world, 0)
    commit(world, 1)
    measure = lake.measure

    def unexpected(table: TableInfo, view: object) -> LakeMeasure:
        if table.path.table_name == "orders":
            raise AttributeError("no such field")
        return measure(table, view)

    monkeypatch.setattr(lake, "measure", unexpected)
    observer.observe()
    assert [observer.observation(world.record(table)) is None for table in world.tables] == [True, False]


def test_a_pass_ends_when_the_service_stops(world: World, lake: MeasuredTables, observer: LakeHealthObserver) -> None:
    commit(world, 0)
    commit(world, 1)
    observer.observe(lambda: False)
    assert len(lake.taken()) == 1
    observer.observe()
    assert len(lake.taken()) == 1


def test_a_dropped_table_is_forgotten(world: World, lake: MeasuredTables, observer: LakeHealthObserver) -> None:
    commit(world)
    observer.observe()
    record = world.record()
    del world.cluster.by_path[world.tables[0].path]
    world.later(5)
    observer.observe()
    assert observer.observation(record) is None


def test_lakes_that_tell_no_health_are_left_alone(world: World) -> None:
    commit(world)
    world.coordinator.lake_health.observe()
    assert world.coordinator.lake_health.observation(world.record()) is None
