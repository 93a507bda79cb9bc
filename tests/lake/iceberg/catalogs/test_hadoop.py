"""A HadoopCatalog of our own: Iceberg's layout, commits that never replace a version, one winner of processes that race."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate
from pyiceberg.types import LongType, NestedField

from support.hadoop.racing_committers import race
from tiering.errors import InvalidArgument
from tiering.lake.iceberg.catalogs.hadoop import HadoopCatalog
from tiering.lake.iceberg.catalogs.hadoop_local import LocalTableFolder
from tiering.lake.iceberg.catalogs.opening import open_catalog

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))
ORDERS = ("sales", "orders")
COMMITTERS, COMMITS = 4, 15


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    folder = tmp_path / "warehouse"
    folder.mkdir()
    return folder


@pytest.fixture
def catalog(warehouse: Path) -> HadoopCatalog:
    catalog = open_catalog({"type": "hadoop", "warehouse": str(warehouse)})
    assert isinstance(catalog, HadoopCatalog)
    catalog.create_namespace("sales")
    return catalog


def metadata_folder(warehouse: Path) -> Path:
    return warehouse / "sales" / "orders" / "metadata"


def set_property(catalog: Any, table: Table, **values: str) -> None:
    catalog.commit_table(table, (AssertTableUUID(uuid=table.metadata.table_uuid),), (SetPropertiesUpdate(updates=values),))


def test_a_table_lies_where_iceberg_looks_for_it(catalog: HadoopCatalog, warehouse: Path) -> None:
    table = catalog.create_table(ORDERS, SCHEMA)
    set_property(catalog, table, a="1")

    folder = metadata_folder(warehouse)
    assert sorted(os.listdir(folder)) == ["v1.metadata.json", "v2.metadata.json", "version-hint.text"]
    assert (folder / "version-hint.text").read_text() == "2"
    again = catalog.load_table(ORDERS)
    assert again.metadata.location == f"{warehouse}/sales/orders"
    assert again.metadata_location == f"{folder}/v2.metadata.json"
    assert again.metadata.metadata_log[-1].metadata_file == f"{folder}/v1.metadata.json"
    assert again.properties["a"] == "1"
    assert catalog.list_namespaces() == [("sales",)]
    assert catalog.list_tables("sales") == [ORDERS]


def test_a_table_is_made_once(catalog: HadoopCatalog) -> None:
    catalog.create_table(ORDERS, SCHEMA)
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table(ORDERS, SCHEMA)
    with pytest.raises(NoSuchNamespaceError):
        catalog.create_table(("nowhere", "orders"), SCHEMA)
    with pytest.raises(NoSuchTableError):
        catalog.load_table(("sales", "others"))
    with pytest.raises(ValueError, match="derives the location of a table from its name"):
        catalog.create_table(("sales", "elsewhere"), SCHEMA, location="/tmp/elsewhere")


def test_a_name_leads_nowhere_else(catalog: HadoopCatalog) -> None:
    for name in ("..", ".hidden", "a/b"):
        with pytest.raises(ValueError, match="not a valid name"):
            catalog.create_namespace((name,))
        with pytest.raises(ValueError, match="not a valid name"):
            catalog.load_table(("sales", name))


def test_a_hint_that_is_behind_missing_or_damaged_does_not_matter(catalog: HadoopCatalog, warehouse: Path) -> None:
    table = catalog.create_table(ORDERS, SCHEMA)
    for number in range(3):
        set_property(catalog, table, number=str(number))
    hint = metadata_folder(warehouse) / "version-hint.text"
    for content in ("1", "99", "x", ""):
        hint.write_text(content)
        assert catalog.load_table(ORDERS).properties["number"] == "2"
    hint.unlink()
    assert catalog.load_table(ORDERS).properties["number"] == "2"


def test_the_checksum_of_a_hint_that_a_jvm_wrote_goes_with_it(catalog: HadoopCatalog, warehouse: Path) -> None:
    table = catalog.create_table(ORDERS, SCHEMA)
    checksum = metadata_folder(warehouse) / ".version-hint.text.crc"
    checksum.write_bytes(b"crc")
    set_property(catalog, table, a="1")
    assert not checksum.exists()


def test_a_version_that_came_in_between_is_never_replaced(catalog: HadoopCatalog, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = catalog.create_table(ORDERS, SCHEMA)
    other, link = open_catalog({"type": "hadoop", "warehouse": str(warehouse)}), os.link

    def link_late(*names: Any, **folders: Any) -> None:
        monkeypatch.setattr(os, "link", link)
        set_property(other, table, winner="other")
        link(*names, **folders)

    monkeypatch.setattr(os, "link", link_late)
    with pytest.raises(CommitFailedException, match="updated by another process"):
        set_property(catalog, table, winner="first")
    assert catalog.load_table(ORDERS).properties["winner"] == "other"
    assert len(list(metadata_folder(warehouse).glob("*.metadata.json"))) == 2  # nothing temporary stays


def test_a_compressed_version_of_another_writer_is_not_passed_over(
    catalog: HadoopCatalog, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = catalog.create_table(ORDERS, SCHEMA)
    link = LocalTableFolder.publish

    def link_late(folder: Any, temporary: str, version: int, *metadata: Any) -> None:
        (metadata_folder(warehouse) / f"v{version}.gz.metadata.json").write_bytes(b"theirs")
        link(folder, temporary, version, *metadata)

    monkeypatch.setattr(LocalTableFolder, "publish", link_late)
    with pytest.raises(CommitFailedException):
        set_property(catalog, table, a="1")
    assert not (metadata_folder(warehouse) / "v2.metadata.json").exists()


def test_a_commit_that_slept_meets_neither_the_next_table_of_that_name_nor_versions_that_were_cleaned_up(
    catalog: HadoopCatalog, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, link = catalog.create_table(ORDERS, SCHEMA), os.link

    def made_anew(*names: Any, **folders: Any) -> None:
        monkeypatch.setattr(os, "link", link)
        catalog.drop_table(ORDERS)
        catalog.create_table(ORDERS, SCHEMA)
        link(*names, **folders)

    monkeypatch.setattr(os, "link", made_anew)
    with pytest.raises(FileNotFoundError):
        set_property(catalog, table, stale="yes")
    assert os.listdir(metadata_folder(warehouse)).count("v2.metadata.json") == 0

    table = catalog.load_table(ORDERS)
    for number in range(3):
        set_property(catalog, table, number=str(number))

    def cleaned_up(*names: Any, **folders: Any) -> None:
        monkeypatch.setattr(os, "link", link)
        for number in range(3, 6):
            set_property(catalog, table, number=str(number))
        for version in range(1, 7):
            (metadata_folder(warehouse) / f"v{version}.metadata.json").unlink()
        link(*names, **folders)

    monkeypatch.setattr(os, "link", cleaned_up)
    with pytest.raises(CommitFailedException, match="cleaned up"):
        set_property(catalog, table, stale="yes")
    assert catalog.load_table(ORDERS).properties["number"] == "5"
    assert (metadata_folder(warehouse) / "version-hint.text").read_text() == "7"


def test_of_processes_that_commit_at_once_one_wins_each_version_and_no_commit_is_lost(catalog: HadoopCatalog, warehouse: Path) -> None:
    catalog.create_table(ORDERS, SCHEMA)
    properties = race(str(warehouse), COMMITTERS, COMMITS)
    assert properties <= catalog.load_table(ORDERS).properties.keys()
    versions = {int(file.name[1:].partition(".")[0]) for file in metadata_folder(warehouse).glob("v*.metadata.json")}
    assert versions == set(range(1, COMMITTERS * COMMITS + 2))


def test_a_table_that_was_dropped_is_gone_and_can_be_made_anew(catalog: HadoopCatalog, warehouse: Path) -> None:
    first = catalog.create_table(ORDERS, SCHEMA)
    catalog.drop_table(ORDERS)
    assert not (warehouse / "sales" / "orders").exists()
    second = catalog.create_table(ORDERS, SCHEMA)
    assert first.metadata.table_uuid != second.metadata.table_uuid
    catalog.drop_table(ORDERS)
    catalog.drop_namespace("sales")
    assert catalog.list_namespaces() == []
    shutil.rmtree(warehouse)
    assert catalog.list_namespaces() == []


@pytest.mark.parametrize("warehouse", ["s3://bucket/lake", "viewfs://nn/lake", "relative", ""])
def test_a_place_without_atomic_commits_is_refused(warehouse: str) -> None:
    with pytest.raises(InvalidArgument, match="no commit is atomic"):
        open_catalog({"type": "hadoop", "warehouse": warehouse})
