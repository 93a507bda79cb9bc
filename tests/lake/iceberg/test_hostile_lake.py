"""A lake that an attacker wrote: none of its code is run, and no file is opened outside of the lake's locations."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.manifest import clear_manifest_cache

from support.lakes.hostile_lake import EVIL, change_metadata, head_of, metadata_file, move_manifests, plant, point_catalog
from support.lakes.lake_kit import LakeKit
from support.running.watched_folder import Watch, watched
from tiering.clock import SystemClock
from tiering.errors import ForbiddenLocation
from tiering.lake.iceberg.catalogs.file_io import io_of
from tiering.lake.iceberg.catalogs.opening import STORE_TIMEOUTS
from tiering.lake.iceberg.lake import IcebergLake
from tiering.lake.marker import PATH_KEY
from tiering.model.tables import BucketKey, TableInfo, TablePath

B0 = BucketKey(None, 0)


@dataclass(frozen=True)
class Victim:
    """A tiered table, and a folder outside of its lake that no code may open."""

    kit: LakeKit
    table: TableInfo
    outside: Path
    watch: Watch
    trace: Path

    @property
    def catalog_file(self) -> Path:
        return self.kit.folder / "lake-catalog.db"

    def lake(self) -> IcebergLake:
        """Opens the lake as another process does."""
        return IcebergLake(self.kit.properties)

    def look(self) -> None:
        """Everything that reads: status, validation, offline SQL, the sweep."""
        lake = self.lake()
        view = lake.view(self.table.path)
        assert view is not None
        lake.survey(self.table.path)
        lake.columns(view)
        lake.file_lists(view, None)
        lake.live_files(view)
        lake.stored_files(view)
        lake.row_offsets(self.table, view, {})

    def unharmed(self) -> bool:
        return not self.trace.exists() and EVIL not in sys.modules and not self.watch.touched()


@pytest.fixture
def victim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Victim]:
    home, outside, code = (tmp_path / name for name in ("home", "outside", "code"))
    for folder in (home, outside, code):
        folder.mkdir()
    monkeypatch.syspath_prepend(str(code))
    kit = LakeKit(home)
    table = kit.table()
    kit.tier(table, "r1", {B0: 10})
    clear_manifest_cache()  # of pyiceberg, by path: it would hide which files are read
    with watched(outside) as watch:
        yield Victim(kit, table, outside, watch, plant(code))


PROPERTIES = {
    "py-io-impl": f"{EVIL}.Evil",
    "write.py-location-provider.impl": f"{EVIL}.Evil",
    "s3.retry-strategy-impl": f"{EVIL}.Evil",
    "write.data.path": "file://{outside}/data",
    "write.metadata.path": "file://{outside}",
    "write.object-storage.path": "file://{outside}",
    "write.folder-storage.path": "file://{outside}",
    "s3.endpoint": "http://127.0.0.1:1",
    "s3.proxy-uri": "http://127.0.0.1:1",
    "warehouse": "file://{outside}",
    "lakeward.allowed-locations": "file:///",
    "DEFAULT_SCHEME": "s3",
    "write.target-file-size-bytes": "many",
    "write.metadata.metrics.default": "truncate(x)",
    "write.object-storage.enabled": "perhaps",
    "buffer-size": "-1",
}


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_tables_properties_choose_neither_code_nor_a_place(victim: Victim, name: str) -> None:
    value = PROPERTIES[name].format(outside=victim.outside)
    change_metadata(victim.catalog_file, lambda document: document["properties"].update({name: value}))
    victim.look()
    victim.kit.lake = victim.lake()
    after = victim.kit.tier(victim.table, "r2", {B0: 25})
    table: Any = after.handle
    assert victim.kit.lake.tiering_factory(victim.table).state.storage == STORE_TIMEOUTS
    assert name == "write.target-file-size-bytes" or name not in io_of(table).properties
    assert after.marker is not None
    assert after.marker.round_id == "r2"
    files = [task.file.file_path for task in table.scan().plan_files()]
    assert all(file.startswith(f"{table.location()}/data/") for file in files)
    assert table.metadata_location.startswith(f"{table.location()}/metadata/")
    assert victim.unharmed()


def test_a_metadata_file_elsewhere_is_not_opened(victim: Victim) -> None:
    shutil.copy(metadata_file(victim.catalog_file), victim.outside / "m.metadata.json")
    point_catalog(victim.catalog_file, f"file://{victim.outside}/m.metadata.json")
    victim.watch.touched()
    with pytest.raises(ForbiddenLocation, match="outside of where its files may lie") as caught:
        victim.look()
    assert "lakeward.allowed-locations" in caught.value.hint
    assert not caught.value.retryable
    assert victim.unharmed()


ELSEWHERE = (
    "/etc/passwd",
    "file:///etc/passwd",
    "file://etc/passwd",
    "{home}/lake/../../outside/x",
    "http://127.0.0.1:1/x",
    "s3://b/x",
    "x",
    "\0",
)


@pytest.mark.parametrize("location", ELSEWHERE)
def test_a_metadata_location_that_is_no_place_of_the_lake_is_refused(victim: Victim, location: str) -> None:
    point_catalog(victim.catalog_file, location.format(home=victim.kit.folder))
    with pytest.raises(ForbiddenLocation):
        victim.look()
    assert victim.unharmed()


def test_a_database_of_the_lake_chooses_no_place_for_new_tables(victim: Victim) -> None:
    user = victim.kit.catalog()
    user.create_namespace("elsewhere", {"location": f"file://{victim.outside}"})
    table = replace(victim.table, path=TablePath("elsewhere", "t"), table_id=8)
    with pytest.raises(ForbiddenLocation):
        victim.lake().ensure_table(table)
    assert not user.table_exists("elsewhere.t")
    assert victim.unharmed()


def test_a_table_that_says_it_lies_elsewhere_is_refused(victim: Victim) -> None:
    change_metadata(victim.catalog_file, lambda document: document.update(location=f"file://{victim.outside}"))
    with pytest.raises(ForbiddenLocation):
        victim.look()
    with pytest.raises(ForbiddenLocation):
        victim.lake().ensure_table(victim.table)
    assert victim.unharmed()


def test_a_list_of_manifests_elsewhere_is_not_opened(victim: Victim) -> None:
    def change(document: dict[str, Any]) -> None:
        source = Path(head_of(document)["manifest-list"].removeprefix("file://"))
        shutil.copy(source, victim.outside / "list.avro")
        head_of(document)["manifest-list"] = f"file://{victim.outside}/list.avro"

    change_metadata(victim.catalog_file, change)
    victim.watch.touched()
    with pytest.raises(ForbiddenLocation):
        victim.look()
    with pytest.raises(ForbiddenLocation):
        victim.kit.prepare(victim.table, "r2", {B0: 25}).commit()
    assert victim.unharmed()


def test_manifests_elsewhere_are_not_opened(victim: Victim) -> None:
    move_manifests(victim.kit.catalog(), "sales.orders", victim.outside)
    clear_manifest_cache()
    victim.watch.touched()
    with pytest.raises(ForbiddenLocation):
        victim.look()
    assert victim.unharmed()


def test_a_data_file_elsewhere_is_not_opened(victim: Victim) -> None:
    user = victim.kit.catalog().load_table("sales.orders")
    [task] = user.scan().plan_files()
    copy = victim.outside / "copy.parquet"
    user.scan().to_arrow()
    shutil.copy(task.file.file_path.removeprefix("file://"), copy)
    _add_file(victim, f"file://{copy}")
    victim.watch.touched()
    lake = victim.lake()
    view = lake.view(victim.table.path)
    assert view is not None
    with pytest.raises(ForbiddenLocation):
        lake.file_lists(view, None)
    with pytest.raises(ForbiddenLocation):
        lake.row_offsets(victim.table, view, {})
    assert victim.unharmed()
    allowed = IcebergLake({**victim.kit.properties, "lakeward.allowed-locations": f"s3://other,file://{victim.outside}"})
    view = allowed.view(victim.table.path)
    assert view is not None
    assert str(copy) in [file.path for file in allowed.file_lists(view, None).data]


@pytest.mark.parametrize("location", ["{lake}/%2e%2e/%2e%2e/outside/copy.parquet", "file://{lake}/%2E%2E/%2E%2E/outside/copy.parquet"])
def test_an_encoded_way_out_is_no_way_out(victim: Victim, location: str) -> None:
    (victim.outside / "copy.parquet").write_bytes(b"")
    _add_file(victim, location.format(lake=victim.kit.folder / "lake"))
    victim.watch.touched()
    lake = victim.lake()
    view = lake.view(victim.table.path)
    assert view is not None
    try:
        paths = [file.path for file in lake.file_lists(view, None).data]
    except ForbiddenLocation:
        paths = []
    assert not any(os.path.realpath(path).startswith(str(victim.outside)) for path in paths)
    assert victim.unharmed()


def test_a_link_out_of_the_lake_is_not_followed(victim: Victim) -> None:
    [task] = victim.kit.catalog().load_table("sales.orders").scan().plan_files()
    file = Path(task.file.file_path.removeprefix("file://"))
    shutil.move(file, victim.outside / "moved.parquet")
    file.symlink_to(victim.outside / "moved.parquet")
    victim.watch.touched()
    lake = victim.lake()
    view = lake.view(victim.table.path)
    assert view is not None
    with pytest.raises(ForbiddenLocation):
        lake.file_lists(view, None)
    with pytest.raises(ForbiddenLocation):
        lake.row_offsets(victim.table, view, {})
    assert file.name not in [stored.name for stored in lake.stored_files(view)]
    with pytest.raises(ForbiddenLocation):
        lake.delete_file(view, str(victim.outside / "moved.parquet"))
    assert victim.unharmed()


def test_a_marker_elsewhere_is_not_opened(victim: Victim) -> None:
    def change(document: dict[str, Any]) -> None:
        folder = victim.outside / ".lakeward" / document["table-uuid"]
        folder.mkdir(parents=True)
        (folder / "x.marker").write_bytes(b"")
        summary = head_of(document)["summary"]
        for key in [key for key in summary if key.startswith("lakeward.marker")]:
            del summary[key]
        summary[PATH_KEY] = f"file://{folder}/x.marker"

    change_metadata(victim.catalog_file, change)
    victim.watch.touched()
    with pytest.raises(ForbiddenLocation):
        victim.look()
    assert victim.unharmed()


def _add_file(victim: Victim, location: str) -> None:
    """A user's commit of a data file that lies at `location`, or says so."""
    from tiering.lake.iceberg.commit.staging import FileChanges, SnapshotStager
    from tiering.lake.iceberg.writing.data_files import decode_files

    loaded = victim.kit.catalog().load_table("sales.orders")
    result = victim.kit.prepare(victim.table, "foreign", {B0: 12}).committable.results[0]
    [file] = decode_files(result.payload).files
    file[1] = location
    staged = SnapshotStager(loaded, victim.kit.view(victim.table), "foreign", SystemClock()).stage(FileChanges([file], file.spec_id), {})
    loaded.catalog.commit_table(loaded, staged.requirements, tuple(staged.updates[:2]))
    clear_manifest_cache()
