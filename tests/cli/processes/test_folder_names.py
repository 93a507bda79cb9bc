"""Data folders whose paths have characters that URIs, SQL and patterns of files give a meaning."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.lake_kinds.kinds import ICEBERG_CLEAN, PAIMON_CLEAN, LakeKind
from support.running.ingested import write
from support.worlds.data_folders import FolderWorld
from tiering.cli.processes.data_folder import open_data_folder
from tiering.cli.spark.properties import lake_properties_for_spark
from tiering.cli.sql.offline_engine import DuckDbEngine
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.errors import InvalidArgument
from tiering.ingest.load import ingest_files
from tiering.lake.catalog_properties import with_default_catalog
from tiering.lake.registry import open_lake
from tiering.validate.results import Level
from tiering.validate.run import validate

USABLE = ["a b", "100%", "a'b", 'a"b', "a*b", "a[b]", "a{b,c}", "ä€", "a;b", "a\\b", "a$b&c", "a+b=c", "a:b", "file:a", "a@b", "~a"]
UNUSABLE = ["a#b", "a?b", "a%20b", "%2e"]


@pytest.mark.parametrize("kind", [ICEBERG_CLEAN, PAIMON_CLEAN], ids=lambda kind: kind.format)
@pytest.mark.parametrize("name", USABLE)
def test_a_folder_of_any_name_is_tiered_read_and_validated(tmp_path: Path, name: str, kind: LakeKind) -> None:
    world = FolderWorld(tmp_path / name, kind)
    try:
        table = world.table("orders")
        ingest_files(world.storage, table.path, [str(write(tmp_path, "rows.csv", "id,text\n1,a\n2,b\n"))])
        world.tier(table)
        engine = DuckDbEngine(tmp_path / name, kind.format, {})
        assert [tuple(row) for row in engine.execute("SELECT id, text FROM sales.orders ORDER BY id").rows] == [(1, "a"), (2, "b")]
        engine.close()
        lake = open_lake(kind.format, world.folder.lake_properties)
        assert all(check.ok for check in validate(world.storage, lake, table.path, Level.ROWS))
    finally:
        world.close()
    assert {entry.name for entry in tmp_path.iterdir()} == {name, "rows.csv"}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_folder_in_which_no_lake_table_can_lie_is_refused_unless_the_lake_is_elsewhere(tmp_path: Path, name: str) -> None:
    folder = open_data_folder(tmp_path / name)
    with pytest.raises(InvalidArgument, match="no lake table can lie in") as refused:
        with_default_catalog({}, folder.lake_properties)
    assert f"{name}/lake" in refused.value.message
    elsewhere = {"type": "sql", "uri": "sqlite:////elsewhere/lake.db", "warehouse": "/elsewhere/lake"}
    assert with_default_catalog(elsewhere, folder.lake_properties) == elsewhere
    with EmbeddedStorage(folder.cluster) as storage:
        storage.create_database("sales")
    assert {path.name for path in tmp_path.iterdir()} == {name}
    assert (folder.cluster / "meta.db").exists()


@pytest.mark.parametrize("format_name", ["iceberg", "paimon"])
@pytest.mark.parametrize("name", ["a#b", "a?b"])
def test_a_warehouse_in_which_no_lake_table_can_lie_is_refused(tmp_path: Path, name: str, format_name: str) -> None:
    properties = {"type": "sql", "uri": "sqlite://", "warehouse": f"file://{tmp_path / name}"}
    with pytest.raises(InvalidArgument, match="no lake table can lie in"):
        open_lake(format_name, properties).databases()


def test_spark_finds_the_catalog_of_a_folder_whose_name_a_url_has_in_other_characters(tmp_path: Path) -> None:
    folder = open_data_folder(tmp_path / "ä b'c")
    properties = lake_properties_for_spark(folder.lake_properties)
    assert properties["spark.sql.catalog.lake.uri"] == f"jdbc:sqlite:{tmp_path}/ä b'c/lake-catalog.db"
