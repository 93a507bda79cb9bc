"""The present rows of one primary-key table, in a separate DuckDB file: a copy of the result of its log (DESIGN 9).

The rows, and for each bucket the offset up to which the log was applied, change in one transaction, so that they are consistent after a
crash. The file may be lost at any time: it is rebuilt when it is found missing or damaged (`catch_up.py`). Columns are stored by position
(`c0`, `c1`, ...), so that a user's names are never part of a statement. There is no index; look-ups are joins.

Only one thread at a time may use it. Every method may raise duckdb.Error; `primary_key_tables.py` converts it.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tiering import crash_points
from tiering.cluster.embedded.metadata.database import bucket_key, stored_partition
from tiering.cluster.key_columns import last_of_each_key
from tiering.cluster.rows import fit_columns
from tiering.library_guards.duckdb_guard import lock
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
_FORMAT = 1


class KvState:
    """The rows of one table, in an open DuckDB file."""

    def __init__(self, file: Path, table: TableInfo) -> None:
        """Opens or creates the file. Raises duckdb.Error if it belongs to another table, has another format, or is damaged."""
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
            self._prepare(table)
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self, table: TableInfo) -> None:
        run = self._connection.execute
        run("SET TimeZone = 'UTC'")
        lock(self._connection)
        self._schema = table.schema
        self._keys = [f"c{table.schema.get_field_index(name)}" for name in table.primary_key]
        if not run("SELECT 1 FROM duckdb_tables() WHERE table_name = 'identity'").fetchone():
            with self._transaction():
                run("CREATE TABLE identity AS SELECT ? AS table_id, ? AS format", [table.table_id, _FORMAT])
                run("CREATE TABLE applied (p BIGINT, b INTEGER, next_offset BIGINT)")
                run("CREATE TABLE kv (p BIGINT, b INTEGER)")
        identity = run("SELECT table_id, format FROM identity").fetchone()
        if identity != (table.table_id, _FORMAT):
            raise duckdb.InvalidInputException(f"the file is of table {identity}")
        self._columns = len(run("SELECT column_name FROM duckdb_columns() WHERE table_name = 'kv'").fetchall()) - 2
        self.widen(table.schema)

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()

    def widen(self, schema: pa.Schema) -> None:
        """Adds the columns that were added to the table, with NULL in all rows."""
        self._schema = schema
        if self._columns == len(schema):
            return
        with self._registered("sample", _stored(pa.Table.from_batches([], schema), schema)), self._transaction():
            kinds = self._connection.execute("DESCRIBE SELECT * FROM sample").fetchall()
            for name, kind, *_ in kinds[self._columns :]:
                self._connection.execute(f"ALTER TABLE kv ADD COLUMN {name} {kind}")
        self._columns = len(schema)

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
                f"SELECT requested.position, {self._list('kv')} FROM requested JOIN kv ON {same} ORDER BY requested.position"
            ).to_arrow_table()
        rows = _as_rows(selected.drop_columns(["position"]), self._schema)
        return selected.column("position").to_numpy(), rows

    def apply(self, changes: pa.Table, kinds: npt.NDArray[np.int8], places: pa.Table, reached: Mapping[BucketKey, int]) -> None:
        """Applies records of the log and stores their last offsets, in one transaction. Records of a bucket are in offset order.

        `changes` has the table's columns, `kinds` the change types, `places` the columns p and b.
        """
        lasting = np.flatnonzero(kinds != ChangeType.UPDATE_BEFORE)
        keys = changes.select(self._key_names()).take(lasting).combine_chunks().to_batches()
        last = lasting[last_of_each_key(keys[0])] if keys else lasting
        is_deleted = pa.array(kinds[last] == ChangeType.DELETE)
        net = pa.Table.from_arrays(
            [*places.take(last).columns, *_stored(changes.take(last), self._schema).columns, is_deleted],
            names=["p", "b", *(f"c{number}" for number in range(len(self._schema))), "is_deleted"],
        )
        same = " AND ".join(f"kv.{column} = net.{column}" for column in self._keys)
        with self._registered("net", net), self._transaction():
            if len(last):
                self._connection.execute(f"DELETE FROM kv USING net WHERE {same}")
                self._connection.execute(f"INSERT INTO kv SELECT p, b, {self._list('net')} FROM net WHERE NOT is_deleted")
            self._note(reached)
            crash_points.reach(crash_points.KV_APPLYING)

    def load(self, bucket: BucketKey, batches: Iterable[pa.RecordBatch], log_offset: int) -> None:
        """Replaces all rows of a bucket by `batches`, as of `log_offset`, in one transaction."""
        place = [stored_partition(bucket), bucket.bucket_id]
        with self._transaction():
            self._connection.execute("DELETE FROM kv WHERE p = ? AND b = ?", place)
            for batch in batches:
                with self._registered("rows", _stored(pa.Table.from_batches([batch]), self._schema)):
                    self._connection.execute(f"INSERT INTO kv SELECT ?, ?, {self._list('rows')} FROM rows", place)
            self._note({bucket: log_offset})

    def forget(self, buckets: Collection[BucketKey]) -> None:
        """Removes the rows and offsets of buckets whose partition was dropped."""
        with self._transaction():
            for bucket in buckets:
                for table in ("kv", "applied"):
                    self._connection.execute(f"DELETE FROM {table} WHERE p = ? AND b = ?", [stored_partition(bucket), bucket.bucket_id])

    def rows(self, bucket: BucketKey) -> Iterator[pa.RecordBatch]:
        """Yields all rows of a bucket, unordered, in batches of bounded size."""
        query = f"SELECT {self._list('kv')} FROM kv WHERE p = ? AND b = ?"
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

    def _list(self, table: str) -> str:
        return ", ".join(f"{table}.c{number}" for number in range(len(self._schema)))

    def _key_names(self) -> list[str]:
        return [self._schema.names[int(column[1:])] for column in self._keys]

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


def _stored(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    return rows.rename_columns([f"c{number}" for number in range(len(schema))])


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
