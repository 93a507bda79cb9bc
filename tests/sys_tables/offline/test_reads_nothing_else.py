"""Offline SQL reads tables, and nothing else of the machine that it runs on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.running.watched_folder import watched
from support.worlds.data_folders import FolderWorld
from tiering.cli.sql.offline_engine import DuckDbEngine
from tiering.errors import StatementFailed
from tiering.model.tables import TableInfo


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("outside")
    for name in ("canary.csv", "canary.json", "canary.parquet", "canary.txt"):
        (folder / name).write_text("topsecret\n")
    return folder


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDbEngine]:
    root = tmp_path_factory.mktemp("offline")
    world = FolderWorld(root)
    orders: TableInfo = world.table("orders")
    world.append(orders, 0, 20)
    world.tier(orders)
    engine = DuckDbEngine(root, "iceberg", {})
    yield engine
    engine.close()
    world.close()


STATEMENTS = """
SELECT * FROM read_text('{0}/canary.txt')
SELECT * FROM read_blob('{0}/canary.txt')
SELECT * FROM read_csv('{0}/canary.csv')
SELECT * FROM read_csv_auto('{0}/canary.csv')
SELECT * FROM read_json('{0}/canary.json')
SELECT * FROM read_json_auto('{0}/canary.json')
SELECT * FROM read_ndjson('{0}/canary.json')
SELECT * FROM read_parquet('{0}/canary.parquet')
SELECT * FROM parquet_scan('{0}/canary.parquet')
SELECT * FROM parquet_metadata('{0}/canary.parquet')
SELECT * FROM parquet_file_metadata('{0}/canary.parquet')
SELECT * FROM parquet_kv_metadata('{0}/canary.parquet')
SELECT * FROM parquet_schema('{0}/canary.parquet')
SELECT * FROM read_duckdb('{0}/canary.parquet')
SELECT * FROM sniff_csv('{0}/canary.csv')
SELECT * FROM glob('{0}/*')
SELECT * FROM query('SELECT 1')
SELECT * FROM query_table('x')
SELECT * FROM duckdb_settings()
SELECT * FROM duckdb_secrets()
SELECT * FROM duckdb_logs()
SELECT * FROM pragma_version()
SELECT * FROM arrow_scan(1, 2, 3)
SELECT * FROM pandas_scan(1)
SELECT * FROM python_map_function(1)
SELECT * FROM json_execute_serialized_sql('x')
SELECT * FROM which_secret('x', 'y')
SELECT * FROM test_all_types()
SELECT * FROM READ_TEXT('{0}/canary.txt')
SELECT * FROM `read_text`('{0}/canary.txt')
SELECT * FROM main.read_text('{0}/canary.txt')
SELECT (SELECT content FROM read_text('{0}/canary.txt'))
SELECT * FROM sys.tables WHERE table_name IN (SELECT content FROM read_text('{0}/canary.txt'))
SELECT * FROM sys.tables, LATERAL read_text('{0}/canary.txt')
SELECT * FROM sys.tables LATERAL VIEW read_text('{0}/canary.txt') t AS x
SELECT * FROM sys.tables JOIN read_text('{0}/canary.txt') ON true
WITH a AS (SELECT * FROM read_text('{0}/canary.txt')) SELECT * FROM a
WITH RECURSIVE a AS (SELECT 1 UNION ALL SELECT 1 FROM read_text('{0}/canary.txt')) SELECT * FROM a
SELECT 1 UNION SELECT content FROM read_text('{0}/canary.txt')
SELECT * FROM TABLE(read_text('{0}/canary.txt'))
SELECT * FROM '{0}/canary.csv'
FROM '{0}/canary.csv'
SELECT * FROM `{0}/canary.csv`
SELECT * FROM csv.`{0}/canary.csv`
SELECT * FROM `{0}/canary.csv`, (WITH `{0}/canary.csv` AS (SELECT 1) SELECT * FROM `{0}/canary.csv`)
SELECT * FROM duckdb_settings
SELECT * FROM duckdb_settings, (WITH duckdb_settings AS (SELECT 1) SELECT * FROM duckdb_settings) WHERE name = 'x' AND topsecret
SELECT read_text('{0}/canary.txt')
SELECT getenv('HOME')
SELECT * EXCEPT (content), content FROM read_text('{0}/canary.txt')
ATTACH '{0}/x.db'
COPY (SELECT 1) TO '{0}/x.csv'
COPY t FROM '{0}/canary.csv'
EXPORT DATABASE '{0}'
IMPORT DATABASE '{0}'
INSTALL httpfs
LOAD httpfs
LOAD '{0}/canary.txt'
PRAGMA database_list
SET enable_external_access = true
RESET lock_configuration
CREATE SECRET x (TYPE s3)
DETACH fluss
CHECKPOINT
VACUUM
EXECUTE x
SELECT 1; SELECT * FROM read_text('{0}/canary.txt')
WITH x AS (INSERT INTO y VALUES (1)) SELECT 1
INSERT INTO sys.tables SELECT content FROM read_text('{0}/canary.txt')
PIVOT sys.tables ON table_name
DESCRIBE read_text('{0}/canary.txt')
SHOW TABLES FROM `{0}`
SUMMARIZE sys.tables
CALL sys.validate_table((SELECT content FROM read_text('{0}/canary.txt')))
CALL sys.help((SELECT max(file) FROM glob('{0}/*')))
CALL read_text('{0}/canary.txt')
""".strip().splitlines()


@pytest.mark.parametrize("statement", STATEMENTS)
def test_it_is_refused_and_touches_nothing(engine: DuckDbEngine, outside: Path, statement: str) -> None:
    with watched(outside) as watch:
        with pytest.raises(StatementFailed) as caught:
            engine.execute(statement.format(outside))
        assert watch.touched() == []
    assert "topsecret" not in caught.value.message.replace(statement.format(outside), "")


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        ("SELECT count(*) FROM fluss.sales.orders", [(20,)]),
        ("SELECT count(*) FROM lake.sales.orders AS a JOIN sales.orders AS b ON a.id = b.id", [(20,)]),
        ("SELECT count(*) FROM sys.tables", [(1,)]),
        ("SELECT sum(id) FROM range(4) AS t(id)", [(6,)]),
        ("SELECT explode(array(1, 2))", [(1,), (2,)]),
        ("SELECT count(1) FROM range(3) TABLESAMPLE (3 ROWS)", [(3,)]),
        ("SELECT CAST('1' AS INT)", [(1,)]),
        ("SELECT * FROM (SELECT 1 AS a, 'x' AS b) PIVOT (count(1) FOR b IN ('x', 'y'))", [(1, 1, 0)]),
        ("SELECT * FROM (SELECT 1 AS a, 2 AS b) UNPIVOT (v FOR k IN (a, b))", [("a", 1), ("b", 2)]),
        ("SELECT x FROM sys.tables LATERAL VIEW explode(array(1, 2)) t AS x", [(1,), (2,)]),
        ("WITH a AS (SELECT 1 AS x) SELECT x FROM a", [(1,)]),
        ("SELECT * FROM VALUES (1), (2) AS t(a)", [(1,), (2,)]),
    ],
)
def test_what_is_no_file_works_as_before(engine: DuckDbEngine, statement: str, rows: list[tuple[object, ...]]) -> None:
    assert sorted((tuple(row) for row in engine.execute(statement).rows), key=repr) == rows


def test_a_query_may_spill(engine: DuckDbEngine) -> None:
    """The temporary folder stays open to a locked connection."""
    sql = "SELECT count(DISTINCT concat(CAST(a.id AS STRING), repeat('x', 200))) FROM range(3000000) AS a(id)"
    assert engine._engine is not None
    engine._engine._memory_limit = "150MB"
    try:
        assert engine.execute(sql).rows[0][0] == 3_000_000
    finally:
        engine._engine._memory_limit = "1GB"
