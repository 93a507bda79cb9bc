"""The part of a table that a query needs: conditions and a limit by its text, fewer rows that are read, and the same answers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.lake_kinds.kinds import ICEBERG, LAKE_KINDS, PAIMON_CLEAN
from support.worlds.data_folders import FolderWorld
from sys_tables.offline import relations
from sys_tables.offline.fresh_rows import FreshRead, StatementReads
from sys_tables.offline.needed_rows import NeededRows, needed_rows
from sys_tables.offline.parsing import Query, parse
from tiering.cli.sql.fresh_reads import LocalRead
from tiering.cli.sql.offline_engine import DuckDbEngine
from tiering.errors import StatementFailed
from tiering.model.reading.conditions import AllOf, AnyOf, Condition, Filter, Operator
from tiering.model.reading.scans import ReadScan
from tiering.model.sql_types import Day
from tiering.model.tables import TablePath

NAME = ("fluss", "sales", "t")
T = "fluss.sales.t"
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("region", pa.string(), nullable=False),
        pa.field("n", pa.int16()),
        pa.field("Text", pa.string()),
        pa.field("real", pa.float32()),
        pa.field("day", pa.date32()),
    ]
)
DAYS = ["0001-01-01", "1969-12-31", "1970-01-01", "2026-01-31", "9999-12-31"]


def needed(sql: str) -> NeededRows:
    statement = parse(sql)
    assert isinstance(statement, Query)
    return needed_rows(statement.tree, NAME, SCHEMA)


def is_(column: str, operator: Operator, *values: str | int | Day) -> Filter:
    return Filter(column, operator, values)


FIVE = is_("id", Operator.EQUAL, 5)


@pytest.mark.parametrize(
    ("where", "conditions"),
    [
        ("id = 5", (FIVE,)),
        ("(ID = 5) AND text = 'a'", (FIVE, is_("Text", Operator.EQUAL, "a"))),
        ("-3 < n AND upper(region) = 'N'", (is_("n", Operator.GREATER, -3),)),
        ("id BETWEEN 1 AND 2", (AllOf((is_("id", Operator.GREATER_OR_EQUAL, 1), is_("id", Operator.LESS_OR_EQUAL, 2))),)),
        ("region IN ('n', 's') OR id >= 7", (AnyOf((is_("region", Operator.IN, "n", "s"), is_("id", Operator.GREATER_OR_EQUAL, 7))),)),
        ("id = 5 OR upper(region) = 'N'", ()),
        ("id = '5' AND region = 5 AND id = 5.0 AND real = 5 AND id = 1e1", ()),
        ("NOT id = 5 AND id <> 5 AND id IS NULL AND id <=> 5 AND id NOT IN (5) AND id IN (5, NULL)", ()),
        ("id = n AND id = (SELECT 5) AND id IN (SELECT 5)", ()),
        ("other.id = 5 AND id.id = 5 AND sales.t.id = 5", ()),
        ("t.id = 5", (FIVE,)),
        ("day = DATE '1970-01-06'", (is_("day", Operator.EQUAL, Day(5)),)),
        ("'1970-01-06' < day", (is_("day", Operator.GREATER, Day(5)),)),
        ("day IN (DATE'0001-01-01', '9999-12-31')", (is_("day", Operator.IN, Day(-719_162), Day(2_932_896)),)),
        ("day = DATE '10000-01-01' AND day = '1970-1-6' AND day = DATE '1970-02-30' AND day = ' 1970-01-06' AND day = 5", ()),
        ("day = TIMESTAMP '1970-01-06 00:00:00' AND day = CAST(id AS DATE) AND id = DATE '1970-01-06' AND text = DATE '1970-01-06'", ()),
        (f"id = {2**63} AND id > {'9' * 5_000} AND id = {2**63 - 1}", (is_("id", Operator.EQUAL, 2**63 - 1),)),
        (" OR ".join(["id = 5"] * 60), (AnyOf((FIVE,) * 60),)),
        (" AND ".join(["id = 5"] * 60), (FIVE,) * 60),
        (" OR ".join(["id = 5"] * 1_001), ()),
        (f"id IN ({', '.join(['5'] * 10_001)})", ()),
    ],
)
def test_conditions_are_those_whose_meaning_is_known(where: str, conditions: tuple[Condition, ...]) -> None:
    assert needed(f"SELECT count(*) FROM {T} WHERE {where}") == NeededRows(conditions)


@pytest.mark.parametrize(
    ("sql", "conditions"),
    [
        (f"SELECT * FROM {T} AS a LEFT JOIN {T}2 AS b ON a.id = b.id WHERE a.id = 5 AND b.id = 6 AND id = 7", (FIVE,)),
        (f"SELECT * FROM {T}2 AS b FULL JOIN {T} AS a ON a.id = b.id WHERE a.id = 5", (FIVE,)),
        (f"SELECT * FROM {T}2 JOIN {T} AS a USING (id) WHERE a.id = 5", ()),
        (f"SELECT * FROM {T}2 NATURAL JOIN {T} AS a WHERE a.id = 5", ()),
        (f"SELECT * FROM {T} AS a JOIN {T} AS b ON a.id = b.n WHERE a.id = 5", ()),
        (
            f"WITH c AS (SELECT * FROM {T} WHERE id = 5) SELECT * FROM c, (SELECT n FROM {T} WHERE n < 3) WHERE id = 9",
            (AnyOf((AllOf((FIVE,)), AllOf((is_("n", Operator.LESS, 3),)))),),
        ),
        (f"SELECT * FROM {T} AS a (n, m) WHERE n = 5", ()),
        (f"SELECT * FROM {T} PIVOT (max(n) FOR id IN (5)) WHERE id = 5", ()),
        (f"SELECT * FROM {T} LATERAL VIEW explode(array(1)) e AS id WHERE id = 5 AND t.id = 5", (FIVE,)),
        (f"SELECT (SELECT max(n) FROM {T} WHERE id = 5 AND region = o.region) FROM {T}2 AS o WHERE id = 6", (FIVE,)),
    ],
)
def test_conditions_of_each_use_of_the_table_count(sql: str, conditions: tuple[Condition, ...]) -> None:
    assert sorted(map(repr, needed(sql).conditions)) in (
        sorted(map(repr, conditions)),
        sorted(repr(AnyOf(tuple(reversed(part.parts)))) for part in conditions if isinstance(part, AnyOf)),
    )


@pytest.mark.parametrize(
    ("sql", "limit"),
    [
        (f"SELECT * FROM {T} LIMIT 3", 3),
        (f"SELECT id, n AS m FROM {T} WHERE id > 5 AND region = 'n' LIMIT 3", 3),
        (f"SELECT id FROM {T} WHERE id > 5 AND upper(region) = 'N' LIMIT 3", None),
        (f"SELECT id FROM {T} LIMIT 3 OFFSET 1", None),
        (f"SELECT id FROM {T} ORDER BY n LIMIT 3", None),
        (f"SELECT DISTINCT n FROM {T} LIMIT 3", None),
        (f"SELECT count(*) FROM {T} LIMIT 3", None),
        (f"SELECT n FROM {T} GROUP BY n LIMIT 3", None),
        (f"SELECT explode(array(n)) FROM {T} LIMIT 3", None),
        (f"SELECT row_number() OVER (ORDER BY n) FROM {T} LIMIT 3", None),
        (f"SELECT (SELECT max(id) FROM {T}) FROM {T} LIMIT 3", None),
        (f"SELECT id FROM {T} JOIN {T}2 USING (id) LIMIT 3", None),
        (f"SELECT id FROM {T} UNION ALL SELECT 1 LIMIT 3", None),
        (f"SELECT id FROM {T} LIMIT 1 + 2", None),
        (f"SELECT id FROM {T} LIMIT -1", None),
    ],
)
def test_a_limit_is_that_of_a_query_that_returns_the_rows_of_the_table(sql: str, limit: int | None) -> None:
    assert needed(sql).limit == limit


class Shop:
    """A folder with the log table `t` and the primary-key table `k`, both with partitions, rows in lake and log, and deleted keys."""

    def __init__(self, world: FolderWorld, engine: DuckDbEngine, seed: int) -> None:
        self.world, self.engine = world, engine
        choose = random.Random(seed)
        self.log = world.table("t", 3, ("region",), SCHEMA, ("id",))
        self.keyed = world.primary_key_table("k", 3, SCHEMA, ("id", "region"), ("region",))
        for number in range(4):
            ids = choose.sample(range(30), 12)
            rows = [self._row(choose, row_id) for row_id in ids]
            batch = pa.RecordBatch.from_pylist(rows, SCHEMA)
            world.storage.append(self.log.path, batch, f"writer-{number}", 0)
            world.storage.upsert(self.keyed.path, batch, f"writer-{number}", 0)
            keys = batch.slice(0, 2).select(["id", "region"])
            world.storage.delete(self.keyed.path, keys, f"writer-{number}", 1)
            if number < 3:
                world.due()
                world.tier_all()

    @staticmethod
    def _row(choose: random.Random, row_id: int) -> dict[str, object]:
        texts = [None, "", "a", "ab", "ä"]
        n = choose.choice([None, -1, 0, 1, 32767])
        real, day = choose.choice([None, 0.5, 1.0]), choose.choice([None, *map(date.fromisoformat, DAYS)])
        return {"id": row_id, "region": choose.choice("nsw"), "n": n, "Text": choose.choice(texts), "real": real, "day": day}

    def rows(self, sql: str) -> list[str]:
        return sorted(repr(tuple(row)) for row in self.engine.execute(sql).rows)


@pytest.fixture(scope="module", params=[ICEBERG, PAIMON_CLEAN], ids=lambda kind: kind.name)
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("data")
    world, engine = FolderWorld(folder, request.param), DuckDbEngine(folder, request.param.format, {})
    yield Shop(world, engine, seed=39)
    engine.close()
    world.close()


def where(choose: random.Random, alias: str) -> str:
    """Returns a random condition on columns of a table."""

    def comparison() -> str:
        column, literals = choose.choice(
            [
                ("id", ["3", "-1", "17", "29.5"]),
                ("region", ["'n'", "'s'", "'x'"]),
                ("n", ["0", "1", "70000", "0.5"]),
                ("text", ["''", "'a'"]),
                ("day", [*(f"DATE '{day}'" for day in DAYS), *(f"'{day}'" for day in DAYS), "DATE '2026-02-01'"]),
            ]
        )
        low, high = (choose.choice(literals) for _ in range(2))
        forms = [f"{operator} {low}" for operator in ("=", "<", "<=", ">", ">=", "<>", "<=>")]
        form = choose.choice([*forms, f"IN ({low}, {high})", f"BETWEEN {low} AND {high}", "IS NULL", "IS NOT NULL"])
        negation = choose.choice(["", "", "", "NOT "])
        return f"{negation}{alias}.{column} {form}"

    joined = choose.choice([" AND ", " OR "]).join(comparison() for _ in range(choose.randint(1, 3)))
    return f"({joined})" + choose.choice(["", f" AND {comparison()}"])


def statement(choose: random.Random) -> str:
    """Returns a random query whose rows do not depend on an order."""
    first, second = choose.choice("tk"), choose.choice("tk")
    join = choose.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
    return choose.choice(
        [
            f"SELECT * FROM sales.{first} AS a WHERE {where(choose, 'a')}",
            f"SELECT count(*), sum(n) FROM sales.{first} AS a WHERE {where(choose, 'a')}",
            f"SELECT a.id, a.region FROM sales.{first} AS a {join} sales.{second} AS b ON a.id = b.id WHERE {where(choose, 'a')}",
            f"SELECT a.id, b.n FROM sales.{first} AS a LEFT JOIN sales.{second} AS b ON a.id = b.id AND a.n < b.n "
            f"WHERE {where(choose, 'b')}",
            f"WITH c AS (SELECT * FROM sales.{first} AS a WHERE {where(choose, 'a')}) SELECT * FROM c WHERE {where(choose, 'c')}",
            f"SELECT id FROM sales.{first} AS a WHERE id IN (SELECT id FROM sales.{second} AS b WHERE {where(choose, 'b')})",
            f"SELECT (SELECT count(*) FROM sales.{first} AS a WHERE {where(choose, 'a')}), (SELECT max(id) FROM sales.{first} AS b)",
        ]
    )


@pytest.mark.parametrize("seed", range(2))
def test_answers_are_the_same_as_with_all_rows(shop: Shop, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    choose = random.Random(seed)
    statements = [statement(choose) for _ in range(25)]

    answers = [shop.rows(sql) for sql in statements]
    monkeypatch.setattr(relations, "needed_rows", lambda *query: NeededRows())
    whole = [shop.rows(sql) for sql in statements]

    for sql, answer, expected in zip(statements, answers, whole, strict=True):
        assert answer == expected, sql


@pytest.mark.parametrize("table", ["t", "k"])
@pytest.mark.parametrize("limit", [0, 1, 5, 1_000])
def test_a_limited_query_has_as_many_rows_as_there_are(shop: Shop, table: str, limit: int) -> None:
    for condition in ("", "WHERE id < 20", "WHERE n = 0", "WHERE length(text) = 1"):
        rows = shop.rows(f"SELECT id FROM sales.{table} {condition} LIMIT {limit}")
        [count] = shop.engine.execute(f"SELECT count(*) FROM sales.{table} {condition}").rows
        assert len(rows) == min(limit, count[0])


def test_a_query_reads_the_needed_rows_and_partitions_alone(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, read, files = LocalRead.rows, list[int](), list[int]()

    def counted(local: LocalRead, scan: ReadScan) -> Iterator[pa.RecordBatch]:
        for batch in rows(local, scan):
            read.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(LocalRead, "rows", counted)
    lake_files = relations.Relations.files
    monkeypatch.setattr(relations.Relations, "files", lambda *call: files.append(len(lake_files(*call))) or lake_files(*call))

    def cost(sql: str) -> tuple[int, int]:
        read.clear()
        files.clear()
        shop.rows(sql)
        return sum(read), files[-1]

    whole = cost("SELECT * FROM sales.t")
    one_partition = cost("SELECT * FROM sales.t WHERE region = 'n'")
    log_of_partition = cost("SELECT * FROM sales.t WHERE region = 'n' AND id = 100")
    assert 0 < one_partition[0] < whole[0]
    assert 0 < one_partition[1] < whole[1]
    assert log_of_partition == (0, one_partition[1])
    assert cost("SELECT * FROM sales.t WHERE day = DATE '2026-02-01'") == (0, whole[1])
    assert 0 < cost("SELECT * FROM sales.t WHERE day >= '1970-01-01'")[0] < whole[0]
    assert cost("SELECT * FROM sales.t LIMIT 1")[0] == 1
    assert cost("SELECT * FROM sales.t WHERE region = 'elsewhere'") == (0, 0)
    assert cost("SELECT * FROM sales.k WHERE id = 100") == (0, cost("SELECT * FROM sales.k")[1])


@pytest.fixture(params=LAKE_KINDS, ids=lambda kind: kind.name)
def orders(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[FolderWorld, DuckDbEngine]]:
    world, engine = FolderWorld(tmp_path, request.param), DuckDbEngine(tmp_path, request.param.format, {})
    table = world.table("orders")
    world.append(table, 0, 4)
    world.tier(table)
    yield world, engine
    engine.close()
    world.close()


def test_a_lake_column_that_is_renamed_after_the_read_began_is_an_error(
    orders: tuple[FolderWorld, DuckDbEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, engine = orders
    open_read, renamed = StatementReads.open, list[int]()

    def opened_before_a_rename(reads: StatementReads, path: TablePath) -> FreshRead:
        read = open_read(reads, path)
        if not renamed:
            renamed.append(1)
            world.by_hand.rename_column(path, "text", "words")
        return read

    monkeypatch.setattr(StatementReads, "open", opened_before_a_rename)

    def rows(sql: str) -> Any:
        return engine.execute(sql).rows

    drift = r"\[SchemaDrift\].*'text' renamed to 'words'|\[InvalidArgument\].*'text' is not the present column of that name"
    with pytest.raises(StatementFailed, match=drift):
        rows("SELECT text FROM sales.orders")
    assert renamed == [1]
