"""Spark reads a lake table whose option `table.datalake.partition` changed: all rows, and only files that a condition needs."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from support.evolving.world import EvolvingWorld
from support.lake_kinds.kinds import ICEBERG_CLEAN
from support.readers.environment import TEST_SECONDS
from support.running.spark_sessions import spark_session
from tiering.cli.spark.properties import lake_properties_for_spark
from tiering.lake.table_options import PARTITION

pytestmark = pytest.mark.timeout(TEST_SECONDS)
VISITS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("ts", pa.timestamp("us", "UTC")), pa.field("page", pa.string())])
START = datetime(2026, 1, 1, 12)
OPTIONS = ("days(ts)", "none", "days(ts), bucket(4, page)", "truncate(3, page), hours(ts)")


def test_spark_reads_all_rows_of_all_specs_and_leaves_out_files(tmp_path: Path) -> None:
    world = EvolvingWorld(tmp_path, ICEBERG_CLEAN, VISITS, options={PARTITION.name: OPTIONS[0]})
    for number, text in enumerate(OPTIONS):
        table = world.info
        world.set_options(**{PARTITION.name: text})
        ids = range(number * 20, number * 20 + 20)
        world.append(*({"id": key, "ts": START + timedelta(days=key % 10), "page": f"page{key % 4}"} for key in ids), {"id": -1 - number})
        world.tier_now()
    name = f"lake.{table.path}"
    with spark_session(tmp_path / "warehouse", lake_properties_for_spark(world.lake_properties)) as spark:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        rows = spark.table(name).toArrow()
        assert sorted(rows["id"].to_pylist()) == [-4, -3, -2, -1, *range(80)]
        all_files = spark.sql(f"SELECT count(*) FROM {name}.files").first()
        matching_rows = spark.sql(f"SELECT id, input_file_name() AS file FROM {name} WHERE ts >= '2026-01-10' AND page = 'page1'").toArrow()
        assert sorted(matching_rows["id"].to_pylist()) == [key for key in range(80) if key % 10 == 9 and key % 4 == 1]
        plan = spark.table(name).where("ts >= '2026-01-10'")
        used = {row.file for row in plan.selectExpr("input_file_name() AS file").collect()}
        assert all_files is not None
        assert len(used) < all_files[0] / 2
        spark.sql(f"CALL lake.system.rewrite_data_files(table => '{table.path}', options => map('rewrite-all', 'true'))").collect()
        assert sorted(spark.table(name).toArrow()["id"].to_pylist()) == [-4, -3, -2, -1, *range(80)]
        [specs] = spark.sql(f"SELECT count(DISTINCT spec_id) FROM {name}.files").collect()
        assert specs[0] == 1, "Spark rewrites files of former specs"
    assert world.iceberg(table).spec().spec_id == 3
    world.append({"id": 80, "ts": START, "page": "x"})
    world.tier_now()
    world.assert_exact()
