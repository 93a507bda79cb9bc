"""The present rows of one primary-key table, in a separate DuckDB file: a copy of the result of its log (DESIGN 9).

The rows, and for each bucket the offset up to which the log was applied, change in one transaction, so that they are consistent after a
crash. The file may be lost at any time: it is rebuilt when it is found missing or damaged (`catch_up.py`). Columns are stored by field id
(`c0` has the id 1), so that a user's names are never part of a statement, and renaming or moving a column changes nothing. There is no
index; look-ups are joins.

Only one thread at a time may use it. Every method may raise duckdb.Error; `primary_key_tables.py` converts it.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tiering import crash_points
from tiering.cluster.embedded.metadata.database import FIRST_SCHEMA, bucket_key, stored_partition
from tiering.cluster.embedded.stored_columns import ColumnsAt
from tiering.cluster.key_columns import last_of_each_key
from tiering.cluster.rows import fit_columns
from tiering.library_guards.duckdb_guard import lock
from tiering.model.schema.field_ids import field_id, identity
from tiering.model.schema.row_conversion import converted_rows, has_same_values
from tiering.model.tables import BucketKey, ChangeType, TableInfo

KV_FOLDER = "kv"
SUFFIX = ".duckdb"
MEMORY_LIMIT = "512MB"
"""Memory limit of each open table; beyond it DuckDB spills to a folder beside the file."""
THREADS = 2
CHECKPOINT_THRESHOLD = "64MB"
"""Size of the changes after which DuckDB rewrites its file. The file is a copy, so a long tail of changes to replay costs only time."""
EXPORT_BATCH_ROWS = 8_192
"""Rows of an exported batch: few enough that batches of wide rows stay small, enough that the overhead of a batch does not matter."""
MAX_ERROR_CHARACTERS = 300
"""Maximum length of DuckDB's message about a record."""
_FORMAT = 2
"""2: the schema id of the columns. A file of format 1 is upgraded when it is opened."""


class KvState:
    """The rows of one table, in an open DuckDB file."""

    def __init__(self, file: Path, table: TableInfo, columns_at: ColumnsAt) -> None:
        """Opens or creates the file. `columns_at` returns the columns of a schema id.

        Raises duckdb.Error if the file belongs to another table, has another format or later columns, or is damaged.
        """
        file.parent.mkdir(parents=True, exist_ok=True)
        config: dict[str, Any] = {
            "memory_limit": MEMORY_LIMIT,
            "threads": THREADS,
            "temp_directory": f"{file}.tmp",
            "checkpoint_threshold": CHECKPOINT_THRESHOLD,
            "preserve_insertion_order": False,
        }
        self._connection = duckdb.connect(str(file), config=config)
        try:
            self._prepare(table, columns_at)
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self, table: TableInfo, columns_at: ColumnsAt) -> None:
        run = self._connection.execute
        run("SET TimeZone = 'UTC'")
        lock(self._connection)
        self._keys = [_stored_name(table.schema.field(name)) for name in table.primary_key]
        self._key_names = list(table.primary_key)
        self._schema, self._schema_id = table.schema, table.schema_id
        if not run("SELECT 1 FROM duckdb_tables() WHERE table_name = 'identity'").fetchone():
            with self._transaction():
                values = [table.table_id, _FORMAT, table.schema_id]
                run("CREATE TABLE identity AS SELECT ?::BIGINT AS table_id, ?::INTEGER AS format, ?::INTEGER AS schema_id", values)
                run("CREATE TABLE applied (p BIGINT, b INTEGER, next_offset BIGINT)")
                self._create("kv", table.schema)
        columns = run("SELECT column_name FROM duckdb_columns() WHERE table_name = 'identity'").fetchall()
        if ("schema_id",) not in columns:
            self._upgrade(columns_at(FIRST_SCHEMA))
        identity = run("SELECT table_id, format, schema_id FROM identity").fetchone()
        if identity is None or identity[:2] != (table.table_id, _FORMAT) or identity[2] > table.schema_id:
            raise duckdb.InvalidInputException(f"the file is of table, format and columns {identity}")
        self._schema_id = identity[2]
        self._schema = table.schema if self._schema_id == table.schema_id else columns_at(self._schema_id)
        self.follow(table, columns_at)

    def _upgrade(self, schema: pa.Schema) -> None:
        """Gives a file of format 1, which has the first columns of the first schema, all columns of that schema."""
        run = self._connection.execute
        with self._transaction():
            stored = {name for (name,) in run("SELECT column_name FROM duckdb_columns() WHERE table_name = 'kv'").fetchall()}
            self._add("kv", schema, [field for field in schema if _stored_name(field) not in stored])
            run(f"ALTER TABLE identity ADD COLUMN schema_id INTEGER DEFAULT {FIRST_SCHEMA}")
            run("UPDATE identity SET format = ?", [_FORMAT])

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()

    def follow(self, table: TableInfo, columns_at: ColumnsAt) -> None:
        """Gives the rows the table's present columns, in one transaction."""
        if self._schema_id == table.schema_id:
            return
        former, present = columns_at(self._schema_id), table.schema
        before, after = ({identity(field): field for field in schema} for schema in (former, present))
        with self._transaction():
            if all(_has_same_form(before[key], after[key]) for key in before.keys() & after.keys()):
                self._add("kv", present, [field for key, field in after.items() if key not in before])
                for key in before.keys() - after.keys():
                    self._connection.execute(f"ALTER TABLE kv DROP COLUMN {_stored_name(before[key])}")
            else:
                self._rewrite(former, present)
            self._connection.execute("UPDATE identity SET schema_id = ?", [table.schema_id])
        self._schema, self._schema_id = present, table.schema_id

    def _rewrite(self, former: pa.Schema, present: pa.Schema) -> None:
        """Replaces the rows by rows with the present columns. A second connection reads them, within its own transaction."""
        self._create("new_kv", present)
        with self._connection.cursor() as reading:
            selected = reading.sql(f"SELECT p, b, {_list('kv', former)} FROM kv").to_arrow_reader(EXPORT_BATCH_ROWS)
            for batch in selected:
                whole = pa.Table.from_batches([batch])
                rows = converted_rows(_as_rows(whole.drop_columns(["p", "b"]), former), former, present)
                columns: list[Any] = [whole.column("p"), whole.column("b"), *rows.columns]
                with self._registered("rows", pa.Table.from_arrays(columns, names=["p", "b", *_stored_names(present)])):
                    self._connection.execute(f"INSERT INTO new_kv SELECT p, b, {_list('rows', present)} FROM rows")
        self._connection.execute("DROP TABLE kv")
        self._connection.execute("ALTER TABLE new_kv RENAME TO kv")

    def _create(self, table: str, schema: pa.Schema) -> None:
        self._connection.execute(f"CREATE TABLE {table} (p BIGINT, b INTEGER)")
        self._add(table, schema, list(schema))

    def _add(self, table: str, schema: pa.Schema, fields: Sequence[pa.Field[Any]]) -> None:
        """Adds columns, with NULL in all rows."""
        with self._registered("sample", _stored(pa.Table.from_batches([], schema), schema)):
            kinds = {name: kind for name, kind, *_ in self._connection.execute("DESCRIBE SELECT * FROM sample").fetchall()}
        for name in map(_stored_name, fields):
            self._connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kinds[name]}")

    def applied(self) -> Mapping[BucketKey, int]:
        """Returns the next offset to apply for each bucket; buckets without applied records are left out."""
        rows = self._connection.execute("SELECT p, b, next_offset FROM applied").fetchall()
        return {bucket_key(partition, bucket): offset for partition, bucket, offset in rows}

    def look_up(self, keys: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], pa.RecordBatch]:
        """Returns the rows that have one of `keys` (distinct, in the key's order): the positions of the found keys, ascending, and the
        rows.
        """
        names = [f"k{number}" for number in range(keys.num_columns)]
        requested = pa.Table.from_arrays([*keys.columns, pa.array(np.arange(keys.num_rows))], names=[*names, "position"])
        same = " AND ".join(f"kv.{column} = requested.{name}" for column, name in zip(self._keys, names, strict=True))
        with self._registered("requested", requested):
            selected = self._connection.sql(
                f"SELECT requested.position, {_list('kv', self._schema)} FROM requested JOIN kv ON {same} ORDER BY requested.position"
            ).to_arrow_table()
        rows = _as_rows(selected.drop_columns(["position"]), self._schema)
        return selected.column("position").to_numpy(), rows

    def apply(self, changes: pa.Table, kinds: npt.NDArray[np.int8], places: pa.Table, reached: Mapping[BucketKey, int]) -> None:
        """Applies records of the log and stores their last offsets, in one transaction. Records of a bucket are in offset order.

        `changes` has the table's columns, `kinds` the change types, `places` the columns p and b.
        """
        lasting = np.flatnonzero(kinds != ChangeType.UPDATE_BEFORE)
        keys = changes.select(self._key_names).take(lasting).combine_chunks().to_batches()
        last = lasting[last_of_each_key(keys[0])] if keys else lasting
        is_deleted = pa.array(kinds[last] == ChangeType.DELETE)
        net = pa.Table.from_arrays(
            [*places.take(last).columns, *_stored(changes.take(last), self._schema).columns, is_deleted],
            names=["p", "b", *_stored_names(self._schema), "is_deleted"],
        )
        same = " AND ".join(f"kv.{column} = net.{column}" for column in self._keys)
        with self._registered("net", net), self._transaction():
            if len(last):
                self._connection.execute(f"DELETE FROM kv USING net WHERE {same}")
                self._connection.execute(self._insert(f"p, b, {_list('net', self._schema)} FROM net WHERE NOT is_deleted"))
            self._note(reached)
            crash_points.reach(crash_points.KV_APPLYING)

    def load(self, bucket: BucketKey, batches: Iterable[pa.RecordBatch], log_offset: int) -> None:
        """Replaces all rows of a bucket by `batches`, as of `log_offset`, in one transaction."""
        place = [stored_partition(bucket), bucket.bucket_id]
        with self._transaction():
            self._connection.execute("DELETE FROM kv WHERE p = ? AND b = ?", place)
            for batch in batches:
                with self._registered("rows", _stored(pa.Table.from_batches([batch]), self._schema)):
                    self._connection.execute(self._insert(f"?, ?, {_list('rows', self._schema)} FROM rows"), place)
            self._note({bucket: log_offset})

    def forget(self, buckets: Collection[BucketKey]) -> None:
        """Removes the rows and offsets of buckets whose partition was dropped."""
        with self._transaction():
            for bucket in buckets:
                for table in ("kv", "applied"):
                    self._connection.execute(f"DELETE FROM {table} WHERE p = ? AND b = ?", [stored_partition(bucket), bucket.bucket_id])

    def rows(self, bucket: BucketKey) -> Iterator[pa.RecordBatch]:
        """Yields all rows of a bucket, unordered, in batches of bounded size."""
        query = f"SELECT {_list('kv', self._schema)} FROM kv WHERE p = ? AND b = ?"
        selected = self._connection.sql(query, params=[stored_partition(bucket), bucket.bucket_id])
        for batch in selected.to_arrow_reader(EXPORT_BATCH_ROWS):
            if batch.num_rows:
                yield _as_rows(pa.Table.from_batches([batch]), self._schema)

    def _note(self, reached: Mapping[BucketKey, int]) -> None:
        numbers = [(stored_partition(bucket), bucket.bucket_id, offset) for bucket, offset in reached.items()]
        columns = [pa.array([row[index] for row in numbers], pa.int64()) for index in range(3)]
        with self._registered("reached", pa.Table.from_arrays(columns, names=["p", "b", "next_offset"])):
            self._connection.execute("DELETE FROM applied USING reached WHERE applied.p = reached.p AND applied.b = reached.b")
            self._connection.execute("INSERT INTO applied SELECT * FROM reached")

    def _insert(self, values: str) -> str:
        return f"INSERT INTO kv (p, b, {', '.join(_stored_names(self._schema))}) SELECT {values}"

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.begin()
        try:
            yield
        except BaseException:
            self._connection.rollback()
            raise
        self._connection.commit()

    @contextlib.contextmanager
    def _registered(self, name: str, table: pa.Table) -> Iterator[None]:
        self._connection.register(name, table)
        try:
            yield
        finally:
            self._connection.unregister(name)


def state_file(root: Path, table_id: int) -> Path:
    """Returns the path of a table's state."""
    return root / KV_FOLDER / f"{table_id}{SUFFIX}"


def remove_state(file: Path) -> None:
    """Removes the file of a state and the files that DuckDB keeps beside it. Raises OSError."""
    file.unlink(missing_ok=True)
    file.with_name(file.name + ".wal").unlink(missing_ok=True)
    shutil.rmtree(f"{file}.tmp", ignore_errors=True)


def _stored_name(field: pa.Field[Any]) -> str:
    """Returns the name of a column in the file. It follows from the field id, which no change of the columns alters."""
    number = field_id(field)
    assert number is not None
    return f"c{number - 1}"


def _has_same_form(former: pa.Field[Any], present: pa.Field[Any]) -> bool:
    """Returns whether DuckDB stores both alike; it stores the names of nested fields."""
    return former.type == present.type and has_same_values(pa.schema([former]), pa.schema([present]))


def _stored_names(schema: pa.Schema) -> list[str]:
    return [_stored_name(field) for field in schema]


def _list(table: str, schema: pa.Schema) -> str:
    return ", ".join(f"{table}.{name}" for name in _stored_names(schema))


def _stored(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    return rows.rename_columns(_stored_names(schema))


def _as_rows(selected: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    """Returns DuckDB's result with the table's types: DuckDB gives nested fields of lists and maps other names."""
    return fit_columns(selected.rename_columns(schema.names), schema)


def first_refused(rows: pa.Table) -> tuple[int, str] | None:
    """Returns position and error of the first row that DuckDB cannot store; None if it can store all rows."""
    with duckdb.connect(config={"threads": 1}) as connection:
        error = _error_of(connection, rows)
        if error is None:
            return None
        start, stop = 0, rows.num_rows
        while stop - start > 1:
            middle = (start + stop) // 2
            half = _error_of(connection, rows.slice(start, middle - start))
            if half is None:
                start = middle
            else:
                stop, error = middle, half
        return start, _error_of(connection, rows.slice(start, 1)) or error


def _error_of(connection: duckdb.DuckDBPyConnection, rows: pa.Table) -> str | None:
    connection.register("rows_to_take", rows.take(np.arange(rows.num_rows)))
    try:
        connection.execute("CREATE OR REPLACE TEMP TABLE taken AS SELECT * FROM rows_to_take")
    except duckdb.Error as error:
        return " ".join(str(error).split())[:MAX_ERROR_CHARACTERS]
    finally:
        connection.unregister("rows_to_take")
    return None
