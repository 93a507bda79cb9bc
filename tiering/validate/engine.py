"""DuckDB over both sides: the lake's Parquet and delete files as a view, the log as a stream of Arrow batches."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa

from tiering.errors import LakewardError
from tiering.model import BUCKET_COLUMN, TableInfo, TieringLogSplit
from tiering.validate.results import DEFAULT_MEMORY_LIMIT
from tiering.validate.subject import Stretch, Subject

PARTITION_SEPARATOR = "$"


def quoted(name: str) -> str:
    """A name as a SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


class Engine:
    """One DuckDB connection about one subject. `columns` are the table's own and the offset: what rows are compared by."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, subject: Subject) -> None:
        self._connection = connection
        self._subject = subject
        self.table: TableInfo = subject.table
        self.columns = [field.name for field in subject.table.lake_schema() if field.name != BUCKET_COLUMN]
        self._types = self._declared_types()
        self._make_lake_view()

    def rows(self, sql: str, parameters: dict[str, object] | None = None) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        return self._connection.execute(sql, parameters or {}).fetchall()

    @contextmanager
    def log(self, stretch: Stretch, start: int, stop: int, columns: list[str]) -> Iterator[str]:
        """The name of a relation with the log's records of one bucket, typed as in the lake; it can be read once."""
        name = stretch.place[0] or None
        split = TieringLogSplit(self.table.path, stretch.bucket, name, start, stop, stop)
        reader = self._subject.source.reader(self.table, split)
        failed: list[LakewardError] = []

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                yield from reader.read()
            except LakewardError as error:
                failed.append(error)  # on its way through DuckDB it would become a text
                raise

        self._connection.register("log_stream", pa.RecordBatchReader.from_batches(self.table.read_schema(), batches()))
        cast = ", ".join(f"CAST({quoted(one)} AS {self._types[one]}) AS {quoted(one)}" for one in columns)
        try:
            yield f"(SELECT {cast} FROM log_stream)"
        except duckdb.Error:
            if failed:
                raise failed[0] from None
            raise
        self._connection.unregister("log_stream")

    def hash_of_row(self) -> str:
        """SQL: one number for all columns of a row."""
        return f"hash({', '.join(quoted(one) for one in self.columns)})"

    def _declared_types(self) -> dict[str, str]:
        """DuckDB's names of the types of the source; those of files, once there are any, go before."""
        self._connection.register("empty_source", self.table.read_schema().empty_table())
        described = self.rows("DESCRIBE SELECT * FROM empty_source")
        self._connection.unregister("empty_source")
        return {row[0]: row[1] for row in described}

    def _make_lake_view(self) -> None:
        files = self._subject.files
        if not files.data:
            self._connection.register("nothing", self.table.lake_schema().empty_table())
            self._connection.execute(f"CREATE TEMP VIEW lake AS SELECT *, {self._place()} AS place FROM nothing").fetchall()
            return
        self._connection.execute(
            "CREATE TEMP TABLE files AS SELECT unnest($locations) AS location, unnest($paths) AS path, "
            "unnest($numbers)::BIGINT AS sequence_number, unnest($partitions) AS partition",
            {
                "locations": [one.location for one in files.data],
                "paths": [one.path for one in files.data],
                "numbers": [one.sequence_number for one in files.data],
                "partitions": [one.partition for one in files.data],
            },
        ).fetchall()
        present = {row[0]: row[1] for row in self.rows(f"DESCRIBE SELECT * FROM {self._parquet(files.data)}")}
        self._types |= {name: present[name] for name in self._types if name in present}
        wanted = [field.name for field in self.table.lake_schema()]
        picked = [
            quoted(name) if name in present else f"CAST(NULL AS {self._types[name]}) AS {quoted(name)}"  # no file has it yet
            for name in wanted
        ]
        dead = self._dead_rows()
        self._connection.execute(
            f"CREATE TEMP VIEW lake AS SELECT {', '.join(picked)}, {self._place()} AS place "
            f"FROM {self._parquet(files.data)} AS d {'WHERE ' + ' AND '.join(dead) if dead else ''}"
        ).fetchall()

    def _parquet(self, files: Any) -> str:
        paths = ", ".join(_text(one.path) for one in files)
        return f"read_parquet([{paths}], filename = true, file_row_number = true, union_by_name = true, hive_partitioning = false)"

    def _place(self) -> str:
        """SQL: the partition's name, as the cluster joins it."""
        keys = [f"CAST({quoted(key)} AS VARCHAR)" for key in self.table.partition_keys]
        return f"concat_ws('{PARTITION_SEPARATOR}', {', '.join(keys)})" if keys else "''"

    def _dead_rows(self) -> list[str]:
        """Conditions that leave out what delete files name."""
        files = self._subject.files
        conditions: list[str] = []
        if files.position_deletes:
            paths = ", ".join(_text(one.path) for one in files.position_deletes)
            self._connection.execute(
                f"CREATE TEMP TABLE dead AS SELECT DISTINCT files.path, pos FROM read_parquet([{paths}]) AS p "
                "JOIN files ON files.location = p.file_path"
            ).fetchall()
            conditions.append("NOT EXISTS (SELECT 1 FROM dead WHERE dead.path = d.filename AND dead.pos = d.file_row_number)")
        for number, one in enumerate(files.equality_deletes):
            # Iceberg spec, "Scan Planning": strictly older data files of the same partition; null equals null.
            keys = " AND ".join(f"e.{quoted(name)} IS NOT DISTINCT FROM d.{quoted(name)}" for name in one.columns)
            self._connection.execute(f"CREATE TEMP VIEW equal_{number} AS SELECT * FROM read_parquet([{_text(one.path)}])").fetchall()
            those = f"sequence_number < {one.sequence_number} AND partition = {_text(one.partition)}"
            older = f"d.filename IN (SELECT path FROM files WHERE {those})"
            conditions.append(f"NOT ({older} AND EXISTS (SELECT 1 FROM equal_{number} AS e WHERE {keys}))")
        return conditions


@contextmanager
def open_engine(subject: Subject, memory_limit: str = DEFAULT_MEMORY_LIMIT) -> Iterator[Engine]:
    """An engine that keeps within `memory_limit`; what does not fit goes to a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="lakeward-validate-") as folder, duckdb.connect() as connection:
        connection.execute("SET memory_limit = $limit", {"limit": memory_limit}).fetchall()
        connection.execute("SET temp_directory = $folder", {"folder": folder}).fetchall()
        connection.execute("SET preserve_insertion_order = false").fetchall()
        yield Engine(connection, subject)
