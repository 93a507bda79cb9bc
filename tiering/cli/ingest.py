"""`lakeward ingest`: a file into a table of the embedded cluster. The whole file is parsed before a row is published.

The table is made on demand, its columns as the file has them. Rows are appended under a writer id: a run that was
interrupted can be repeated with the same id, and doubles nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from tiering.cli.ingest_files import FileFormat, ParsedFile, Shape, parsed_file
from tiering.cluster.embedded.base import AppendedRange, EmbeddedCluster, TableSpec
from tiering.cluster.embedded.options import LAKE_ENABLED, LAKE_FRESHNESS, parse_lake_options
from tiering.cluster.embedded.writer import LogWriter
from tiering.durations import format_duration
from tiering.effects import Ids, RandomIds
from tiering.errors import InvalidArgument, LakewardError, UnknownDatabase, UnknownTable
from tiering.model import BucketKey, TableInfo, TablePath
from tiering.names import table_path

DEFAULT_BUCKETS = 1

Progress = Callable[[int, int], None]
"""Told (rows appended, rows in the file) after every append."""


@dataclass(frozen=True)
class IngestOptions:
    """How to ingest. What shapes a table (None = not given) must agree with a table that exists already."""

    file_format: FileFormat | None = None
    """None: by the file's ending."""
    buckets: int | None = None
    bucket_keys: tuple[str, ...] | None = None
    freshness: str | None = None
    """As the table option takes it: '30 s', '5 min'."""
    lake: bool | None = None
    """Whether the table is tiered. A new table is, unless told otherwise."""
    create: bool = True
    """Whether a missing database and table are made."""
    writer_id: str | None = None
    """Of the interrupted run that this one goes on with."""
    partition_by: tuple[str, ...] | None = None
    """Columns that make the partitions; whole numbers in them become INT."""
    add_columns: bool = False
    """Whether columns of the file that the table lacks are added to it."""


@dataclass(frozen=True)
class IngestResult:
    """What was appended. `ranges` has, per bucket, the first offset and the one after the last."""

    table: TableInfo
    created: bool
    rows: int
    batches: int
    writer_id: str
    ranges: Mapping[BucketKey, tuple[int, int]] = field(default_factory=dict)


def ingest_file(
    cluster: EmbeddedCluster,
    path: TablePath,
    file: Path,
    options: IngestOptions | None = None,
    progress: Progress | None = None,
    ids: Ids | None = None,
) -> IngestResult:
    """Appends all rows of `file` to the table.

    Raises InvalidData (names file and line, or column) and all else before anything is made or appended, but
    for errors of the appends themselves: those say how far it came and how to go on.
    """
    table_path(path.database_name, path.table_name)
    options = options or IngestOptions()
    existing = _find(cluster, path, options)
    with parsed_file(file, options.file_format, _shape(existing, options)) as parsed:
        table = _create(cluster, path, parsed.schema, options) if existing is None else _widened(cluster, existing, parsed.schema)
        writer = LogWriter(cluster, path, options.writer_id or (ids or RandomIds()).new_id())
        ranges = _append_all(writer, parsed, progress or _no_progress)
    return IngestResult(table, existing is None, parsed.rows, writer.sequence, writer.writer_id, _by_bucket(ranges))


def _find(cluster: EmbeddedCluster, path: TablePath, options: IngestOptions) -> TableInfo | None:
    try:
        table = cluster.table(path)
    except (UnknownTable, UnknownDatabase):
        if not options.create:
            raise
        parse_lake_options(_properties(options))
        return None
    _check_agrees(table, options)
    return table


def _shape(existing: TableInfo | None, options: IngestOptions) -> Shape:
    if existing is None:
        return Shape(required=options.bucket_keys or (), partition_keys=options.partition_by or ())
    return Shape(existing.schema, (), existing.partition_keys, existing.added_columns, options.add_columns)


def _widened(cluster: EmbeddedCluster, table: TableInfo, schema: pa.Schema) -> TableInfo:
    """The table with the columns of the file that it lacked."""
    added = [field for field in schema if field.name not in table.schema.names]
    return cluster.alter_table(table.path, {}, added) if added else table


def _check_agrees(table: TableInfo, options: IngestOptions) -> None:
    wanted = parse_lake_options(_properties(options))
    for what, have, want, given in (
        ("buckets", table.bucket_count, options.buckets, options.buckets is not None),
        ("bucket keys", table.bucket_keys, options.bucket_keys, options.bucket_keys is not None),
        ("partition columns", table.partition_keys, options.partition_by, options.partition_by is not None),
        ("its lake enabled", table.lake_enabled, options.lake, options.lake is not None),
        ("a freshness", format_duration(table.freshness_ms), format_duration(wanted.freshness_ms), options.freshness is not None),
    ):
        if given and have != want:
            raise InvalidArgument(
                f"the table {table.path} exists with {what} = {have}, not {want}",
                hint="Leave the option out to append to the table as it is.",
            )


def _properties(options: IngestOptions) -> dict[str, str]:
    properties = {LAKE_ENABLED: "false" if options.lake is False else "true"}
    if options.freshness is not None:
        properties[LAKE_FRESHNESS] = options.freshness
    return properties


def _create(cluster: EmbeddedCluster, path: TablePath, schema: pa.Schema, options: IngestOptions) -> TableInfo:
    buckets = DEFAULT_BUCKETS if options.buckets is None else options.buckets
    spec = TableSpec(schema, buckets, options.bucket_keys or (), _properties(options), partition_keys=options.partition_by or ())
    cluster.create_database(path.database_name, ignore_if_exists=True)
    return cluster.create_table(path, spec)


def _append_all(writer: LogWriter, parsed: ParsedFile, progress: Progress) -> Sequence[AppendedRange]:
    ranges: list[AppendedRange] = []
    rows = 0
    for batch in parsed.batches():
        try:
            ranges += writer.append(batch)
        except LakewardError as error:
            if writer.sequence or error.retryable:
                done = f"{rows} of {parsed.rows} rows were appended for certain."
                error.hint = f"{error.hint} {done} Repeat it with --writer-id {writer.writer_id}: that appends only the rest.".lstrip()
            raise
        rows += batch.num_rows
        progress(rows, parsed.rows)
    return ranges


def _by_bucket(ranges: Sequence[AppendedRange]) -> dict[BucketKey, tuple[int, int]]:
    found: dict[BucketKey, tuple[int, int]] = {}
    for appended in ranges:
        first, _ = found.get(appended.bucket, (appended.starting_offset, 0))
        found[appended.bucket] = (first, appended.stopping_offset)
    return dict(sorted(found.items(), key=lambda item: item[0].sort_key()))


def _no_progress(rows: int, total: int) -> None:
    """Nobody watches."""
