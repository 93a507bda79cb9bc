"""Loads files into a table of a cluster, for `lakeward ingest`. All files are parsed to their end before the first row is written.

A missing table is created with the columns of the files. Rows are appended to a log table or upserted into a primary-key table, or rows
with the file's keys are deleted from a primary-key table. All writes have a writer id. With the same id, an interrupted run of the command
can be repeated without duplicate rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from tiering.clock import Ids, RandomIds
from tiering.cluster.column_types import storable_schema
from tiering.cluster.key_columns import check_primary_key_table, key_schema
from tiering.cluster.log_writer import LogWriter
from tiering.cluster.table_option_checks import check_documented_option
from tiering.cluster.writable import AppendedRange, TableSpec, WritableCluster
from tiering.durations import LEAST_FRESHNESS_MS, format_duration
from tiering.errors import InvalidArgument, LakewardError, UnknownDatabase, UnknownTable
from tiering.ingest.files import ParsedFile, Shape, parsed_files
from tiering.ingest.formats import Reading
from tiering.lake.table_options import ENABLED, FRESHNESS
from tiering.model.names import table_path
from tiering.model.schema.changes import additions
from tiering.model.tables import BucketKey, TableInfo, TablePath, TableType

DEFAULT_BUCKETS = 1
OWN_PREFIX = "table."
"""The prefix of options that the cluster itself uses."""

Write = Callable[[pa.RecordBatch], Sequence[AppendedRange]]
Progress = Callable[[int, int], None]
"""Called with (rows written, rows in the files) after every write."""


@dataclass(frozen=True)
class IngestOptions:
    """The options of one ingest. Options that define a table (None = not given) must match a table that exists."""

    reading: Reading = field(default_factory=Reading)
    """How the files are read."""
    buckets: int | None = None
    bucket_keys: tuple[str, ...] | None = None
    freshness: str | None = None
    """The value of the table option: '30 s', '5 min'."""
    lake: bool | None = None
    """Whether the table is tiered. None: yes for a new table."""
    create: bool = True
    """Whether a missing database and table are created."""
    writer_id: str | None = None
    """The writer id of the interrupted run that this run continues."""
    partition_by: tuple[str, ...] | None = None
    """The partition columns. Whole numbers in them become INT."""
    add_columns: bool = False
    """Whether columns of the file that the table lacks are added to the table."""
    primary_key: tuple[str, ...] | None = None
    """The key columns of a primary-key table, into which rows are upserted."""
    deletes: bool = False
    """Whether the file has keys (exactly the key columns) whose rows are deleted. The table must exist."""
    table_options: Mapping[str, str] = field(default_factory=dict)
    """Options of a new table, in addition to `lake` and `freshness`: `table.log.ttl`, `iceberg.write.parquet.compression-codec`, ..."""
    schema: pa.Schema | None = None
    """All columns of a new table, with their types."""
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    """Types of single columns. They have precedence over the types in the files."""


@dataclass(frozen=True)
class IngestResult:
    """The outcome of one ingest. `ranges` has, by bucket, the first offset in the log and the offset after the last one."""

    table: TableInfo
    created: bool
    rows: int
    batches: int
    writer_id: str
    ranges: Mapping[BucketKey, tuple[int, int]] = field(default_factory=dict)
    records: int = 0
    """Number of records in the log. An upsert of an existing key has two, a delete of a missing key none."""
    deletes: bool = False
    text_reasons: Mapping[str, str] = field(default_factory=dict)
    """Columns of a new table that became STRING although another type can hold their values, with the reason."""
    read_as: Sequence[str] = ()
    """The facts that were detected about the files: `the delimiter ';'`, `the encoding utf-16`."""


def ingest_files(
    cluster: WritableCluster,
    path: TablePath,
    files: Sequence[str],
    options: IngestOptions | None = None,
    progress: Progress | None = None,
    ids: Ids | None = None,
) -> IngestResult:
    """Writes all rows of the files to the table, one file after the other. `-` is the standard input; patterns match files.

    Raises InvalidData (names file and line, or column) and other errors before a table is created or a row is written. Only a write itself
    can fail later. Its error tells how many rows were written and how to continue.
    """
    table_path(path.database_name, path.table_name)
    options = options or IngestOptions()
    existing = _find(cluster, path, options)
    with parsed_files(files, options.reading, _shape(existing, options)) as parsed:
        table = _create(cluster, path, parsed.schema, options) if existing is None else _widened(cluster, existing, parsed.schema)
        writer = LogWriter(cluster, path, options.writer_id or (ids or RandomIds()).new_id())
        ranges = _write_all(writer, _write(writer, table, options), parsed, progress or _no_progress, cluster.remembers_writers)
    records = sum(written.stopping_offset - written.starting_offset for written in ranges)
    return IngestResult(
        table,
        existing is None,
        parsed.rows,
        writer.sequence,
        writer.writer_id,
        _by_bucket(ranges),
        records,
        options.deletes,
        parsed.text_reasons,
        parsed.read_as,
    )


def _find(cluster: WritableCluster, path: TablePath, options: IngestOptions) -> TableInfo | None:
    try:
        table = cluster.table(path)
    except (UnknownTable, UnknownDatabase):
        if not options.create or options.deletes:
            raise
        _check_option_names(options)
        cluster.check_options(_properties(options))
        return None
    _check_agrees(table, options)
    return table


def _shape(existing: TableInfo | None, options: IngestOptions) -> Shape:
    if existing is None:
        required = {*(options.bucket_keys or ()), *(options.primary_key or ())}
        partition_keys = options.partition_by or ()
        schema = None if options.schema is None else _with_required(options.schema, {*required, *partition_keys})
        return Shape(schema, required, partition_keys, types=options.types)
    if options.deletes:
        check_primary_key_table(existing)
        return Shape(key_schema(existing), keys_of=existing)
    added = {name: kind for name, kind in _given_types(options).items() if name not in existing.schema.names}
    return Shape(existing.schema, (), existing.partition_keys, existing.added_columns, options.add_columns, added)


def _with_required(schema: pa.Schema, names: Collection[str]) -> pa.Schema:
    return storable_schema(pa.schema([field.with_nullable(field.nullable and field.name not in names) for field in schema]))


def _given_types(options: IngestOptions) -> dict[str, pa.DataType]:
    """Returns the types that the user names, by column."""
    columns = [] if options.schema is None else list(options.schema)
    return {**{column.name: column.type for column in columns}, **options.types}


def _widened(cluster: WritableCluster, table: TableInfo, schema: pa.Schema) -> TableInfo:
    """Adds the columns that only the file has, and returns the table. A file of keys adds none."""
    added = [field for field in schema if field.name not in table.schema.names]
    return cluster.alter_table(table.path, {}, additions(added)) if added else table


def _check_agrees(table: TableInfo, options: IngestOptions) -> None:
    if options.table_options:
        names = ", ".join(options.table_options)
        raise InvalidArgument(
            f"the table {table.path} exists already, and --option is only for a new table: {names}",
            hint=f"Set options of an existing table with `lakeward set-option {table.path} NAME=VALUE`.",
        )
    for name, kind in _given_types(options).items():
        if name in table.schema.names and table.schema.field(name).type != kind:
            raise InvalidArgument(
                f"the table {table.path} has the column {name!r} as {table.schema.field(name).type}, not {kind}",
                hint="To write to the table as it is, leave the column's type out.",
            )
    freshness_ms = max(FRESHNESS.of(_properties(options)), LEAST_FRESHNESS_MS)
    for property_name, existing, requested, is_given in (
        ("buckets", table.bucket_count, options.buckets, options.buckets is not None),
        ("bucket keys", table.bucket_keys, options.bucket_keys, options.bucket_keys is not None),
        ("the primary key", table.primary_key, options.primary_key, options.primary_key is not None),
        ("partition columns", table.partition_keys, options.partition_by, options.partition_by is not None),
        ("its lake enabled", table.lake_enabled, options.lake, options.lake is not None),
        ("a freshness", format_duration(table.freshness_ms), format_duration(freshness_ms), options.freshness is not None),
    ):
        if is_given and existing != requested:
            raise InvalidArgument(
                f"the table {table.path} exists with {property_name} = {existing}, not {requested}",
                hint="To write to the table as it is, leave the option out.",
            )


def _check_option_names(options: IngestOptions) -> None:
    """Raises InvalidArgument for an option that docs/options.md does not list. A cluster may know more `table.` options than that page."""
    for name in options.table_options:
        if not name.startswith(OWN_PREFIX):
            check_documented_option(name)


def _properties(options: IngestOptions) -> dict[str, str]:
    shorthands = {
        ENABLED.name: ("--lake", None if options.lake is None else str(options.lake).lower()),
        FRESHNESS.name: ("--freshness", options.freshness),
    }
    properties = {ENABLED.name: "true", **options.table_options}
    for name, (flag, value) in shorthands.items():
        if value is None:
            continue
        if name in options.table_options:
            raise InvalidArgument(f"{flag} and --option {name} are both given", hint="Both set the same option; leave one out.")
        properties[name] = value
    return properties


def _create(cluster: WritableCluster, path: TablePath, schema: pa.Schema, options: IngestOptions) -> TableInfo:
    buckets = DEFAULT_BUCKETS if options.buckets is None else options.buckets
    spec = TableSpec(
        schema, buckets, options.bucket_keys or (), _properties(options), options.primary_key or (), options.partition_by or ()
    )
    cluster.create_database(path.database_name, ignore_if_exists=True)
    return cluster.create_table(path, spec)


def _write(writer: LogWriter, table: TableInfo, options: IngestOptions) -> Write:
    if options.deletes:
        return writer.delete
    return writer.append if table.table_type is TableType.LOG else writer.upsert


def _write_all(writer: LogWriter, write: Write, parsed: ParsedFile, progress: Progress, remembers_writers: bool) -> Sequence[AppendedRange]:
    ranges: list[AppendedRange] = []
    rows = 0
    for batch in parsed.batches():
        try:
            ranges += write(batch)
        except LakewardError as error:
            if writer.sequence or error.retryable:
                error.hint = f"{error.hint} {_progress_hint(writer, remembers_writers, rows, parsed.rows)}".lstrip()
            raise
        rows += batch.num_rows
        progress(rows, parsed.rows)
    return ranges


def _progress_hint(writer: LogWriter, remembers_writers: bool, done: int, total: int) -> str:
    written = f"At least {done} of {total} rows were written."
    if remembers_writers:
        return f"{written} Repeat the command with --writer-id {writer.writer_id} to write only the missing rows."
    return (
        f"{written} This cluster does not recognize repeated writes. Repeating the command writes all rows again, "
        "which is harmless only in a primary-key table."
    )


def _by_bucket(ranges: Sequence[AppendedRange]) -> dict[BucketKey, tuple[int, int]]:
    by_bucket: dict[BucketKey, tuple[int, int]] = {}
    for appended in ranges:
        first, _ = by_bucket.get(appended.bucket, (appended.starting_offset, 0))
        by_bucket[appended.bucket] = (first, appended.stopping_offset)
    return dict(sorted(by_bucket.items(), key=lambda item: item[0].sort_key()))


def _no_progress(rows: int, total: int) -> None:
    """Ignores the progress. The default of `ingest_files`."""
