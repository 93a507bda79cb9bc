"""The files that snapshots name are read from manifests once, and are all there however often they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyiceberg.manifest import ManifestFile

from support.lakes.lake_kit import LakeKit, bucket
from tiering.lake.iceberg.lake import IcebergLake
from tiering.lake.iceberg.reading.stored_files import NamedFiles
from tiering.model.tables import TableInfo


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The manifests that were read, in order."""
    read = list[str]()
    fetch = ManifestFile.fetch_manifest_entry

    def counting(self: ManifestFile, *arguments: Any, **options: Any) -> Any:
        read.append(self.manifest_path)
        return fetch(self, *arguments, **options)

    monkeypatch.setattr(ManifestFile, "fetch_manifest_entry", counting)
    return read


def tiered(kit: LakeKit, rounds: range) -> TableInfo:
    table = kit.table()
    for number in rounds:
        kit.tier(table, f"r{number}", {bucket(0): number * 10, bucket(1): number * 10})
    return table


def fresh(kit: LakeKit, table: TableInfo) -> set[str]:
    """Returns the files that a newly opened lake names."""
    lake = IcebergLake(kit.properties)
    view = lake.view(table.path)
    assert view is not None
    return set(lake.live_files(view))


def test_a_second_look_reads_only_manifests_that_are_new(kit: LakeKit, reads: list[str]) -> None:
    table = tiered(kit, range(1, 8))
    assert set(kit.lake.live_files(kit.view(table))) == fresh(kit, table)
    tiered(kit, range(8, 9))
    reads.clear()
    named = set(kit.lake.live_files(kit.view(table)))
    assert 1 <= len(reads) <= 2
    assert named == fresh(kit, table)


def test_what_only_expired_snapshots_named_is_not_remembered(kit: LakeKit) -> None:
    table = tiered(kit, range(1, 6))
    before = set(kit.lake.live_files(kit.view(table)))
    user = kit.catalog().load_table(str(table.path))
    first = min(user.metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0)
    user.maintenance.expire_snapshots().by_id(first.snapshot_id).commit()
    after = set(kit.lake.live_files(kit.view(table)))
    assert after == fresh(kit, table)
    assert after < before


def test_a_table_with_too_many_names_is_read_whole_each_time(kit: LakeKit, reads: list[str]) -> None:
    table = tiered(kit, range(1, 4))
    files, view = NamedFiles(3), kit.view(table)
    first, read = files.of(view), len(reads)
    assert files.of(view) == first
    assert len(reads) > read
