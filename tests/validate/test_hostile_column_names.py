"""Columns that are called as the tables, aliases, keywords and helper columns of the SQL that Lakeward builds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from support.lake_kinds.kinds import LAKE_KINDS, LakeKind
from support.repository import ROOT
from support.worlds.lake_world import LakeWorld
from support.worlds.validated import check, faults, untold
from sys_tables.offline.engine import OfflineEngine, OfflineSource
from sys_tables.query.reading import statement_view_of
from tiering.cli.sql.fresh_reads import reads_of_folder
from tiering.coordinator.status.offline_view import offline_view
from tiering.model.tables import TableInfo, TableType

pytestmark = pytest.mark.in_turn("world")

BUILDS_SQL = ("tiering/validate", "tiering/validate/duckdb_rows.py", "tiering/lake/writing/keys.py", "tiering/cluster/embedded/kv/state.py")
STRUCTS = ("l", "n", "d", "r", "f", "b", "lake", "o", "kv", "net", "m", "x", "e", "p", "a")
"""Aliases of tables: a dot behind one of these could take a field of the user's struct."""
KEYS = ("newest", "rows", "count", "low")
COLUMNS_OF_A_TABLE = 150


def words_of_sql() -> list[str]:
    """Each word in the sources of what builds SQL, and each keyword of DuckDB, once, whatever its case."""
    files = [file for place in BUILDS_SQL for file in ([ROOT / place] if place.endswith(".py") else sorted((ROOT / place).rglob("*.py")))]
    texts = [text for file in files for text in re.findall(r'"([^"\n]*)"', file.read_text(encoding="utf-8"))]
    words = {word.lower() for text in texts if text.upper() != text or "SELECT" in text for word in re.findall(r"[a-z][a-z0-9_]*", text)}
    keywords = {
        row[0] for row in duckdb.execute("SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'").fetchall()
    }
    return sorted({*words, *keywords, "a-b", "1", "select", "filename", "file_row_number"} - {*STRUCTS, *KEYS})


def hostile_schemas() -> list[pa.Schema]:
    """Tables that have all of these names among them; each has those of aliases as structs, and its keys first."""
    words = [word for word in words_of_sql() if not word.startswith("_")]
    kind = pa.struct([("c0", pa.int64()), ("path", pa.string()), ("place", pa.string()), ("low", pa.int64())])
    fixed = [*(pa.field(name, pa.int64(), nullable=False) for name in KEYS), *(pa.field(name, kind) for name in STRUCTS)]
    return [
        pa.schema([*fixed, *(pa.field(word, pa.int64() if number % 3 else pa.string()) for number, word in enumerate(part))])
        for part in (words[first : first + COLUMNS_OF_A_TABLE] for first in range(0, len(words), COLUMNS_OF_A_TABLE))
    ]


SCHEMAS = hostile_schemas()


@pytest.fixture(params=LAKE_KINDS, ids=lambda kind: kind.name)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LakeWorld]:
    kind: LakeKind = request.param
    lake_world = LakeWorld(tmp_path, kind=kind)
    yield lake_world
    lake_world.close()


def rows(schema: pa.Schema, first: int, count: int) -> pa.Table:
    """Row `n` has n in each key, text and number, and fields that could pass for those of Lakeward's own tables."""
    numbers = range(first, first + count)
    struct = [{"c0": number, "path": "no file", "place": "none", "low": -number} for number in numbers]
    columns = [
        pa.array(struct if pa.types.is_struct(field.type) else map(str, numbers) if pa.types.is_string(field.type) else numbers, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def in_duckdb(world: LakeWorld, sql: str) -> list[tuple[object, ...]]:
    """The rows of a statement of `lakeward sql`, with nothing running."""
    source = OfflineSource(
        lambda: statement_view_of(offline_view(world.store, world.storage, world.clock)),
        lambda _: world.lake,
        reads_of_folder(world.store, world.storage, lambda _: world.lake),
        world.lake_format,
        world.validate,
        None,
    )
    return [tuple(row) for row in OfflineEngine(source).execute(sql).rows]


def tier_and_cut(world: LakeWorld, table: TableInfo, first: int) -> None:
    """Three segments of rows, of which the log loses the first once all are in the lake."""
    for number in range(3):
        data = rows(table.schema, first + number * 10, 10)
        if table.table_type is TableType.LOG:
            world.storage.append(table.path, data, "w", number)
        else:
            world.storage.upsert(table.path, data, "w", number)
        world.clock.advance(60)
    assert world.tier(table).error is None


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.names[-1])
def test_a_log_table_is_validated_and_read_whatever_its_columns_are_called(world: LakeWorld, schema: pa.Schema) -> None:
    table = world.table("orders", buckets=1, schema=schema)
    tier_and_cut(world, table, 0)
    assert not faults(check(world, table))
    world.storage.alter_table(table.path, {"table.log.ttl": "1 h"})
    world.clock.advance(3_600 - 150)
    world.storage.maintenance.run()
    [log] = world.storage.offsets(table).values()
    assert 0 < log.log_start < 30
    results = check(world, table)
    assert not faults(results)
    assert untold(results)
    names = ", ".join(f"`{name}`" for name in schema.names)
    assert in_duckdb(world, f"SELECT count(*), sum(low) FROM (SELECT {names} FROM lake.sales.orders)") == [(30, sum(range(30)))]


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.names[-1])
def test_a_primary_key_table_is_validated_and_read_whatever_its_columns_are_called(world: LakeWorld, schema: pa.Schema) -> None:
    table = world.primary_key_table("planes", buckets=1, schema=schema, key=KEYS)
    tier_and_cut(world, table, 0)
    world.storage.upsert(table.path, rows(schema, 5, 10), "late", 0)
    assert world.tier(table).error is None
    results = check(world, table)
    assert not faults(results)
    world.storage.delete(table.path, rows(schema, 0, 3).select(list(KEYS)), "gone", 0)
    assert world.tier(table).error is None
    assert not faults(check(world, table))
    names = ", ".join(f"`{name}`" for name in schema.names)
    assert in_duckdb(world, f"SELECT count(*), sum(low) FROM (SELECT {names} FROM lake.sales.planes)") == [(27, sum(range(3, 30)))]
