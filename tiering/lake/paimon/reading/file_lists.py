"""Lists the files of a Paimon snapshot for engines that read them without Paimon, with the rule that merges rows of one key."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from tiering.errors import InvalidArgument
from tiering.lake.base import LakeView
from tiering.lake.file_lists import FIELD_ID_KEY, FileLists, LakeFile, LocalCopies, MergeRule, SourceFields
from tiering.lake.marker import ROUND_ID_KEY, Marker
from tiering.lake.paimon.commit.manifests import Manifests
from tiering.lake.paimon.errors import lake_errors
from tiering.lake.paimon.reading.loading import LoadedTable
from tiering.lake.paimon.reading.snapshots import StoredSnapshot
from tiering.lake.paimon.reading.view import marker_in
from tiering.lake.paimon.schema.layout import BUCKET, UNAWARE
from tiering.lake.paimon.schema.stored_schema import StoredSchema
from tiering.lake.paimon.writing.sorted_files import KEY_PREFIX, KIND, ROW_KINDS, SEQUENCE
from tiering.lake.schema.column_ids import source_in_lake_ids
from tiering.model.schema.field_ids import all_fields, field_id, with_inner, with_metadata
from tiering.model.tables import PARTITION_SEPARATOR, SYSTEM_COLUMNS, ChangeType, TableInfo

_LIVE = (ROW_KINDS[ChangeType.INSERT], ROW_KINDS[ChangeType.UPDATE_AFTER])
_READ_OTHERWISE = {
    "merge-engine": "deduplicate",
    "sequence.field": "",
    "ignore-delete": "false",
    "ignore-update-before": "false",
    "deletion-vectors.enabled": "false",
    "data-file.thin-mode": "false",
    "data-evolution.enabled": "false",
    "record-level.expire-time": "",
}
"""Options with which a Paimon reader returns other rows from the same files, and the value with which it does not."""


def columns(view: LakeView) -> pa.Schema:
    """Returns the columns of the lake table with the field ids of all fields. Implements `ReadableLake.columns`."""
    return pa.schema([_with_parquet_id(column) for column in cast(LoadedTable, view.handle).schema.numbered_all])


def _with_parquet_id(field: pa.Field[Any]) -> pa.Field[Any]:
    return with_metadata(with_inner(field, _with_parquet_id), {FIELD_ID_KEY: str(field_id(field))})


def source_fields(table: TableInfo, view: LakeView) -> SourceFields | None:
    """Returns the source's columns with the lake's field ids. Implements `FollowingLake.source_fields`."""
    schema = cast(LoadedTable, view.handle).schema
    recorded, present = schema.column_ids, schema.numbered_all
    if recorded is None:
        return None
    system = [column for column in present if column.name in SYSTEM_COLUMNS]
    return SourceFields(pa.schema([*source_in_lake_ids(table.schema, schema.numbered, recorded), *system]), recorded)


def has_other_columns(table: TableInfo, view: LakeView, snapshot_id: int) -> bool:
    """Compares the source's columns with those of the snapshot's schema. Implements `FollowingLake.has_other_columns`."""
    loaded = cast(LoadedTable, view.handle)
    fields, snapshot = source_fields(table, view), loaded.snapshot(snapshot_id)
    if fields is None:
        return False
    schema = None if snapshot is None else loaded.schema.version(int(snapshot.document["schemaId"]))
    names = {} if schema is None else {field_id(field): field.name for field in all_fields(schema.numbered_all)}
    return any(names.get(field_id(field)) != field.name for field in all_fields(fields.columns))


def file_lists(view: LakeView, snapshot_id: int | None, copies_in: Path | None = None) -> FileLists:
    """Returns the files of a snapshot; None = the head. Implements `ReadableLake.file_lists`."""
    loaded = cast(LoadedTable, view.handle)
    _check_options(loaded)
    requested_id = view.head if snapshot_id is None else snapshot_id
    rule = _merge_rule(loaded.schema)
    if requested_id is None:
        return FileLists(None, merge=rule, has_field_ids=False)
    snapshot = loaded.snapshot(requested_id)
    if snapshot is None:
        raise InvalidArgument(
            f"the lake table {view.path} has no snapshot {requested_id}",
            hint=f"It has {len(view.snapshots)} snapshots; the newest is {view.head}. The snapshot may have expired.",
            lake_snapshot_id=requested_id,
        )
    with lake_errors(f"read the manifests of {view.path}", table_path=view.path):
        manifests = Manifests(loaded)
        entries = readable_entries(loaded, manifests, snapshot)
        copies = None if copies_in is None or loaded.storage.is_local else _copies(loaded, copies_in)
        data = tuple(_file(loaded, manifests, entry, copies) for entry in entries)
    if copies is not None:
        copies.fetch()
    return FileLists(requested_id, data, merge=rule, has_field_ids=False)


def readable_entries(loaded: LoadedTable, manifests: Manifests, snapshot: StoredSnapshot) -> list[Any]:
    """Returns the entries of a snapshot's files. Raises InvalidArgument if the files alone do not tell the table's rows."""
    _check_options(loaded)
    _check_deletion_vectors(loaded, snapshot)
    entries = manifests.live_entries(snapshot)
    for entry in entries:
        if entry.file.external_path or not str(entry.file.file_name).endswith(".parquet"):
            location = entry.file.external_path or loaded.storage.location(loaded.root / manifests.file_path(entry))
            raise InvalidArgument(
                f"{location} is not a Parquet file in the folder of {loaded.path}: this version reads no others",
                hint="Read the table with Paimon, or let Paimon rewrite its files with the option `file.format` = `parquet`.",
                table_path=loaded.path,
            )
    return entries


def marker_at(view: LakeView, snapshot_id: int) -> Marker | None:
    """Returns the newest marker up to a snapshot. Implements `ReadableLake.marker_at`."""
    loaded = cast(LoadedTable, view.handle)
    snapshot = loaded.newest_with(ROUND_ID_KEY, snapshot_id)
    return None if snapshot is None else marker_in(loaded, snapshot)


def _merge_rule(schema: StoredSchema) -> MergeRule | None:
    keys = [name for name in schema.table.primary_keys if name not in schema.table.partition_keys]
    return MergeRule(tuple(KEY_PREFIX + name for name in keys), SEQUENCE, KIND, _LIVE) if keys else None


def _copies(loaded: LoadedTable, folder: Path) -> LocalCopies:
    storage = loaded.storage
    return LocalCopies(
        folder,
        lambda location: storage.opened_file(storage.path_of(location)),
        lambda location: lake_errors(f"copy {location}", table_path=loaded.path, lake_file=location),
    )


def _file(loaded: LoadedTable, manifests: Manifests, entry: Any, copies: LocalCopies | None) -> LakeFile:
    location = loaded.storage.location(loaded.root / manifests.file_path(entry))
    if copies is None and not loaded.storage.is_local:
        raise InvalidArgument(
            f"{location} is not a local file: DuckDB reads only lake files on this machine",
            hint="Read the table with Paimon's own reader, such as pypaimon. `lakeward validate` copies the files that it reads.",
            table_path=loaded.path,
        )
    partition = PARTITION_SEPARATOR.join(str(value) for value in entry.partition.values)
    is_unaware = int(loaded.schema.options.get(BUCKET, UNAWARE)) == UNAWARE
    return LakeFile(
        location=location,
        path=location if copies is None else copies.path_of(location),
        sequence_number=0,
        records=int(entry.file.row_count),
        partition=f"{partition}/{entry.bucket}",
        bucket=None if is_unaware else int(entry.bucket),
        place=partition,
        fields=schema_of_files(loaded, int(entry.file.schema_id)).numbered_all,
    )


def _check_options(loaded: LoadedTable) -> None:
    """Raises InvalidArgument for an option with which the table's rows differ from those that this module reads from its files."""
    options = loaded.schema.options
    for name, plain in _READ_OTHERWISE.items():
        value = options.get(name, plain)
        if value.lower() != plain:
            raise _refused(loaded, f"has the option {name} = {value}")


def _check_deletion_vectors(loaded: LoadedTable, snapshot: StoredSnapshot) -> None:
    if snapshot.document.get("indexManifest") is not None:
        raise _refused(loaded, f"has index files in snapshot {snapshot.snapshot_id}, which may be deletion vectors")


def _refused(loaded: LoadedTable, reason: str) -> InvalidArgument:
    return InvalidArgument(
        f"the Paimon table {loaded.path} {reason}: this version cannot read its rows from its files",
        hint="Read it with Paimon's own reader, such as pypaimon.",
        table_path=loaded.path,
    )


def schema_of_files(loaded: LoadedTable, schema_id: int) -> StoredSchema:
    """Returns the schema with which files were written. Raises InvalidArgument if it does not exist."""
    schema = loaded.schema.version(schema_id)
    if schema is None:
        raise _refused(loaded, f"has files of its schema {schema_id}, which does not exist")
    return schema
