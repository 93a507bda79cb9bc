"""The rows of the matrix: tables as rounds left them, and what a right reader answers about them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from support.clusters.embedded import scan_all
from support.readers.paimon_java import JavaReader
from support.readers.questions import Condition, Question
from support.readers.source_tables import Row, SourceTable, Tables
from support.values.every_type import CASES, LATER, LATER_VALUES
from tiering.lake.file_lists import ReadableLake
from tiering.model.tables import BUCKET_COLUMN, OFFSET_COLUMN, TIMESTAMP_COLUMN

SYSTEM_COLUMNS = (BUCKET_COLUMN, OFFSET_COLUMN, TIMESTAMP_COLUMN)
TYPES, ENCODINGS, TABLES, DELETES, CHANGED, LETTERS, CONDITIONS, VERSIONS = (
    "Types, with NULL and the values at their edges",
    "Encodings of Parquet",
    "Tables",
    "Primary-key tables after updates and deletes",
    "After upkeep, and after changes of columns",
    "Dead letters: records that rounds put aside",
    "Conditions, by which readers leave files out",
    "Earlier snapshots",
)
GROUPS = (TYPES, ENCODINGS, TABLES, DELETES, CHANGED, LETTERS, CONDITIONS, VERSIONS)
ID = pa.field("id", pa.int64(), nullable=False)
TEXTS = pa.schema([ID, pa.field("text", pa.string())])
PLACES = pa.schema(
    [
        ID,
        pa.field("day", pa.date32(), nullable=False),
        pa.field("region", pa.string(), nullable=False),
        pa.field("year", pa.int32(), nullable=False),
        pa.field("text", pa.string()),
    ]
)
ENCODED_ROWS = 3_000
KEYS = 20_000
"""More than any reader takes at a time."""
BALLAST = "x" * (1 << 20)
"""Some 64 rows with it fill a row group (`tiering.lake.iceberg.writing.writer`)."""


@dataclass(frozen=True)
class Case:
    """One row of the matrix. `expected`: the right rows, in the lake's types."""

    layout: str
    group: str
    title: str
    question: Question
    expected: pa.Table


Story = Generator[None, None, list[Case]]
"""Writes to tables, and yields for a round of all of them; returns the cases when its tables stay as they are."""


def case_of(
    group: str,
    title: str,
    table: SourceTable,
    rows: Sequence[Row] | None = None,
    columns: Sequence[str] | None = None,
    snapshot_id: int | None = None,
    condition: Condition | None = None,
) -> Case:
    """About all columns of the source, or its first one and `columns`. `rows`: the right ones; None = all of the source."""
    names = tuple(dict.fromkeys((table.info.schema.names[0], *(columns or table.info.schema.names))))
    types = table.lake_columns()
    rows = table.rows if rows is None else rows
    arrays = [pa.array([row[name] for row in rows], types.field(name).type) for name in names]
    return Case(table.layout, group, title, Question(table.name, names, snapshot_id, condition), pa.table(arrays, names=list(names)))


def texts(*numbers: int, word: str = "row") -> list[Row]:
    return [{"id": number, "text": None if number % 7 == 3 else f"{word} {number}"} for number in numbers]


# --- types

TITLES: Mapping[str, str] = {
    "a_boolean": "BOOLEAN",
    "a_byte": "TINYINT",
    "a_short": "SMALLINT",
    "an_int": "INT",
    "a_long": "BIGINT",
    "a_float": "FLOAT, with infinity and the smallest value",
    "a_double": "DOUBLE, with infinity and the smallest value",
    "a_decimal_9": "DECIMAL(9, 2)",
    "a_decimal_18": "DECIMAL(18, 18)",
    "a_decimal_38": "DECIMAL(38, 18)",
    "a_whole_decimal": "DECIMAL(38, 0)",
    "a_text": "STRING",
    "a_long_text": "STRING of more than 1 MB",
    "a_binary": "BYTES",
    "a_date": "DATE, of the years 1 to 9999",
    "a_timestamp": "TIMESTAMP, of the years 1 to 9999",
    "an_instant": "TIMESTAMP_LTZ, of the years 1 to 9999",
    "a_timestamp_of_ms": "TIMESTAMP(3)",
    "an_instant_of_s": "TIMESTAMP_LTZ(0)",
    "only_nulls": "nothing but NULL",
    "a_list": "ARRAY of STRING",
    "a_map": "MAP of STRING to BIGINT",
    "a_struct": "ROW",
    "lists_of_lists": "ARRAY of ARRAY",
    "lists_of_structs": "ARRAY of ROW",
    "maps_of_lists": "MAP to ARRAY",
    "maps_of_maps": "MAP to MAP",
    "structs_of_all": "ROW of ARRAY, MAP to ROW, and ROW",
}
COARSE: Mapping[str, tuple[pa.DataType, list[Any]]] = {
    "a_timestamp_of_ms": (pa.timestamp("ms"), [datetime(1969, 12, 31, 23, 59, 59, 999000), None, datetime(2262, 4, 12), datetime(1, 1, 1)]),
    "an_instant_of_s": (pa.timestamp("s", "UTC"), [datetime(1900, 1, 1, tzinfo=UTC), None, datetime(9999, 1, 1, tzinfo=UTC), None]),
}


def every_type(tables: Tables) -> Story:
    values = {**CASES, **COARSE}
    table = tables.make("every_type", pa.schema([ID, *(pa.field(name, kind) for name, (kind, _) in values.items())]), 1)
    for first in (0, 4):
        table.append([{"id": first + row, **{name: column[row] for name, (_, column) in values.items()}} for row in range(4)])
        yield
    narrow = [name for name in ("a_byte", "a_short") if table.lake_columns().field(name).type == pa.int32()]
    titles = {**TITLES, **{name: f"{TITLES[name]} (INT in the lake)" for name in narrow}}
    cases = [case_of(TYPES, title, table, columns=[name]) for name, title in titles.items()]
    return [*cases, case_of(TYPES, "all of these in one table", table)]


# --- encodings


def encodings(tables: Tables) -> Story:
    columns: Mapping[str, tuple[pa.DataType, Callable[[int], Any]]] = {
        "whole": (pa.int64(), lambda n: n * n * (-1) ** n),
        "moment": (pa.timestamp("us", "UTC"), lambda n: datetime(2024, 1, 1, tzinfo=UTC) + timedelta(microseconds=n * 7_919)),
        "day": (pa.date32(), lambda n: date(2024, 1, 1) + timedelta(days=n)),
        "real": (pa.float64(), lambda n: n / 7),
        "small_real": (pa.float32(), lambda n: n / 8),
        "word": (pa.string(), lambda n: f"word {n % 9}"),
        "code": (pa.binary(), lambda n: bytes([n % 5])),
        "price": (pa.decimal128(12, 2), lambda n: Decimal(n % 11).scaleb(-2)),
        "text": (pa.string(), lambda n: f"text {n}"),
        "amount": (pa.decimal128(20, 3), lambda n: Decimal(n).scaleb(-3)),
        "truth": (pa.bool_(), lambda n: n % 3 == 0),
        "numbers": (pa.list_(pa.int32()), lambda n: [n] * (n % 4)),
    }
    table = tables.make("encodings", pa.schema([ID, *(pa.field(name, kind) for name, (kind, _) in columns.items())]), 1)
    table.append(
        [{"id": n, **{name: None if n % 10 == 4 else value(n) for name, (_, value) in columns.items()}} for n in range(ENCODED_ROWS)]
    )
    yield
    titles = [
        ("DELTA_BINARY_PACKED", ("integers", "timestamps", "dates")),
        ("BYTE_STREAM_SPLIT" if table.world.lake_format == "iceberg" else "PLAIN", ("doubles", "floats")),
        ("RLE_DICTIONARY", ("strings that repeat", "bytes that repeat", "decimals that repeat")),
        ("PLAIN", ("strings", "decimals", "booleans", "a list")),
    ]
    named = [(encoding, title) for encoding, kinds in titles for title in kinds]
    return [_encoded(table, name, encoding, f"`{encoding}`, zstd: {title}") for name, (encoding, title) in zip(columns, named, strict=True)]


def _encoded(table: SourceTable, column: str, encoding: str, title: str) -> Case:
    """A case of a column that is written so, which is looked up in the file."""
    (file,) = data_files(table)
    group = pq.read_metadata(file).row_group(0)
    chunks = [group.column(number) for number in range(group.num_columns)]
    [chunk] = [chunk for chunk in chunks if chunk.path_in_schema.split(".")[0] == column]
    plain = {"PLAIN", "RLE"}  # levels, and booleans
    assert encoding in chunk.encodings, (column, chunk.encodings)
    assert encoding != "PLAIN" or set(chunk.encodings) <= plain, (column, chunk.encodings)
    assert chunk.compression == "ZSTD"
    return case_of(ENCODINGS, title, table, columns=[column])


def data_files(table: SourceTable) -> list[str]:
    """Where the live data files of a table are."""
    lake = table.world.lake
    assert isinstance(lake, ReadableLake)
    return [file.path for file in lake.file_lists(table.world.view(table.info), None).data]


# --- log tables


def log_tables(tables: Tables) -> Story:
    table = tables.make("log", TEXTS)
    table.append(texts(*range(500)))
    yield
    first, before = table.head(), list(table.rows)
    table.append(texts(*range(500, 700)))
    table.append(texts(*range(700, 900)))
    yield
    second, between = table.head(), list(table.rows)
    table.append(texts(*range(900, 1_000)))
    yield
    cases = [
        case_of(TABLES, "log table, three rounds, two buckets", table),
        case_of(CONDITIONS, "a value in one file of several", table, [table.rows[950]], condition=Condition("id", 950)),
        case_of(CONDITIONS, "a value in no file", table, [], condition=Condition("text", "nothing")),
        case_of(VERSIONS, "log table after its first round", table, before, snapshot_id=first),
        case_of(VERSIONS, "log table after its second round", table, between, snapshot_id=second),
    ]
    return [*cases, *offsets_case(table, TABLES, "`__bucket`, `__offset`, `__timestamp`")]


def bucket_keys(tables: Tables) -> Story:
    table = tables.make("hashed", TEXTS, 4, bucket_keys=("id",))
    for first in (0, 500):
        table.append(texts(*range(first, first + 500)))
        yield
    row = [row for row in table.rows if row["id"] == 510]
    return [
        case_of(TABLES, "log table with a bucket key", table),
        case_of(CONDITIONS, "the bucket key of a log table", table, row, condition=Condition("id", 510)),
    ]


def offsets_case(table: SourceTable, group: str, title: str) -> list[Case]:
    """The system columns of a log table, where the layout has them: as the log has them."""
    names, types = ["id", *SYSTEM_COLUMNS], table.lake_columns()
    if OFFSET_COLUMN not in types.names:
        return []
    log = scan_all(table.world.storage, table.info).select(names)
    right = log.cast(pa.schema([types.field(name) for name in names]))
    return [Case(table.layout, group, title, Question(table.name, tuple(names)), right)]


# --- primary-key tables


def primary_keys(tables: Tables) -> Story:
    table = tables.make("planes", TEXTS, primary_key=("id",))
    fresh = tables.make("fresh", TEXTS, primary_key=("id",))
    table.upsert(texts(*range(KEYS)))
    fresh.upsert(texts(*range(100)))
    yield
    first, before = table.head(), list(table.rows)
    table.upsert(texts(*range(0, KEYS, 12), word="newer"))
    table.delete(texts(*range(5, KEYS, 100)))
    yield
    second, between = table.head(), list(table.rows)
    table.upsert(texts(*range(0, KEYS, 36), 5, KEYS, word="newest"))
    table.delete(texts(KEYS, 12))
    yield
    assert table.world.lake_format != "iceberg" or delete_files(table)
    changed = [row for row in table.rows if row["id"] == 36]
    return [
        case_of(TABLES, "primary-key table, first round", fresh),
        case_of(DELETES, "updates and deletes of several rounds", table),
        case_of(CONDITIONS, "the key of a row that was updated twice", table, changed, condition=Condition("id", 36)),
        case_of(CONDITIONS, "the key of a row that was deleted", table, [], condition=Condition("id", 105)),
        case_of(VERSIONS, "primary-key table before its updates", table, before, snapshot_id=first),
        case_of(VERSIONS, "primary-key table between its updates", table, between, snapshot_id=second),
    ]


def rewritten(tables: Tables) -> Story:
    """A story in which a round deletes so many rows that the bucket is rewritten."""
    table = tables.make("rewritten", TEXTS, 1, primary_key=("id",))
    table.upsert(texts(*range(100)))
    yield
    table.upsert(texts(*range(10), word="newer"))
    yield
    assert delete_files(table)
    table.upsert(texts(*range(80), word="newest"))
    yield
    assert not delete_files(table)
    table.delete(texts(7))
    yield
    return [case_of(DELETES, "a bucket that was written anew, and a delete after it", table)]


def all_deleted(tables: Tables) -> Story:
    table = tables.make("gone", TEXTS, primary_key=("id",))
    table.upsert(texts(*range(20)))
    yield
    table.delete(texts(*range(20)))
    yield
    return [case_of(DELETES, "every row deleted", table, [])]


def compacted(tables: Tables) -> Story:
    """The round after a compaction puts its changes above files that Paimon wrote."""
    table = tables.make("compacted", TEXTS, primary_key=("id",))
    table.upsert(texts(*range(300)))
    yield
    table.upsert(texts(*range(0, 300, 4), word="newer"))
    table.delete(texts(*range(2, 300, 20)))
    yield
    JavaReader(tables.world.warehouse).compact(table.name, buckets=2)
    assert len(data_files(table)) == 2
    table.upsert(texts(*range(0, 300, 8), 2, word="newest"))
    table.delete(texts(4, 5))
    yield
    assert len(data_files(table)) == 4
    return [case_of(DELETES, "files that Paimon's Java compacted, and changes after it", table)]


def row_groups(tables: Tables) -> Story:
    """A reader that counts rows anew in each row group hides others than the deletes name."""
    table = tables.make("heavy", pa.schema([*TEXTS, pa.field("ballast", pa.string())]), 1, primary_key=("id",))
    table.upsert([{**row, "ballast": BALLAST} for row in texts(*range(70))])
    yield
    table.upsert([{**row, "ballast": None} for row in texts(0, 12, 50, 65, 66, word="newer")])
    table.delete(texts(1, 66, 69))
    yield
    assert max(pq.read_metadata(file).num_row_groups for file in data_files(table)) > 1
    assert delete_files(table)
    return [case_of(DELETES, "files of several row groups", table, columns=["text"])]


def delete_files(table: SourceTable) -> list[str]:
    """The live delete files of a table."""
    return [file.file_path for task in table.world.iceberg(table.info).scan().plan_files() for file in task.delete_files]


# --- partitions


def _places(*numbers: int, word: str = "row") -> list[Row]:
    return [
        {**row, "day": date(2024, 2, 29) + timedelta(days=row["id"] % 3), "region": f"r-{row['id'] % 2}", "year": 2_020 + row["id"] % 2}
        for row in texts(*numbers, word=word)
    ]


PARTITION_KEYS = ("day", "region", "year")


def log_partitions(tables: Tables) -> Story:
    table = tables.make("places", PLACES, partition_keys=PARTITION_KEYS)
    for first in (0, 60):
        table.append(_places(*range(first, first + 60)))
        yield
    leap = [row for row in table.rows if row["day"] == date(2024, 2, 29)]
    return [
        case_of(TABLES, "log table with partitions: DATE, STRING, INT", table),
        case_of(CONDITIONS, "a partition column, DATE", table, leap, condition=Condition("day", date(2024, 2, 29))),
    ]


def _changed_places(table: SourceTable) -> Generator[None, None, None]:
    table.upsert(_places(*range(60)))
    yield
    table.upsert(_places(*range(0, 30, 5), word="newer"))
    table.delete(_places(4, 44))
    yield


def primary_key_partitions(tables: Tables) -> Story:
    table = tables.make("kept_places", PLACES, primary_key=("id", *PARTITION_KEYS), partition_keys=PARTITION_KEYS)
    yield from _changed_places(table)
    odd = [row for row in table.rows if row["region"] == "r-1"]
    year = [row for row in table.rows if row["year"] == 2_020]
    return [
        case_of(DELETES, "partitions: DATE, STRING, INT", table),
        case_of(CONDITIONS, "a partition column, STRING, beside deletes", table, odd, condition=Condition("region", "r-1")),
        case_of(CONDITIONS, "a partition column, INT, beside deletes", table, year, condition=Condition("year", 2_020)),
    ]


def two_keys(tables: Tables) -> Story:
    share_files = tables.layout == "clean" and tables.world.lake_format == "iceberg"
    bucket_keys = ("id",) if share_files else ("id", "region")  # buckets of several keys would share files
    table = tables.make("pairs", PLACES, 3, primary_key=("id", "region"), bucket_keys=bucket_keys)
    yield from _changed_places(table)
    title = "a key of two columns, one of them the bucket key" if share_files else "a key of two columns, both bucket keys"
    return [case_of(DELETES, title, table)]


# --- columns that came later, tables without rows


LATER_FIELDS = (pa.field("price", pa.decimal128(9, 2)), LATER)


def _later_rows() -> list[Row]:
    return [{**row, "price": Decimal(row["id"]), LATER.name: LATER_VALUES[row["id"] % 4]} for row in texts(*range(4, 8))]


def log_columns(tables: Tables) -> Story:
    table = tables.make("grown", TEXTS, 1)
    table.append(texts(*range(4)))
    yield
    first, before = table.head(), texts(*range(4))
    table.add_columns(*LATER_FIELDS)
    table.append(_later_rows())
    yield
    return [
        case_of(TABLES, "columns added later: DECIMAL, ARRAY of ROW", table),
        case_of(VERSIONS, "log table before the columns came", table, before, columns=TEXTS.names, snapshot_id=first),
    ]


def primary_key_columns(tables: Tables) -> Story:
    table = tables.make("kept_grown", TEXTS, 1, primary_key=("id",))
    table.upsert(texts(*range(20)))
    yield
    table.add_columns(*LATER_FIELDS)
    table.upsert([{**row, "id": row["id"] - 3} for row in _later_rows()])
    yield
    return [case_of(DELETES, "columns added later, and updates with them", table)]


def names(tables: Tables) -> Story:
    table = tables.make("named", pa.schema([ID, *(pa.field(name, pa.int32()) for name in ("select", "user-id", "1st", "Upper"))]), 1)
    table.append([dict.fromkeys(table.info.schema.names, number) for number in range(5)])
    yield
    row = [row for row in table.rows if row["user-id"] == 3]
    return [
        case_of(TABLES, "columns named `select`, `user-id`, `1st`, `Upper`", table),
        case_of(CONDITIONS, "a column named `user-id`", table, row, condition=Condition("user-id", 3)),
    ]


def no_rows(tables: Tables) -> Story:
    """Made as a round's plan makes it; the round then had no commit."""
    table = tables.make("no_rows", PLACES, partition_keys=("day",))
    tables.world.lake.ensure_table(table.info)
    yield
    return [case_of(TABLES, "log table without a snapshot", table)]


def no_keys(tables: Tables) -> Story:
    table = tables.make("no_keys", TEXTS, primary_key=("id",))
    tables.world.lake.ensure_table(table.info)
    yield
    return [case_of(TABLES, "primary-key table without a snapshot", table)]
