"""Queries on DuckDB over a folder: system tables, tables of the lake under each of their names, and what is wrong with either."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.types import LongType

from support.operators import pause
from support.worlds.data_folders import FolderWorld
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA
from sys_tables.offline import relations
from tiering.cli.sql.offline_engine import DuckDbEngine
from tiering.cluster.log_writer import LogWriter
from tiering.errors import StatementFailed
from tiering.model.status import TableStatus
from tiering.model.tables import TableInfo
from tiering.validate import duckdb_rows


class Opened:
    """A folder with a log table of 20 rows, its coordinator alive beside the engine."""

    def __init__(self, root: Path) -> None:
        self.world = FolderWorld(root)
        self.orders: TableInfo = self.world.table("orders")
        self.world.append(self.orders, 0, 20)
        self.world.tier(self.orders)
        self.engine = DuckDbEngine(root, "iceberg", {})

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.engine.execute(sql).rows]

    def columns(self, sql: str) -> list[str]:
        return list(self.engine.execute(sql).columns)

    def error(self, sql: str) -> StatementFailed:
        with pytest.raises(StatementFailed) as raised:
            self.engine.execute(sql)
        return raised.value

    def close(self) -> None:
        self.engine.close()
        self.world.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """An engine for tests that change nothing."""
    opened = Opened(tmp_path_factory.mktemp("offline"))
    yield opened
    opened.close()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Opened]:
    """An engine for tests that break it."""
    opened = Opened(tmp_path)
    yield opened
    opened.close()


@pytest.mark.parametrize("name", ["lake.sales.orders", "fluss.sales.orders", "sales.orders", "SALES.Orders", "LAKE.sales.ORDERS"])
def test_a_table_of_the_lake_has_three_names_in_any_case(shared: Opened, name: str) -> None:
    assert shared.rows(f"SELECT count(*), sum(id) FROM {name}") == [(20, 190)]


def test_columns_that_come_by_name_only_are_no_part_of_a_star(shared: Opened) -> None:
    assert shared.columns("SELECT * FROM sales.orders") == ["id", "text"]
    assert shared.columns("SELECT *, __offset FROM sales.orders") == ["id", "text", "__offset"]
    assert shared.columns("SELECT o.*, o.__bucket AS b FROM sales.orders AS o") == ["id", "text", "b"]
    both = "SELECT * FROM sales.orders AS a JOIN lake.sales.orders AS b ON a.__offset = b.__offset AND a.id = b.id"
    assert shared.columns(both) == ["id", "text", "id", "text", "__bucket", "__offset", "__timestamp"]
    assert shared.columns("SELECT * FROM lake.sales.orders")[2:] == ["__bucket", "__offset", "__timestamp"]
    assert shared.columns("SELECT * FROM (SELECT id, __offset FROM sales.orders)") == ["id", "__offset"]


def test_columns_may_be_qualified_as_their_table_is_named(shared: Opened) -> None:
    sql = "SELECT fluss.sales.orders.id, sales.orders.text, orders.id FROM fluss.sales.orders WHERE sales.orders.id = 3"
    assert shared.rows(sql) == [(3, "row 3", 3)]


def test_lake_and_system_tables_join_and_with_parts_are_found(shared: Opened) -> None:
    sql = """
        WITH orders AS (SELECT count(*) AS found FROM sales.orders)
        SELECT s.lake_records = o.found AS equal, s.status, size(t.bucket_keys) AS keys
        FROM orders AS o CROSS JOIN sys.lake_tiering_status AS s
        JOIN fluss.sys.tables AS t USING (database_name, table_name)
    """
    shared.world.coordinator.observer.observe_all()
    assert shared.rows(sql) == [(True, "Scheduled", 0)]


def test_values_come_as_spark_gives_them(shared: Opened) -> None:
    [(array, name, at)] = shared.rows(
        "SELECT parameters, parameters[0].name, max(s.observed_time) FROM sys.procedures CROSS JOIN sys.lake_tiering_status AS s"
        " WHERE procedure_name = 'help' GROUP BY 1, 2"
    )
    assert array[0]["name"] == name == "procedure"
    assert (at.utcoffset().total_seconds(), at.isoformat()[-6:]) == (0, "+00:00")


def test_elements_of_arrays_are_counted_as_in_spark(shared: Opened) -> None:
    sql = "SELECT split(text, ' ')[0], element_at(split(text, ' '), 1 + id), map('a', 7)['a'] FROM sales.orders WHERE id = 1"
    assert shared.rows(sql) == [("row", "1", 7)]


def test_every_system_table_can_be_read_whole_and_counted(shared: Opened) -> None:
    names = [row[1] for row in shared.rows("SHOW TABLES IN sys")]
    assert {"lake_tiering_status", "tables", "procedures"} <= set(names)
    for name in names:
        described = [row[0] for row in shared.rows(f"DESCRIBE sys.{name}")]
        assert shared.columns(f"SELECT * FROM sys.{name}") == described
        assert shared.rows(f"SELECT count(*) FROM sys.{name}") == [(len(shared.rows(f"SELECT * FROM sys.{name}")),)]
    assert set(shared.columns("SELECT * FROM sys.lake_tiering_status")) == set(TableStatus.__dataclass_fields__)


def test_what_only_a_running_coordinator_knows_is_null_or_empty(shared: Opened) -> None:
    assert shared.rows("SELECT heartbeat_time FROM sys.lake_tiering_status") == [(None,)]
    assert shared.rows("SELECT * FROM sys.open_calls") == []


@pytest.mark.parametrize(
    ("sql", "complaint"),
    [
        ("SELECT * FROM sales.ordres", "there is no table sales.ordres"),
        ("SELECT * FROM nope.orders", "there is no database 'nope'"),
        ("SELECT * FROM lake.sales.ordres", "there is no table sales.ordres in the lake"),
        ("SELECT * FROM sys.tabels", "there is no system table sys.tabels"),
        ("SELECT * FROM orders", "there is no table 'orders'"),
        ("SELECT * FROM other.sales.orders", "there is no catalog 'other'"),
        ("SELECT * FROM lake.sales.orders.snapshots", "is not a table that can be read offline"),
        ("SELECT * FROM sales.orders VERSION AS OF 1", "an older snapshot of sales.orders"),
        ("SELECT txet FROM sales.orders", '"txet" not found'),
        ("SELECT no_such_function(id) FROM sales.orders", "no_such_function"),
        ("SELECT CAST(text AS INT) FROM sales.orders", "Could not convert string"),
        ("SELECT split(text, ' ')[id] FROM sales.orders", "its place is computed"),
        ("SELECT id / 0 FROM sales.orders", "Division by zero"),
        ("SELECT * FROM sales.`or'; DROP`", "is not a valid table name"),
        ("SHOW TABLES IN nope", "there is no database 'nope'"),
        ("SHOW TABLES IN lake.sales", "not listed offline"),
        ("CALL sys.helpp()", "there is no procedure sys.helpp"),
        ("CALL other.help()", "there is no procedure other.help"),
        ("CALL sys.help('help', 2)", "2 arguments are given, there are 1"),
        ("CALL sys.help(procedure => 'a', 'b')", "positional argument"),
        ("CALL sys.help(array(1))", "cannot be a value like"),
        ("CALL sys.validate_table('sales.orders', 'all')", "'all' is not a level"),
        ("CALL sys.tier_table('sales.orders', no => 1)", "has no argument 'no'"),
    ],
)
def test_what_is_wrong_is_said(shared: Opened, sql: str, complaint: str) -> None:
    assert complaint in shared.error(sql).message


def test_an_unknown_column_is_answered_with_all_there_are_like_it(shared: Opened) -> None:
    assert '"status_reason"' in shared.error("SELECT statu_reason FROM sys.lake_tiering_status").message


def test_a_table_that_is_not_in_the_lake_yet_says_how_it_comes_there(own: Opened) -> None:
    own.world.table("empty")
    assert "CALL sys.tier_table('sales.empty') tiers them now" in own.error("SELECT * FROM sales.`empty$lake`").message
    assert own.rows("SELECT * FROM sales.empty") == []


def test_rows_are_those_of_the_newest_snapshot_less_the_deleted_ones(own: Opened) -> None:
    pause(own.world.coordinator, own.orders.path, "test")
    table = own.world.primary_key_table("stock")
    writer = LogWriter(own.world.storage, table.path, "test")
    writer.upsert(pa.table({"id": range(1, 21), "text": ["a"] * 20}, schema=PRIMARY_KEY_SCHEMA))
    own.world.tier(table)
    writer.upsert(pa.table({"id": [2], "text": ["B"]}, schema=PRIMARY_KEY_SCHEMA))
    writer.delete(pa.table({"id": [3]}, schema=pa.schema([PRIMARY_KEY_SCHEMA.field("id")])))
    own.world.tier(table)
    assert len(own.world.iceberg(table).inspect.delete_files()) > 0
    both = "SELECT o.id, s.text FROM sales.orders AS o JOIN sales.stock AS s USING (id) WHERE id < 5 ORDER BY id"
    assert own.rows("SELECT * FROM sales.stock WHERE id < 5 ORDER BY id") == [(1, "a"), (2, "B"), (4, "a")]
    assert own.rows(both) == [(1, "a"), (2, "B"), (4, "a")]


def test_columns_follow_their_ids_when_a_user_renames_or_adds_one(own: Opened) -> None:
    with own.world.iceberg(own.orders).update_schema() as update:
        update.rename_column("text", "words")
        update.add_column("more", LongType())
    assert own.rows("SELECT words, more FROM lake.sales.orders WHERE id = 7") == [("row 7", None)]
    assert own.columns("SELECT * FROM sales.`orders$lake`") == ["id"]
    assert "[SchemaDrift]" in own.error("SELECT * FROM sales.orders").message


def test_a_file_without_field_ids_is_refused_and_never_read_as_nulls(own: Opened) -> None:
    file = next((own.world.folder.root / "lake").rglob("*.parquet"))
    table = pq.read_table(file, partitioning=None)
    plain = pa.schema([pa.field(field.name, field.type) for field in table.schema])
    pq.write_table(pa.table(table.columns, schema=plain), file)
    assert "has no field ids" in own.error("SELECT * FROM sales.orders").message


def test_a_file_that_is_gone_or_damaged_is_named(own: Opened) -> None:
    first, second = sorted((own.world.folder.root / "lake").rglob("*.parquet"))
    damaged = bytearray(second.read_bytes())
    damaged[4:60] = b"\0" * 56
    second.write_bytes(damaged)
    assert f"sales.orders: the lake file {second} cannot be read" in own.error("SELECT sum(id), max(text) FROM sales.orders").message
    first.unlink()
    assert first.name in own.error("SELECT * FROM sales.orders").message


def test_a_value_that_duckdb_cannot_show_is_named_by_table_column_and_file_without_a_stack(own: Opened) -> None:
    catalog = own.world.iceberg_catalog()
    rows = pa.table({"id": [1], "seen": pa.array([0], pa.timestamp("us"))})
    times = catalog.create_table("sales.times", rows.schema)
    times.append(rows)
    times.append(rows)
    file = max(task.file.file_path for task in times.scan().plan_files()).removeprefix("file://")
    stored = pq.read_table(file, partitioning=None)
    pq.write_table(pa.table([stored["id"], pa.array([-(2**63)], pa.timestamp("us"))], schema=stored.schema), file)
    for sql in ("SELECT * FROM lake.sales.times", "SELECT max(CAST(seen AS STRING)) FROM lake.sales.times"):
        refused = own.error(sql)
        assert refused.message == (
            f"sales.times: the column 'seen' of the lake file {file} cannot be read: Date out of range in timestamp conversion"
        )
        assert "Leave the column out" in refused.hint
    assert own.rows("SELECT sum(id) FROM lake.sales.times") == [(2,)]
    cast = own.error("SELECT CAST(text AS INT) FROM sales.orders, lake.sales.times")
    assert "Could not convert string" in cast.message, "what DuckDB says comes first: the timestamp is not why it failed"
    assert f"besides, sales.times: the column 'seen' of the lake file {file}" in cast.message


def test_files_are_looked_at_one_by_one_only_up_to_a_bound(own: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = sorted((own.world.folder.root / "lake").rglob("*.parquet"))
    for file in (first, second):
        file.write_bytes(file.read_bytes()[:4] + b"\0" * 56 + file.read_bytes()[60:])
    looked_at = list[str]()
    monkeypatch.setattr(duckdb_rows, "_damage", lambda _connection, file, _times_only: looked_at.append(file.path))
    monkeypatch.setattr(relations, "DAMAGE_SEARCH_FILES", 1)
    assert own.error("SELECT sum(id), max(text) FROM sales.orders").message.startswith("DuckDB refuses the statement: ")
    assert len(looked_at) == 1


def test_an_error_of_the_statement_names_no_file(own: Opened) -> None:
    assert own.error("SELECT CAST(text AS INT) FROM sales.orders").message.startswith("DuckDB refuses the statement: ")


def test_each_statement_sees_what_was_written_before_it(own: Opened) -> None:
    pending = "SELECT pending_records FROM sys.lake_tiering_status"
    assert own.rows(pending) == [(0,)]
    own.world.append(own.orders, 20, 10)
    assert own.rows(pending) == [(10,)]
    own.world.tier(own.orders)
    assert own.rows("SELECT count(*) FROM sales.orders") == [(30,)]
    assert own.rows(pending) == [(0,)]


def test_a_proof_runs_in_a_child_and_is_not_kept(own: Opened) -> None:
    checks = own.rows("CALL sys.validate_table(table => 'fluss.sales.orders', level => 'COUNTS')")
    assert {row[9] for row in checks} == {True}
    assert own.rows("SELECT * FROM sys.validation_results") == []


def test_the_first_statements_of_a_person_work(own: Opened) -> None:
    assert own.rows("SHOW TABLES") == [("sales", "orders", False)]
    assert len(own.rows("SHOW PROCEDURES")) > 10
    assert "Name the database" in (own.error("SELECT count(*) FROM orders").hint or "")
    assert own.rows("USE sales") == []
    assert own.rows("SHOW TABLES") == [("sales", "orders", False)]
    assert own.rows("SELECT count(*) FROM orders") == [(20,)]
    assert own.rows("WITH orders AS (SELECT 1 AS one) SELECT * FROM orders") == [(1,)]
    assert own.rows("WITH orders AS (SELECT id FROM orders LIMIT 3) SELECT count(*) FROM orders") == [(3,)]
    assert own.rows("SELECT count(*) FROM orders WHERE EXISTS (WITH orders AS (SELECT 1) SELECT * FROM orders)") == [(20,)]
    numbers = "WITH RECURSIVE orders AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM orders WHERE n < 3), b AS (SELECT * FROM orders)"
    assert own.rows(f"{numbers} SELECT count(*) FROM b") == [(3,)]
    assert own.rows("DESCRIBE orders")[0][0] == "id"
    assert own.rows("CALL sys.validate_table('orders')")
    assert own.rows("USE fluss.sys") == []
    assert own.rows("SELECT count(*) FROM lake_tiering_status") == [(1,)]
    own.rows("USE fluss")
    own.error("SELECT count(*) FROM orders")
    assert "there is no database 'nope'" in own.error("USE nope").message
