"""Metadata files that a table's commits leave: rounds delete those that fell out of the log, once they are old enough and no others."""

from __future__ import annotations

import gzip
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog

from support.lakes.lake_kit import LakeKit
from support.worlds.coordinator_world import HandClock
from tiering.lake.base import LakeView
from tiering.lake.iceberg.commit.old_metadata import DELETED_AT_ONCE, GUARD_MS, OldMetadataFiles, version_of
from tiering.lake.iceberg.lake import IcebergLake
from tiering.model.tables import BucketKey, SnapshotRetention, TableInfo

B0 = BucketKey(None, 0)
OPTIONS = {"iceberg.write.metadata.previous-versions-max": "3"}


@pytest.fixture
def clock(kit: LakeKit) -> HandClock:
    hand = HandClock()
    hand.wall = datetime.now(UTC)  # a new table's first metadata file has the machine's time
    kit.lake = IcebergLake(kit.properties, hand)
    return hand


def metadata_files(kit: Any, table: TableInfo) -> set[str]:
    folder = Path(kit.view(table).handle.metadata_location.removeprefix("file://")).parent
    return {file.name for file in folder.glob("*.metadata.json*")}


def named(view: LakeView) -> set[str]:
    table: Any = view.handle
    files = (table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log))
    return {file.rsplit("/", 1)[-1] for file in files}


def round_of(kit: Any, table: TableInfo, number: int) -> list[str]:
    """A round with the deletion that follows its ack; what that deleted."""
    base = kit.lake.ensure_table(table)
    kit.prepare(table, f"r{number}", {B0: number + 1}, view=base).commit()
    return list(kit.lake.delete_old_metadata(base, kit.view(table)))


def test_the_number_of_metadata_files_stays_bounded(kit: Any, clock: HandClock) -> None:
    table = replace(kit.table(properties=OPTIONS), snapshot_retention=SnapshotRetention(86_400_000, 2))
    for number in range(25):
        clock.advance(60)
        round_of(kit, table, number)
        assert len(metadata_files(kit, table)) <= 1 + 3 + GUARD_MS // 60_000 + 1
    assert named(kit.view(table)) <= metadata_files(kit, table)
    assert kit.offsets_in_lake(table) == [(0, offset) for offset in range(25)]


def test_young_files_wait_until_they_are_older_than_the_guard(kit: Any, clock: HandClock) -> None:
    table = kit.table(properties=OPTIONS)
    for number in range(8):
        clock.advance(1)
        assert round_of(kit, table, number) == []
    assert len(metadata_files(kit, table)) == 9
    clock.advance(GUARD_MS / 1_000)
    assert len(round_of(kit, table, 8)) == 6
    assert metadata_files(kit, table) == named(kit.view(table))


def test_versions_of_a_hadoop_catalog_stay_bounded_too(kit: Any, clock: HandClock) -> None:
    kit.properties = {"type": "hadoop", "warehouse": str(kit.folder / "warehouse")}
    kit.lake = IcebergLake(kit.properties, clock)
    table = kit.table(properties=OPTIONS)
    for number in range(8):
        clock.advance(GUARD_MS / 1_000)
        round_of(kit, table, number)
    assert len(metadata_files(kit, table)) <= 1 + 3 + 1
    assert named(kit.view(table)) <= metadata_files(kit, table)
    assert kit.view(table).marker.round_id == "r7"


@pytest.mark.parametrize("name", ["write.metadata.delete-after-commit.enabled", "gc.enabled"])
def test_a_user_keeps_them(kit: Any, clock: HandClock, name: str) -> None:
    table = kit.table(properties={**OPTIONS, f"iceberg.{name}": "false"})
    for number in range(6):
        clock.advance(600)
        assert round_of(kit, table, number) == []
    assert len(metadata_files(kit, table)) == 7


def test_commits_of_others_in_between_leave_theirs_to_the_sweep_and_nothing_that_is_named_goes(kit: Any, clock: HandClock) -> None:
    table = kit.table(properties=OPTIONS)
    round_of(kit, table, 0)
    base = kit.view(table)
    for offset in range(900, 906):
        kit.user_appends(table, offset)
    clock.advance(600)
    kit.prepare(table, "r1", {B0: 2}).commit()
    after = kit.view(table)
    kit.lake.delete_old_metadata(base, after)
    assert named(after) <= metadata_files(kit, table)
    unnamed = kit.lake.unnamed_metadata(after, kit.lake.stored_files(after))
    assert {file.name for file in unnamed} == metadata_files(kit, table) - named(after)
    assert [version_of(file.name) for file in unnamed] == sorted(version_of(file.name) or 0 for file in unnamed)


def test_a_file_above_the_newest_version_and_files_of_others_stay(kit: Any, clock: HandClock) -> None:
    table = kit.table(properties=OPTIONS)
    for number in range(6):
        round_of(kit, table, number)
    view = kit.view(table)
    newest = Path(view.handle.metadata_location.removeprefix("file://"))
    for name in ("00099-5c1ff0c6-1111-2222-3333-444444444444.metadata.json", "mine.metadata.json", "00001-x.avro", "version-hint.text"):
        (newest.parent / name).write_text("{}")
    (newest.parent / "copy").mkdir()
    (newest.parent / "copy" / "00001-5c1ff0c6-1111-2222-3333-444444444444.metadata.json").write_text("{}")
    unnamed = {file.name for file in kit.lake.unnamed_metadata(view, kit.lake.stored_files(view))}
    assert unnamed == {name for name in metadata_files(kit, table) if name.startswith("0000")} - named(view)


def test_files_of_a_table_that_was_renamed_stay_where_another_one_was_made_in_its_folder(kit: Any, clock: HandClock) -> None:
    table = kit.table(properties=OPTIONS)
    for number in range(3):
        round_of(kit, table, number)
    renamed = kit.view(table)
    path, former = (table.path.database_name, table.path.table_name), renamed.handle
    catalog = load_catalog("lake", **kit.properties)
    catalog.rename_table(path, (table.path.database_name, "renamed"))
    catalog.create_table(path, former.schema(), former.location(), former.spec(), former.sort_order(), former.properties)
    for number in range(10, 16):
        round_of(kit, table, number)
    view = kit.view(table)
    assert view.table_uuid != renamed.table_uuid
    unnamed = {file.name for file in kit.lake.unnamed_metadata(view, kit.lake.stored_files(view))}
    assert unnamed
    assert not unnamed & {location.rsplit("/", 1)[-1] for location in (former.metadata_location, *named(renamed))}


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_packed_files_go_as_others_do(kit: Any, clock: HandClock, codec: str) -> None:
    table = kit.table(properties=OPTIONS)
    for number in range(6):
        round_of(kit, table, number)
    view = kit.view(table)
    unnamed = kit.lake.unnamed_metadata(view, kit.lake.stored_files(view))
    oldest = Path(unnamed[0].location)
    if codec == "gzip":
        content = gzip.compress(oldest.read_bytes())
        oldest.unlink()
        oldest = oldest.with_name(oldest.name.replace(".metadata.json", ".gz.metadata.json"))
        oldest.write_bytes(content)
    assert oldest.name in {file.name for file in kit.lake.unnamed_metadata(view, kit.lake.stored_files(view))}


def test_a_table_that_was_set_back_to_older_metadata_loses_none(kit: Any, clock: HandClock) -> None:
    table = kit.table(properties=OPTIONS)
    for number in range(3):
        round_of(kit, table, number)
    older = kit.view(table)
    for number in range(3, 8):
        kit.tier(table, f"r{number}", {B0: number + 1})
    newer = kit.view(table)
    clock.advance(600)
    assert kit.lake.delete_old_metadata(newer, older) == []
    assert newer.handle.metadata_location.rsplit("/", 1)[-1] not in {
        file.name for file in kit.lake.unnamed_metadata(older, kit.lake.stored_files(older))
    }


def test_a_file_that_cannot_be_deleted_fails_nothing(kit: Any, clock: HandClock, monkeypatch: pytest.MonkeyPatch) -> None:
    table = kit.table(properties=OPTIONS)
    for number in range(6):
        round_of(kit, table, number)
    clock.advance(600)
    monkeypatch.setattr("tiering.lake.iceberg.catalogs.file_io.LakeFileIO.delete", lambda *_: 1 / 0)
    assert round_of(kit, table, 6) == []


def test_a_round_deletes_a_bounded_number(clock: HandClock) -> None:
    files = OldMetadataFiles(clock)
    due = files._due("uuid", [(f"file-{number}", 0) for number in range(100)])
    assert due == [f"file-{number}" for number in range(DELETED_AT_ONCE)]


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("/lake/t/metadata/00012-5c1ff0c6-1111-2222-3333-444444444444.metadata.json", 12),
        ("00012-5c1ff0c6-1111-2222-3333-444444444444.gz.metadata.json", 12),
        ("v7.metadata.json", 7),
        ("v7.metadata.json.gz", 7),
        ("5c1ff0c6-1111-2222-3333-444444444444.metadata.json", None),
        ("snap-1-0-x.avro", None),
    ],
)
def test_versions_are_read_from_names(name: str, version: int | None) -> None:
    assert version_of(name) == version
