"""The statement in `next_action` runs unchanged in Spark, where the catalog is not called `fluss`, and repairs the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType
from pyspark.sql import SparkSession

from support.lakes import broken_lakes as broken
from support.lakes.broken_lakes import Source, tiered
from support.running.spark_sessions import sessions_started_with
from support.worlds.lake_world import LakeWorld
from tiering.cli.spark.properties import CATALOG_CLASS, lake_properties_for_spark
from tiering.lake.iceberg.schema.layout import table_layout
from tiering.model.rounds import RoundState

STATEMENTS = 3
Sql = Callable[[str], list[Any]]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    world = LakeWorld(tmp_path)
    world.iceberg_catalog()  # pyiceberg makes its tables
    yield world
    world.close()


@pytest.fixture
def sql(world: LakeWorld, serve: Callable[..., Any], jvm: SparkSession) -> Iterator[Sql]:
    """Runs statements in a session whose catalog is called `stream`."""
    properties = {name: value for name, value in lake_properties_for_spark(world.lake_properties).items() if ".catalog.lake" in name}
    properties |= {"spark.sql.catalog.lake.cache-enabled": "false"}
    with sessions_started_with(jvm, "stream", CATALOG_CLASS) as make:
        spark = make({"uri": serve(world.coordinator).uri, "lake": "lake"})
        for name, value in properties.items():
            spark.conf.set(name, value)
        yield lambda statement: spark.sql(statement).collect()


def follow(world: LakeWorld, sql: Sql) -> list[str]:
    ran: list[str] = []
    while True:
        world.coordinator.repair_inspector.inspect_all(patience_ms=60_000)
        [row] = sql("SELECT next_action FROM stream.sys.lake_tiering_status WHERE table_name = 'orders'")
        if row.next_action is None:
            return ran
        assert len(ran) < STATEMENTS, ran
        sql(row.next_action)
        ran.append(row.next_action)


def prove_whole(source: Source) -> None:
    source.tier()
    source.write()
    assert source.tier().state is RoundState.SUCCEEDED
    assert source.missing() == 0
    assert source.in_lake() == sorted(source.rows.items())


def fail(source: Source, kind: str) -> None:
    outcome = source.tier()
    assert outcome.error is not None
    assert outcome.error.error_class == kind


def renamed_column(source: Source, sql: Sql) -> None:
    sql("ALTER TABLE lake.sales.orders RENAME COLUMN text TO `the words`")


def added_column(source: Source, sql: Sql) -> None:
    sql("ALTER TABLE lake.sales.orders ADD COLUMN note string")


def required_column(source: Source, sql: Sql) -> None:
    with source.world.iceberg(source.info).update_schema(allow_incompatible_changes=True) as update:
        update.update_column("text", required=True)


def dropped_column(source: Source, sql: Sql) -> None:
    sql("ALTER TABLE lake.sales.orders DROP COLUMN text")


@pytest.mark.parametrize(
    ("break_it", "statements"),
    [
        (renamed_column, ["ALTER TABLE lake.sales.orders RENAME COLUMN `the words` TO text"]),
        (added_column, ["ALTER TABLE lake.sales.orders DROP COLUMN note"]),
        (required_column, ["ALTER TABLE lake.sales.orders ALTER COLUMN text DROP NOT NULL"]),
        (
            dropped_column,  # its values are gone from there, and still in the log
            ["ALTER TABLE lake.sales.orders RENAME TO orders_former_TABLE_3", "CALL stream.sys.reconcile_lake('sales.orders', 'retier')"],
        ),
    ],
)
def test_a_column_that_drifted(world: LakeWorld, sql: Sql, break_it: Callable[[Source, Sql], None], statements: list[str]) -> None:
    source = tiered(world, False, False)
    break_it(source, sql)
    fail(source, "SchemaDrift")
    assert follow(world, sql) == [statement.replace("_TABLE_", f"_{source.info.table_id}_") for statement in statements]
    prove_whole(source)


def test_a_column_that_is_too_narrow_needs_no_statement(world: LakeWorld, sql: Sql) -> None:
    """A user created the lake table before the first round, which widens the column."""
    source = Source(world, False, False)
    layout = table_layout(source.info)
    narrow = [field.model_copy(update={"field_type": IntegerType()}) if field.name == "id" else field for field in layout.schema.fields]
    catalog = world.iceberg_catalog()
    catalog.create_namespace_if_not_exists("sales")
    catalog.create_table("sales.orders", Schema(*narrow), partition_spec=layout.spec, sort_order=layout.sort_order)
    source.write()
    prove_whole(source)


def test_a_main_branch_is_set_forward_again(world: LakeWorld, sql: Sql) -> None:
    source = tiered(world, False, False)
    broken.rolled_back_and_the_log_cut(source)
    fail(source, "LakeRolledBack")
    [statement] = follow(world, sql)
    assert statement.startswith("CALL lake.system.set_current_snapshot('sales.orders', ")
    prove_whole(source)


def test_a_pause(world: LakeWorld, sql: Sql) -> None:
    source = tiered(world, False, False)
    sql("CALL stream.sys.pause_tiering('sales.orders', reason => 'repairs')")
    assert follow(world, sql) == ["CALL stream.sys.resume_tiering('sales.orders')"]
    prove_whole(source)
