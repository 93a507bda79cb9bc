"""The files of an Iceberg snapshot, read from its manifests. Files of a remote store are copied if there is a folder for the copies."""

from __future__ import annotations

from pathlib import Path
from typing import cast
from urllib.parse import urlparse

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import DateType

from tiering.errors import InvalidArgument
from tiering.lake.base import LakeView
from tiering.lake.file_lists import EqualityDeletes, FileLists, LakeFile, LocalCopies
from tiering.lake.iceberg.catalogs.file_io import io_of
from tiering.lake.iceberg.catalogs.locations import AllowedLocations, is_local
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.iceberg.primary_key.bucket_files import live_entries
from tiering.lake.iceberg.reading.view import marker_in
from tiering.lake.iceberg.schema.layout import own_spec_fields
from tiering.lake.iceberg.schema.partition_values import value_text
from tiering.lake.marker import Marker
from tiering.model.tables import BUCKET_COLUMN, PARTITION_SEPARATOR


def file_lists(view: LakeView, snapshot_id: int | None, copies_in: Path | None = None) -> FileLists:
    """Returns the files of a snapshot (`ReadableLake.file_lists`)."""
    table = cast(Table, view.handle)
    requested_id = view.head if snapshot_id is None else snapshot_id
    if requested_id is None:
        return FileLists(None)
    if table.snapshot_by_id(requested_id) is None:
        raise InvalidArgument(
            f"the lake table {view.path} has no snapshot {requested_id}",
            hint=f"It has {len(view.snapshots)} snapshots; the newest is {view.head}. The requested one may have expired.",
            lake_snapshot_id=requested_id,
        )
    data: list[LakeFile] = []
    positions: list[LakeFile] = []
    equalities: list[EqualityDeletes] = []
    copies = None if copies_in is None else _copies(copies_in, table)
    with lake_errors(f"read the manifests of {view.path}", table_path=view.path):
        for entry in live_entries(table, requested_id):
            content = entry.data_file.content
            if content is DataFileContent.DATA:
                data.append(_file(table, entry, copies))
            elif content is DataFileContent.POSITION_DELETES:
                positions.append(_file(table, entry, copies))
            else:
                equalities.append(_equality_deletes(table, entry, copies))
    if copies is not None:
        copies.fetch()
    return FileLists(requested_id, tuple(data), tuple(positions), tuple(equalities))


def marker_at(view: LakeView, snapshot_id: int) -> Marker | None:
    """Returns the marker of a snapshot or of its nearest ancestor with one (`ReadableLake.marker_at`)."""
    table = cast(Table, view.handle)
    current: int | None = snapshot_id
    while current is not None and (snapshot := view.snapshots.get(current)) is not None:
        if snapshot.round_id is not None:
            return marker_in(table, current)
        current = snapshot.parent_id
    return None


def _copies(folder: Path, table: Table) -> LocalCopies:
    return LocalCopies(
        folder, lambda location: table.io.new_input(location).open(), lambda location: lake_errors(f"copy {location}", lake_file=location)
    )


def _equality_deletes(table: Table, entry: ManifestEntry, copies: LocalCopies | None) -> EqualityDeletes:
    columns = tuple(table.metadata.schema().find_column_name(field_id) or "" for field_id in entry.data_file.equality_ids or ())
    # Spec, "Scan Planning": equality deletes of an unpartitioned spec are global.
    everywhere = table.metadata.specs()[entry.data_file.spec_id].is_unpartitioned()
    return EqualityDeletes(**vars(_file(table, entry, copies)), columns=columns, everywhere=everywhere)


def _file(table: Table, entry: ManifestEntry, copies: LocalCopies | None) -> LakeFile:
    file = entry.data_file
    if file.file_format is not FileFormat.PARQUET:
        raise InvalidArgument(
            f"{file.file_path} is a file of format {file.file_format}: this version validates lakes of Parquet files",
            hint="Deletion vectors are such files. Let Spark rewrite the lake table (rewrite_data_files), then validate again.",
        )
    places = io_of(table).places
    if copies is None or is_local(file.file_path):
        path = local_path(file, places)
    else:
        places.check(file.file_path)
        path = copies.path_of(file.file_path)
    partition = f"{file.spec_id}:{file.partition!r}"
    return LakeFile(
        file.file_path, path, entry.sequence_number or 0, file.record_count, partition, _bucket(table, file), partition_name_of(table, file)
    )


def partition_name_of(table: Table, file: DataFile) -> str | None:
    """Returns the name of the file's partition, from which readers take its columns' values. None if the table has no partitions, or a user
    changed them."""
    texts: list[str] = []
    for place, field in enumerate(own_spec_fields(table.metadata, file.spec_id)):
        column = table.metadata.schema().find_field(field.source_id)
        if isinstance(field.transform, BucketTransform) or column.name == BUCKET_COLUMN:
            continue
        value = file.partition[place]
        if not isinstance(field.transform, IdentityTransform) or value is None:
            return None
        texts.append(value_text(value, is_date=isinstance(column.field_type, DateType)))
    return PARTITION_SEPARATOR.join(texts) or None


def _bucket(table: Table, file: DataFile) -> int | None:
    for place, field in enumerate(own_spec_fields(table.metadata, file.spec_id)):
        if isinstance(field.transform, BucketTransform):
            bucket: int | None = file.partition[place]
            return bucket
    return None


def local_path(file: DataFile, places: AllowedLocations) -> str:
    """Returns the local path of the file. Raises InvalidArgument for a remote storage, ForbiddenLocation."""
    location = urlparse(file.file_path)
    if location.scheme not in ("", "file"):
        raise InvalidArgument(
            f"{file.file_path} is not a local file: DuckDB reads only lake files on this machine",
            hint="Read it in Spark: SELECT * FROM fluss.<database>.`<table>$lake`. `lakeward validate` copies the files it reads.",
        )
    return places.local_path(file.file_path)
