"""Surveys an Iceberg table on which no round may build: its markers, the rows' offsets, and what Fluss's tiering left."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.table import Table

from tiering.errors import MarkerCorrupt, SchemaDrift
from tiering.lake.base import FLUSS_OFFSETS_KEY, LakeView
from tiering.lake.fluss.offsets_file import OFFSETS_LIMIT_BYTES, is_offsets_path, parse_offsets, unreadable
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.iceberg.primary_key.bucket_files import LiveFile, live_bucket_files, live_entries, partition_of
from tiering.lake.iceberg.primary_key.position_deletes import dead_rows
from tiering.lake.iceberg.reading.expired_snapshots import ExpiredSnapshots
from tiering.lake.iceberg.reading.lake_parquet import check_readable, read_footer
from tiering.lake.iceberg.reading.view import marker_in, summary_of, view_of
from tiering.lake.iceberg.schema.drift import drift
from tiering.lake.iceberg.schema.layout import layout_of_schema
from tiering.lake.iceberg.schema.partition_values import FilePlace, bucket_of_value, file_place, partition_values
from tiering.lake.log_starts import NO_STARTS, LogStarts, commit_times_ms
from tiering.lake.maintenance import ForeignOffsets, LakeSurvey
from tiering.lake.marker import Marker
from tiering.lake.proof.file_footer import FileIdentity
from tiering.lake.rules.contiguous_offsets import Place, RowOffsets
from tiering.lake.rules.hints import accept_hint
from tiering.lake.writing.keys import Mask
from tiering.model.tables import (
    BUCKET_COLUMN,
    OFFSET_COLUMN,
    PARTITION_SEPARATOR,
    TIMESTAMP_COLUMN,
    BucketKey,
    TableInfo,
    TablePath,
    TableType,
)


def survey_of(path: TablePath, table: Table, expired: ExpiredSnapshots) -> LakeSurvey:
    """Returns the survey (`LakeMaintenance.survey`). Raises MarkerCorrupt only for a branch that has the tag's name."""
    view = expired.added_to(view_of(path, table, lenient=True), table)
    return LakeSurvey(view, view.marker if _is_newest(view) else _newest_marker(view, table), _head_marker(view, table))


def _is_newest(view: LakeView) -> bool:
    """Whether the tag names the newest round's snapshot, so that no other marker must be searched."""
    tagged = None if view.tiered is None else view.snapshots.get(view.tiered)
    rounds = [snapshot.sequence_number for snapshot in view.snapshots.values() if snapshot.round_id is not None]
    return view.marker is not None and tagged is not None and tagged.sequence_number >= max(rounds, default=0)


def _newest_marker(view: LakeView, table: Table) -> Marker | None:
    for snapshot in sorted(view.snapshots.values(), key=lambda snapshot: -snapshot.sequence_number):
        if snapshot.round_id is not None:
            with suppress(MarkerCorrupt):
                return marker_in(table, snapshot.snapshot_id)
    return None


def _head_marker(view: LakeView, table: Table) -> Marker | None:
    """Returns the marker of the head or of its nearest ancestor from a round; None if that marker cannot be read."""
    newest = next((snapshot for snapshot in view.line() if snapshot.round_id is not None), None)
    if newest is None:
        return None
    with suppress(MarkerCorrupt):
        return marker_in(table, newest.snapshot_id)
    return None


def row_offsets(table: TableInfo, view: LakeView, partitions: Mapping[str, int], begins: LogStarts = NO_STARTS) -> RowOffsets:
    """Returns the offsets of the head's rows (`LakeMaintenance.row_offsets`). Streams two columns and the partition's, and with `begins`
    the commit times.

    For a primary-key table it reads only manifests.
    """
    lake_rows = RowOffsets()
    if view.head is None:
        return lake_rows
    if table.table_type is TableType.PRIMARY_KEY:
        for place in _live_places(table, view, partitions):
            lake_rows.add_place(place)
        return lake_rows
    if not layout_of_schema(cast(Table, view.handle).schema()).has_row_offsets:
        return _offsets_by_footers(table, view, view.head, partitions)
    with lake_errors(f"read the offsets in the lake table {table.path}", table_path=table.path):
        columns = (*table.partition_keys, BUCKET_COLUMN, OFFSET_COLUMN, *((TIMESTAMP_COLUMN,) if begins else ()))
        scan = cast(Table, view.handle).scan(snapshot_id=view.head, selected_fields=columns)
        try:
            for batch in scan.to_arrow_batch_reader():
                _gather(lake_rows, pa.Table.from_batches([batch]), table, partitions, begins)
        except (pa.ArrowException, OSError):  # these errors do not name the file
            for task in scan.plan_files():
                check_readable(scan.io, task.file.file_path, [BUCKET_COLUMN, OFFSET_COLUMN])
            raise
    return lake_rows


def _offsets_by_footers(info: TableInfo, view: LakeView, head: int, partitions: Mapping[str, int]) -> RowOffsets:
    """Returns the offsets of a clean log table's rows. Raises SchemaDrift for a file of another writer, whose rows carry no offsets."""
    table, lake_rows, count = cast(Table, view.handle), RowOffsets(), len(info.partition_keys)
    names = {partition_values(info, BucketKey(None, 0), name, table.schema())[:count]: name for name in partitions}
    identity, layout = FileIdentity(info, view.table_uuid, partitions), layout_of_schema(table.schema())
    with lake_errors(f"read the footers of the lake table {info.path}", table_path=info.path):
        data, dead = files_of_log_table(table, info.path, head)
        for file in data:
            if (footer := read_footer(table.io, file)) is None:
                raise _without_offsets(info.path, file)
            partition = partition_of(file)
            if count and partition[:count] not in names:
                continue  # the partition was dropped
            name = names[partition[:count]] if count else None
            bucket_id = bucket_of_value(info, partition, layout)
            if (complaint := identity.complaint(footer, name, bucket_id)) is not None:
                raise drift(info.path, None, f"holds the file {file.file_path}, which {complaint}", accept_hint(info.path))
            if not identity.is_former(footer, name):
                place = (name, footer.bucket.bucket_id)
                offsets = np.concatenate([np.zeros(0, np.int64), *(np.arange(start, stop) for start, stop in footer.runs)])
                if footer.is_sorted and file.file_path in dead and not dead[file.file_path].all():
                    raise _without_offsets(info.path, file, "which is sorted and has deleted rows: it does not tell which offsets are left")
                alive = offsets[~dead[file.file_path]] if file.file_path in dead else offsets
                lake_rows.add(place, alive)
                lake_rows.add_footer(place, footer.rows, footer.checksum if len(alive) == footer.rows else None)
    return lake_rows


def files_of_log_table(table: Table, path: TablePath, snapshot_id: int) -> tuple[list[DataFile], dict[str, Mask]]:
    """Returns the data files of a log table's snapshot, and by location which of their rows are deleted.

    Raises SchemaDrift for equality deletes, which only other writers make.
    """
    files: dict[DataFileContent, list[DataFile]] = defaultdict(list)
    for entry in live_entries(table, snapshot_id):
        files[entry.data_file.content].append(entry.data_file)
    if files[DataFileContent.EQUALITY_DELETES]:
        raise _without_offsets(path, files[DataFileContent.EQUALITY_DELETES][0])
    data = files[DataFileContent.DATA]
    dead, _ = dead_rows(table.io, map(LiveFile.of, data), map(LiveFile.of, files[DataFileContent.POSITION_DELETES]))
    return data, dead


def _without_offsets(
    path: TablePath, file: DataFile, why: str = "which another writer made: the layout is clean, so its rows carry no offsets"
) -> SchemaDrift:
    """Returns the error for a file in a clean log table whose rows do not tell their offsets. The default is a file of another writer."""
    return drift(path, None, f"holds the file {file.file_path}, {why}", accept_hint(path))


def _live_places(info: TableInfo, view: LakeView, partitions: Collection[str]) -> list[Place]:
    """Returns the buckets that have data files. A file that may hold rows of several buckets counts for all of them."""
    table = cast(Table, view.handle)
    names: Collection[str | None] = partitions if info.partition_keys else (None,)
    places: dict[FilePlace, Place] = {}
    for name in names:
        for bucket_id in range(info.bucket_count):
            places[file_place(info, BucketKey(None, bucket_id), name, table.schema())] = (name, bucket_id)
    assert view.head is not None
    live_files = live_bucket_files(table, info.path, view.head, places.keys())
    return [places[place] for place, base in live_files.items() if base.data]


def _gather(offsets: RowOffsets, rows: pa.Table, info: TableInfo, partitions: Mapping[str, int], begins: LogStarts) -> None:
    keys = (*info.partition_keys, BUCKET_COLUMN)
    times = commit_times_ms(rows[TIMESTAMP_COLUMN].combine_chunks()) if begins else None
    for place in rows.group_by(list(keys)).aggregate([]).to_pylist():
        name = PARTITION_SEPARATOR.join(str(place[key]) for key in info.partition_keys) if info.partition_keys else None
        if name is not None and name not in partitions:
            continue
        mask = np.ones(rows.num_rows, dtype=bool)
        for key in keys:
            mask &= pc.equal(rows[key], pa.scalar(place[key], rows.schema.field(key).type)).to_numpy()
        where, numbers = (name, int(place[BUCKET_COLUMN])), rows[OFFSET_COLUMN].to_numpy()[mask]
        begin = None if name is None else begins.get(BucketKey(partitions[name], where[1]))
        if begin is None or times is None:
            offsets.add(where, numbers)
        else:
            offsets.add_with_times(where, numbers, times[mask], begin)


def foreign_offsets(view: LakeView, snapshot_id: int) -> ForeignOffsets:
    """Returns the offsets of version 1 of the file, with or without partitions (`LakeMaintenance.foreign_offsets`). -1 = unknown."""
    table = cast(Table, view.handle)
    snapshot = table.snapshot_by_id(snapshot_id)
    path = summary_of(snapshot).get(FLUSS_OFFSETS_KEY)
    if path is None or not is_offsets_path(path):
        raise unreadable(view, snapshot_id, f"it names no file of offsets: {path!r}")
    with lake_errors(f"read the offsets {path}", table_path=view.path):
        file = table.io.new_input(path)
        if not file.exists():
            raise unreadable(view, snapshot_id, f"its file {path} no longer exists; Fluss keeps only the newest one")
        if len(file) > OFFSETS_LIMIT_BYTES:
            raise unreadable(view, snapshot_id, f"its file {path} has {len(file)} bytes")
        with file.open() as stream:
            text = stream.read()
    return parse_offsets(view, snapshot_id, text)
