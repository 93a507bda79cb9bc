"""DuckDB over both sides: the lake's Parquet and delete files as a view, the log as a stream of Arrow batches."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from tiering.cluster.base import SplitReader
from tiering.cluster.skipping import reader_without
from tiering.errors import LakewardError
from tiering.lake.proof.file_footer import FileIdentity
from tiering.lake.schema.column_ids import proof_columns
from tiering.lake.schema.sql_text import quoted
from tiering.library_guards.duckdb_guard import lock
from tiering.model.leases import KvSnapshot
from tiering.model.splits import TieringLogSplit, TieringSnapshotSplit
from tiering.model.tables import BUCKET_COLUMN, OFFSET_COLUMN, TIMESTAMP_COLUMN, BucketKey, TableInfo, TableType
from tiering.validate.clean_footers import (
    BACKFILLED_COLUMN,
    OURS_COLUMN,
    PARTITION_COLUMN,
    FileFacts,
    make_footer_view,
    read_footers,
    sorted_buckets,
)
from tiering.validate.lake_view import PLACE_COLUMN, make_lake_view, place_of
from tiering.validate.results import DEFAULT_MEMORY_LIMIT
from tiering.validate.subject import BucketRange, Subject

BATCH_ROWS = 1 << 16
IN_BUCKET = f"{PLACE_COLUMN} = $place AND {BUCKET_COLUMN} = $bucket"
"""SQL condition for the rows of one bucket. `place_parameters` has its parameters."""


IS_FORMER = f"a.place = r.{PLACE_COLUMN} AND a.partition_id <> r.{PARTITION_COLUMN}"
"""SQL condition for a row `r` of a clean table that is of a dropped partition. `a` is the partition in `living` that has its name now."""


def place_parameters(bucket_range: BucketRange) -> dict[str, object]:
    """Returns the parameters of IN_BUCKET."""
    return {"place": bucket_range.place[0], "bucket": bucket_range.place[1]}


@dataclass(frozen=True)
class Scope:
    """The buckets `members` of the partition `place` ("" without partitions). `bucket` None = all its buckets."""

    place: str
    bucket: int | None
    members: tuple[BucketRange, ...]

    @property
    def name(self) -> str:
        """Name in texts: `3`, `partition/3`, `partition` or `table`."""
        if self.bucket is None:
            return self.place or "table"
        return f"{self.place}/{self.bucket}" if self.place else str(self.bucket)

    @property
    def condition(self) -> str:
        """SQL condition for the scope's rows in the view `lake`."""
        return f"{PLACE_COLUMN} = $place" if self.bucket is None else IN_BUCKET

    @property
    def parameters(self) -> Mapping[str, object]:
        """Parameters of `condition`."""
        return {"place": self.place} if self.bucket is None else {"place": self.place, "bucket": self.bucket}

    @property
    def log_start(self) -> int:
        """Offset from which on the logs of all members have every change."""
        return max(member.retained[0] for member in self.members)

    def has(self, place: str, bucket: int | None) -> bool:
        """Returns whether rows of that place belong to the scope."""
        return self.place == place and self.bucket in (None, bucket)


class Engine:
    """One DuckDB connection for one subject. The view `lake` has the lake's rows, each with its PLACE_COLUMN."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, subject: Subject) -> None:
        self._connection = connection
        self._subject = subject
        self.table: TableInfo = subject.table
        self._kv_snapshots: Mapping[BucketKey, KvSnapshot] | None = None
        self.own_columns: list[str] = list(subject.table.schema.names)
        self.layout = subject.layout
        self.merge = subject.files.merge
        self.fields = subject.fields
        self.columns = [*self.own_columns, OFFSET_COLUMN, TIMESTAMP_COLUMN]
        """Columns by which the rows of a log table are compared: the table's own, the offset and the time. A clean table has no times, and
        only a clean log table has offsets, from the footers of its files."""
        if not self.layout.has_row_offsets:
            self.columns = [*self.own_columns, OFFSET_COLUMN] if self.table.table_type is TableType.LOG else self.own_columns
        self._types = self._declared_types()
        self.definitions: list[tuple[str, Mapping[str, object]]] = []
        """The statements, with their parameters, that made the view `lake` in an empty database, in order."""
        self.footers = self._read_footers()
        self.sorted_buckets = sorted_buckets(self.footers)
        rounds = set[str]() if subject.marker is None else {backfill.round_id for backfill in subject.marker.backfills}
        self.backfilled = [facts for facts in self.footers if facts.backfill is not None and facts.backfill.round_id in rounds]
        """The files of the marker's backfills. The view `backfilled_rows` has their rows."""
        self.counts_backfilled = False
        """Whether the view `lake` has the rows of backfills, because they cannot be told from others (`count_backfilled`)."""
        self._make_views()

    @property
    def proof_names(self) -> pa.Schema | None:
        """The names of the table's own columns in checksums of rows; None = their present names."""
        if self.fields is None:
            return None
        return proof_columns(pa.schema([self.fields.columns.field(name) for name in self.own_columns]), self.fields.recorded)

    def rows(self, sql: str, parameters: Mapping[str, object] | None = None) -> list[tuple[Any, ...]]:
        """Returns all rows of a query."""
        return self._connection.execute(sql, dict(parameters or {})).fetchall()

    def define(self, sql: str, parameters: Mapping[str, object] | None = None) -> list[tuple[Any, ...]]:
        """Runs a statement on which the view `lake` depends, and records it. Queries are not recorded. Returns its rows."""
        if not sql.startswith(("SELECT ", "DESCRIBE ")):
            self.definitions.append((sql, dict(parameters or {})))
        return self.rows(sql, parameters)

    @contextmanager
    def log(self, bucket_range: BucketRange, start: int, stop: int, columns: list[str]) -> Iterator[str]:
        """Yields the name of a relation with the log's records of one bucket, in the types of the lake. It can be read once."""
        name = bucket_range.place[0] or None
        split = TieringLogSplit(self.table.path, bucket_range.bucket, name, start, stop, stop)
        # The log may no longer have a range without records.
        with self._stream(self._reader(split) if start < stop else None, columns) as records:
            yield records

    @contextmanager
    def kv_snapshot(self, bucket_range: BucketRange, snapshot: KvSnapshot, columns: list[str]) -> Iterator[str]:
        """Yields the name of a relation with the rows of one bucket's KV snapshot, in the types of the lake. It can be read once."""
        at, place = snapshot.log_offset, bucket_range.place[0] or None
        split = TieringSnapshotSplit(self.table.path, bucket_range.bucket, place, snapshot.snapshot_id, at, None)
        with self._stream(self._subject.source.reader(self.table, split), columns) as rows:
            yield rows

    def newest_kv_snapshots(self) -> Mapping[BucketKey, KvSnapshot]:
        """Returns the newest KV snapshot of each bucket that has one. It asks the cluster once, and again after `forget_kv_snapshots`."""
        if self._kv_snapshots is None:
            self._kv_snapshots = self._subject.source.kv_snapshots(self.table)
        return self._kv_snapshots

    def forget_kv_snapshots(self) -> None:
        """Clears the cache, because the cluster deleted a KV snapshot after it took a newer one."""
        self._kv_snapshots = None

    def skipped_below(self, bucket_range: BucketRange, stop: int) -> int:
        """Returns how many records of the bucket below offset `stop` were left out by `CALL sys.skip_record`."""
        marker = self._subject.marker
        return 0 if marker is None else sum(offset < stop for offset in marker.skipped.get(bucket_range.bucket, ()))

    @contextmanager
    def _stream(self, reader: SplitReader | None, columns: list[str]) -> Iterator[str]:
        failed: list[LakewardError] = []

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                yield from () if reader is None else map(_whole, reader.read())
            except LakewardError as error:
                failed.append(error)  # DuckDB would turn the error into a text
                raise

        self._connection.register("log_stream", pa.RecordBatchReader.from_batches(self.table.read_schema(), batches()))
        cast = ", ".join(f"CAST({self._as_written(column)} AS {self._types[column]}) AS {quoted(column)}" for column in columns)
        try:
            yield f"(SELECT {cast} FROM log_stream)"
        except duckdb.Error:
            if failed:
                raise failed[0] from None
            raise
        self._connection.unregister("log_stream")

    def batches(self, sql: str, parameters: Mapping[str, object]) -> Iterator[pa.RecordBatch]:
        """Yields all rows of a query as Arrow batches."""
        reader = self._connection.sql(sql, params=dict(parameters)).to_arrow_reader(BATCH_ROWS)
        assert reader is not None
        yield from reader

    def log_batches(self, bucket_range: BucketRange, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yields the tiered records of a log table's bucket that the log still has, in `columns` (None = the table's own)."""
        requested_columns = self.own_columns if columns is None else list(columns)
        start, stop = bucket_range.readable
        split = TieringLogSplit(self.table.path, bucket_range.bucket, bucket_range.place[0] or None, start, stop, stop)
        if start < stop:
            yield from (batch.select(requested_columns) for batch in self._reader(split).read())

    def _reader(self, split: TieringLogSplit) -> SplitReader:
        """Returns a reader of the log without the records that the marker lists as skipped."""
        marker = self._subject.marker
        skipped = () if marker is None else marker.skipped.get(split.bucket, ())
        return reader_without(partial(self._subject.source.reader, self.table), split, skipped)

    def leave_former_out(self) -> None:
        """Removes rows of partitions that were dropped and recreated under the same name from the view `lake` of a clean table."""
        living = IS_FORMER
        self.define(
            f"CREATE OR REPLACE TEMP VIEW lake AS SELECT * FROM lake_rows AS r WHERE NOT EXISTS (SELECT 1 FROM living AS a WHERE {living})"
        )

    def count_backfilled(self) -> None:
        """Adds the rows of backfills to the view `lake` of a clean table."""
        if self._subject.files.data:
            self.counts_backfilled = True
            self.define(f"CREATE OR REPLACE TEMP VIEW lake_rows AS SELECT * EXCLUDE ({BACKFILLED_COLUMN}) FROM all_rows")

    def set_apart(self, bucket_range: BucketRange, before: object | None, first: int) -> None:
        """Removes the rows of a bucket from offset `first` on with a time before `before` (None = any time) from the view `lake`."""
        partition, bucket = bucket_range.place
        self.define("INSERT INTO apart VALUES ($p, $b, $before, $first)", {"p": partition, "b": bucket, "before": before, "first": first})
        place = f"a.place = {PLACE_COLUMN} AND a.bucket = {BUCKET_COLUMN}"
        those = f"{place} AND {OFFSET_COLUMN} >= a.first AND (a.before IS NULL OR {TIMESTAMP_COLUMN} < a.before)"
        self.define(
            f"CREATE OR REPLACE TEMP VIEW lake AS SELECT * FROM lake_rows WHERE NOT EXISTS (SELECT 1 FROM apart AS a WHERE {those})"
        )

    def hash_of(self, *columns: str) -> str:
        """Returns SQL for one number of these columns of a row. Equal values have equal numbers, also NaN and NULL.

        DuckDB's hash is the same for NULL, [] and [NULL], so nested values are hashed by their text.
        """
        nested = {
            column for column in columns if self._types[column].endswith(("]", ")")) and not self._types[column].startswith("DECIMAL")
        }
        return f"hash({', '.join(f'CAST({quoted(column)} AS VARCHAR)' if column in nested else quoted(column) for column in columns)})"

    def _as_written(self, column: str) -> str:
        """Returns SQL for a column of the log with the values that the lake should have."""
        is_cut = column == TIMESTAMP_COLUMN and self._subject.has_times_in_milliseconds
        return f"date_trunc('milliseconds', {quoted(column)})" if is_cut else quoted(column)

    def _declared_types(self) -> dict[str, str]:
        """Returns DuckDB's names of the source's types. Types of files replace them once there are files."""
        self._connection.register("empty_source", self.table.read_schema().empty_table())
        described = self.rows("DESCRIBE SELECT * FROM empty_source")
        self._connection.unregister("empty_source")
        return {row[0]: row[1] for row in described}

    def _make_views(self) -> None:
        files, is_clean = self._subject.files, not self.layout.has_row_offsets
        if files.data:
            name = "lake_file_rows" if is_clean else "lake_rows"
            fields = None if self._subject.fields is None else self._subject.fields.columns
            present = make_lake_view(self.define, self.table, files, self._types, name, self.layout, fields)
            self._types |= {name: present[name] for name in self._types if name in present}
            if is_clean:
                make_footer_view(self.define, self.footers, "lake_file_rows", "all_rows", {facts.file.path for facts in self.backfilled})
                for view, condition in (("lake_rows", f"NOT {BACKFILLED_COLUMN}"), ("backfilled_rows", BACKFILLED_COLUMN)):
                    self.define(f"CREATE TEMP VIEW {view} AS SELECT * EXCLUDE ({BACKFILLED_COLUMN}) FROM all_rows WHERE {condition}")
        else:
            self._connection.register("nothing", self.table.lake_schema().empty_table())
            names = {name: quoted(name) for name in self.table.schema.names}
            more = f"{place_of(self.table, names)} AS {PLACE_COLUMN}, NULL::BIGINT AS {PARTITION_COLUMN}, TRUE AS {OURS_COLUMN}"
            self.rows(f"CREATE TEMP VIEW lake_rows AS SELECT *, {more} FROM nothing")
            self.rows("CREATE TEMP VIEW backfilled_rows AS SELECT * FROM lake_rows")
        if is_clean:
            self._make_living()
        self.define(f"CREATE TEMP TABLE apart (place VARCHAR, bucket INTEGER, before {self._types[TIMESTAMP_COLUMN]}, first BIGINT)")
        self.define("CREATE TEMP VIEW lake AS SELECT * FROM lake_rows")

    def _read_footers(self) -> Sequence[FileFacts]:
        if self.layout.has_row_offsets:
            return ()
        subject = self._subject
        identity = FileIdentity(self.table, subject.view.table_uuid, subject.partitions)
        return read_footers(self.rows, subject.files.data, identity)

    def _make_living(self) -> None:
        """Makes the table of the existing partitions, by name."""
        self.define("CREATE TEMP TABLE living (place VARCHAR, partition_id BIGINT)")
        places = {(bucket_range.place[0], bucket_range.bucket.partition_id) for bucket_range in self._subject.bucket_ranges}
        for place, partition_id in places:
            self.define("INSERT INTO living VALUES ($place, $id)", {"place": place, "id": partition_id})


def _whole(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the batch without an offset into longer arrays if a struct is in a struct: DuckDB refuses such arrays."""
    is_slice = any(column.offset and _has_struct_in_struct(column.type) for column in batch.columns)
    return batch.take(np.arange(batch.num_rows)) if is_slice else batch


@cache
def _has_struct_in_struct(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) and any(pa.types.is_struct(kind.field(index).type) for index in range(kind.num_fields))


@contextmanager
def open_engine(subject: Subject, memory_limit: str = DEFAULT_MEMORY_LIMIT) -> Iterator[Engine]:
    """Opens an engine that keeps within `memory_limit`. Data beyond it goes to a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="lakeward-validate-") as folder, duckdb.connect() as connection:
        connection.execute("SET memory_limit = $limit", {"limit": memory_limit}).fetchall()
        connection.execute("SET temp_directory = $folder", {"folder": folder}).fetchall()
        connection.execute("SET preserve_insertion_order = false").fetchall()
        connection.execute("SET TimeZone = 'UTC'").fetchall()
        connection.execute("SET enable_progress_bar = false").fetchall()  # the progress bar would be between the answers on stdout
        lock(connection, [file.path for file in subject.files.all_files])
        yield Engine(connection, subject)
