"""The action that helps a failed table is found in time, however long the lake of another table hangs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.worlds.calling import until
from support.worlds.lake_world import LakeWorld
from tiering.coordinator.decisions.records import RepairKind
from tiering.lake.maintenance import LakeSurvey
from tiering.model.tables import TableInfo, TablePath

WAIT_S = 30


class Survey:
    """Makes surveys of one lake table hang until `answers` is set."""

    def __init__(self, world: LakeWorld, hanging: TablePath, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers = threading.Event()
        self.paths: list[TablePath] = []
        survey = world.lake.survey

        def look(path: TablePath) -> LakeSurvey | None:
            self.paths.append(path)
            assert path != hanging or self.answers.wait(WAIT_S)
            return survey(path)

        monkeypatch.setattr(world.lake, "survey", look)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    new_world = LakeWorld(tmp_path)
    yield new_world
    new_world.close()


@pytest.fixture
def tables(world: LakeWorld) -> list[TableInfo]:
    """Two that failed for good, since their lake tables are gone."""
    infos = [world.table(name) for name in ("first", "second")]
    for rows in (0, 10):
        for info in infos:
            world.append(info, rows, 10)
        world.due()
        for info in infos:
            world.begin(info).end()
            if rows == 0:
                world.iceberg_catalog().drop_table(str(info.path))
    return infos


def way_of(world: LakeWorld, info: TableInfo) -> RepairKind | None:
    error = world.record(info).error
    assert error is not None
    return None if error.way_out is None else error.way_out.kind


def is_retier_named(world: LakeWorld, info: TableInfo) -> bool:
    return way_of(world, info) is RepairKind.RETIER


@pytest.fixture
def survey(world: LakeWorld, tables: list[TableInfo], monkeypatch: pytest.MonkeyPatch) -> Iterator[Survey]:
    """The first table's lake hangs."""
    new_survey = Survey(world, tables[0].path, monkeypatch)
    yield new_survey
    new_survey.answers.set()


def test_a_lake_that_hangs_keeps_no_other_table_waiting(world: LakeWorld, tables: list[TableInfo], survey: Survey) -> None:
    first, second = tables
    for _ in range(3):
        world.coordinator.repair_inspector.inspect_all()
    asyncio.run(until(lambda: is_retier_named(world, second)))
    assert survey.paths.count(first.path) == 1, "no other look begins while one hangs"
    assert way_of(world, first) is None
    survey.answers.set()
    asyncio.run(until(lambda: is_retier_named(world, first)))  # the look that was late notes what it found


def test_a_look_that_ends_after_the_service_notes_nothing(world: LakeWorld, tables: list[TableInfo], survey: Survey) -> None:
    first, _ = tables
    world.coordinator.repair_inspector.inspect_all()
    asyncio.run(until(lambda: first.path in survey.paths))
    world.coordinator.repair_inspector.close()
    before = world.record(first)
    survey.answers.set()
    asyncio.run(until(lambda: not world.coordinator.repair_inspector._threads._tables))
    assert world.record(first) is before
