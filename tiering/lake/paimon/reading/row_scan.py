"""Plans the readers of the live rows of a Paimon table (`RowScan`): one for each data file of a log table, and one for each bucket of a
primary-key table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import pyarrow as pa

from tiering.errors import LakeUnavailable
from tiering.lake.base import LakeView
from tiering.lake.file_lists import BucketRows
from tiering.lake.paimon.commit.manifests import Manifests, Place
from tiering.lake.paimon.errors import lake_errors
from tiering.lake.paimon.reading.file_columns import FileColumns
from tiering.lake.paimon.reading.file_lists import readable_entries, schema_of_files
from tiering.lake.paimon.reading.file_pruning import file_bounds, may_match
from tiering.lake.paimon.reading.file_readers import PaimonBucketReader, PaimonFileReader, Run, TableFiles
from tiering.lake.paimon.reading.loading import LoadedTable
from tiering.lake.paimon.schema.drift import drift
from tiering.lake.paimon.schema.layout import BUCKET, UNAWARE
from tiering.lake.paimon.schema.partitions import partition_texts, partition_values
from tiering.lake.paimon.upkeep.rewriting import DataFile
from tiering.lake.schema.column_ids import lake_columns_of_source, versions_of_source
from tiering.lake.writing.provenance import bucket_of_name
from tiering.model.reading.conditions import Condition
from tiering.model.reading.open_reads import AGAIN
from tiering.model.schema.field_ids import field_id, with_field_ids
from tiering.model.tables import PARTITION_SEPARATOR, BucketKey, TableInfo


def row_readers(
    table: TableInfo, view: LakeView | None, snapshot_id: int, conditions: Sequence[Condition] = ()
) -> Sequence[PaimonFileReader]:
    """Returns the readers of all live rows of a log table at the snapshot that may be needed (`RowScan.row_readers`)."""
    files, entries = _entries(table, view, snapshot_id, conditions)
    is_unaware = int(cast(LoadedTable, cast(LakeView, view).handle).schema.options.get(BUCKET, UNAWARE)) == UNAWARE
    return [
        PaimonFileReader(
            files,
            file,
            partition_name_of(entry) if table.partition_keys else None,
            None if is_unaware or int(entry.total_buckets) != table.bucket_count else int(entry.bucket),
        )
        for entry, file in entries
    ]


def bucket_readers(
    table: TableInfo,
    view: LakeView | None,
    snapshot_id: int,
    buckets: Mapping[BucketKey, str | None],
    left_out: Collection[BucketKey] = (),
    conditions: Sequence[Condition] = (),
) -> list[BucketRows]:
    """Returns the readers of the live rows of a primary-key table that may be needed (`RowScan.bucket_readers`)."""
    files, entries = _entries(table, view, snapshot_id, conditions)
    schema = cast(LoadedTable, cast(LakeView, view).handle).schema
    key = pa.schema([schema.columns.field(name) for name in schema.table.primary_keys if name not in schema.table.partition_keys])
    places: dict[Place, BucketKey] = {}
    for bucket, name in buckets.items():
        places[partition_values(schema.table.partition_keys, schema.columns, partition_texts(table, name)), bucket.bucket_id] = bucket
    by_place: dict[Place, list[tuple[Any, DataFile]]] = defaultdict(list)
    for entry, file in entries:
        if int(entry.total_buckets) != table.bucket_count:
            raise drift(table.path, None, f"has files of {entry.total_buckets} buckets, but the source has {table.bucket_count}")
        by_place[tuple(entry.partition.values), int(entry.bucket)].append((entry, file))
    rows: list[BucketRows] = []
    for place, members in by_place.items():
        bucket_key = places.get(place)
        if bucket_key is None or bucket_key not in left_out:
            reader = PaimonBucketReader(files, key, _runs(table, members))
            rows.append(BucketRows(frozenset() if bucket_key is None else frozenset((bucket_key,)), (reader,)))
    return rows


def _runs(table: TableInfo, files: Sequence[tuple[Any, DataFile]]) -> tuple[Run, ...]:
    """Returns the sorted runs of a bucket. A rewrite by Lakeward numbers its files by key; each other file is a run."""
    runs: dict[tuple[int, str], list[DataFile]] = defaultdict(list)
    for entry, file in files:
        is_ours = bucket_of_name(file.name, is_partitioned=bool(table.partition_keys)) is not None
        is_part = is_ours and entry.file.level > 0
        runs[int(entry.file.level), file.name.rpartition("-")[0] if is_part else file.name].append(file)
    return tuple(tuple(sorted(run, key=lambda file: file.name)) for _, run in sorted(runs.items()))


def _entries(
    table: TableInfo, view: LakeView | None, snapshot_id: int, conditions: Sequence[Condition]
) -> tuple[TableFiles, list[tuple[Any, DataFile]]]:
    """Returns the manifest entries of a snapshot whose files may be needed, with these files, in the order of their paths.

    Raises LakeUnavailable.
    """
    loaded = None if view is None else cast(LoadedTable, view.handle)
    snapshot = None if loaded is None else loaded.snapshot(snapshot_id)
    if loaded is None or snapshot is None:
        raise LakeUnavailable(
            f"the lake table of {table.path} no longer has the snapshot {snapshot_id}, with which the read began",
            hint=AGAIN,
            table_path=table.path,
        )
    with lake_errors(f"read the manifests of {table.path}", table_path=table.path):
        manifests = Manifests(loaded)
        readable = readable_entries(loaded, manifests, snapshot)
        names = _source_names(table, loaded) if conditions else {}
        needed = [entry for entry in readable if not conditions or _may_match(table, conditions, names, entry)]
        entries = [(entry, DataFile.of(entry, manifests.file_path(entry))) for entry in needed]
    source = with_field_ids(table.schema)
    stored = _stored_columns(source, loaded, {file.schema_id for _, file in entries})
    files = TableFiles(loaded.storage, str(loaded.root), table.path, table.schema, source, stored)
    return files, sorted(entries, key=lambda entry: entry[1].path)


def _may_match(table: TableInfo, conditions: Sequence[Condition], names: Mapping[int, str], entry: Any) -> bool:
    bounds = file_bounds(entry, table.partition_keys, names, has_key=bool(table.primary_key))
    return may_match(conditions, bounds, int(entry.file.row_count))


def _source_names(table: TableInfo, loaded: LoadedTable) -> Mapping[int, str]:
    """Returns the names of the source's columns by the ids of the lake's."""
    lake, source = loaded.schema.numbered, with_field_ids(table.schema)
    names = {field_id(column): column.name for column in source}
    same = zip(lake, lake_columns_of_source(source, lake, loaded.schema.column_ids), strict=True)
    return {field_id(column) or 0: names[number] for column, field in same if (number := field_id(field)) in names}


def partition_name_of(entry: Any) -> str | None:
    """Returns the name of the partition of a manifest entry; None if a value is NULL, or the table has no partitions."""
    values = entry.partition.values
    return None if None in values else PARTITION_SEPARATOR.join(map(str, values)) or None


def _stored_columns(source: pa.Schema, loaded: LoadedTable, schema_ids: Collection[int]) -> FileColumns:
    """Returns the columns of the files of these schemas. Raises InvalidArgument."""
    versions = {schema_id: schema_of_files(loaded, schema_id).numbered_all for schema_id in schema_ids}
    return FileColumns(versions_of_source(source, loaded.schema.numbered_all, loaded.schema.column_ids, versions))
