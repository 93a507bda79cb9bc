"""Which layout a lake table has, and which a new one gets."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy as sa
from pyiceberg.types import StringType

from support.worlds.lake_world import SCHEMA, LakeWorld
from tiering.cluster.writable import TableSpec
from tiering.errors import InvalidArgument, SchemaDrift
from tiering.lake.layouts import Layout, layout_of
from tiering.lake.table_options import LAYOUT
from tiering.model.rounds import RoundState
from tiering.model.schema.changes import additions
from tiering.model.tables import TablePath


def test_columns_tell_the_layout_of_a_lake_table_that_is_there() -> None:
    assert layout_of(["id", "__bucket", "__offset", "__timestamp"]) is Layout.SYSTEM_COLUMNS
    assert layout_of(["id"], ["id", "__timestamp"]) is Layout.SYSTEM_COLUMNS  # a user dropped them
    assert layout_of(["id"]) is Layout.CLEAN


def test_the_option_tells_that_of_a_new_one() -> None:
    assert LAYOUT.of({}) is Layout.SYSTEM_COLUMNS
    assert LAYOUT.of({"table.datalake.layout": "Clean"}) is Layout.CLEAN
    with pytest.raises(InvalidArgument, match=r"table.datalake.layout is 'tidy'") as refusal:
        LAYOUT.of({"table.datalake.layout": "tidy"})
    assert refusal.value.hint == "It may be: system-columns, clean."


def test_a_new_table_is_clean_and_one_of_an_older_version_keeps_its_columns(tmp_path: Path) -> None:
    world = LakeWorld(tmp_path)
    world.storage.create_database("sales")
    spec = TableSpec(SCHEMA, 2, properties={"table.datalake.enabled": "true"})
    new, other, old = (world.storage.create_table(TablePath("sales", name), spec) for name in ("new", "other", "old"))
    world.close()
    with sa.create_engine(f"sqlite:///{tmp_path / 'cluster' / 'meta.db'}").begin() as connection:
        text = json.dumps(dict(spec.properties))
        connection.execute(sa.text("UPDATE tables SET properties = :text WHERE table_name = 'old'"), {"text": text})
    world = LakeWorld(tmp_path)
    world.storage.alter_table(other.path, {"table.datalake.layout": "system-columns"})
    world.storage.alter_table(other.path, {"table.datalake.layout": None})
    world.storage.alter_table(old.path, {"table.datalake.freshness": "2 h", "table.datalake.layout": None})
    for table in (new, other, old):
        world.lake.ensure_table(world.storage.table(table.path))
    assert world.iceberg(new).schema().column_names == world.iceberg(other).schema().column_names == ["id", "text"]
    assert world.iceberg(old).schema().column_names == ["id", "text", "__bucket", "__offset", "__timestamp"]
    world.close()


def test_a_lake_table_keeps_its_layout_whatever_the_option_says(tmp_path: Path) -> None:
    world = LakeWorld(tmp_path)
    clean = world.table("clean", datalake_layout="clean")
    world.append(clean, 0, 10)
    assert world.tier(clean).state is RoundState.SUCCEEDED
    old = world.table("old")
    with pytest.raises(InvalidArgument, match="cannot become system-columns: its lake table is clean already"):
        world.storage.alter_table(clean.path, {"table.datalake.layout": "system-columns"})
    world.storage.alter_table(old.path, {"table.datalake.layout": "clean"})  # there is no lake table of it yet
    wider = world.storage.alter_table(clean.path, {}, additions([pa.field("note", pa.string())]))
    world.lake.ensure_table(wider)
    assert world.iceberg(clean).schema().column_names == ["id", "text", "note"]
    with world.iceberg(clean).update_schema() as update:
        update.add_column("mine", StringType())
    with pytest.raises(SchemaDrift, match="has the column 'mine'"):
        world.lake.ensure_table(wider)
    world.close()
