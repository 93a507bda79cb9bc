"""Log tables whose log has offsets without rows: no such offset is said to be missing, and each row that is missing still is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.lake_kinds.kinds import LAKE_KINDS, LakeKind
from support.worlds.gappy_log import gappy_world, two_rounds
from support.worlds.lake_world import LakeWorld
from support.worlds.validated import check, faults, read, rewrite
from tiering.model.tables import TableInfo
from tiering.validate.results import Level

pytestmark = pytest.mark.in_turn("kind")


@pytest.fixture(params=LAKE_KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> LakeKind:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def world(tmp_path: Path, kind: LakeKind, monkeypatch: pytest.MonkeyPatch) -> Iterator[LakeWorld]:
    lake_world = gappy_world(tmp_path, kind, monkeypatch)
    yield lake_world
    lake_world.close()


@pytest.fixture
def table(world: LakeWorld) -> TableInfo:
    return two_rounds(world)


def test_an_offset_without_a_row_is_no_fault_at_any_level(world: LakeWorld, table: TableInfo) -> None:
    for level in Level:
        assert all(result.ok for result in check(world, table, level))
    world.by_hand.rewrite(table.path)
    assert all(result.ok for result in check(world, table))


def test_a_row_that_is_missing_beside_one_is_named(world: LakeWorld, table: TableInfo, kind: LakeKind) -> None:
    [file] = [file for file in world.by_hand.data_files(table.path) if read(file)["id"].to_pylist()[0] == 2]
    rewrite(file, read(file).slice(1))  # offset 2, behind the empty 0 and 1
    named = faults(check(world, table))
    assert named
    if kind.layout.has_row_offsets:
        assert named[0] == ("rows", "0", "1 row missing")
        assert ("offsets", "0", "bucket 0: offset 2 is missing") in named


def test_with_system_columns_a_log_that_was_cut_does_not_tell_them(world: LakeWorld, table: TableInfo, kind: LakeKind) -> None:
    world.clock.advance(7_200)
    world.storage.maintenance.run()
    missing = {("rows", "0", "7 rows missing"), ("offsets", "0", "bucket 0: offset 0 is missing")}
    assert set(faults(check(world, table))) == (missing if kind.layout.has_row_offsets else set())
