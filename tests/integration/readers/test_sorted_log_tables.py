"""Spark reads a sorted log table, sorts its files by the table's own order when it compacts them, and rounds continue."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.running.spark_sessions import spark_session
from support.worlds.lake_world import LakeWorld
from support.worlds.validated import check, data_files, faults, read
from tiering.cli.spark.properties import lake_properties_for_spark


def test_spark_reads_and_compacts_a_sorted_log_table(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    world = LakeWorld(tmp_path)
    orders = world.table("orders", datalake_layout="clean", datalake_sort="text DESC")
    for start in (0, 200):
        world.append(orders, start, 200)
        assert world.tier(orders).error is None
    with spark_session(tmp_path_factory.mktemp("warehouse"), lake_properties_for_spark(world.lake_properties)) as spark:
        described = spark.sql(f"DESCRIBE TABLE EXTENDED lake.{orders.path}").collect()
        assert any("sort-order" in row["data_type"] and "text DESC NULLS LAST" in row["data_type"] for row in described)
        assert [row["id"] for row in spark.sql(f"SELECT id FROM lake.{orders.path} WHERE text = 'row 77'").collect()] == [77]
        spark.sql(
            f"CALL lake.system.rewrite_data_files(table => '{orders.path}', strategy => 'sort', options => map('rewrite-all', 'true'))"
        )
    [file] = data_files(world, orders)
    texts = read(file)["text"].to_pylist()
    assert texts == sorted(texts, reverse=True)
    world.append(orders, 400, 200)
    assert world.tier(orders).error is None
    assert not faults(check(world, orders))
    assert sorted(world.iceberg(orders).scan().to_arrow()["id"].to_pylist()) == list(range(600))
    world.close()
