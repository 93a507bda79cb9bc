"""Sums over rows of an Iceberg table of a clean layout (`tiering.lake.proof.change_sums`): over the rows that snapshots of Fluss's own
tiering added together, and over the live rows of a log table's head.

All rows of files of other writers are read, a batch at a time, because nothing else identifies them. Deletes are applied as readers apply
them (Iceberg spec, "Scan Planning"): those by position, and those by key to rows of older sequence numbers.
Memory: one byte a row for each file with deleted rows, and 16 bytes for each key of the equality deletes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import numpy.typing as npt
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from tiering.lake.base import LakeView
from tiering.lake.foreign import CleanRows
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.iceberg.primary_key.bucket_files import LiveFile, partition_of
from tiering.lake.iceberg.primary_key.parquet_files import open_parquet, stored_and_whole_rows, whole_rows
from tiering.lake.iceberg.primary_key.position_deletes import dead_rows
from tiering.lake.iceberg.reading.added_rows import changed_files, partition_ids
from tiering.lake.iceberg.reading.lake_parquet import read_footer
from tiering.lake.iceberg.reading.survey import files_of_log_table
from tiering.lake.iceberg.schema.columns import recorded_ids
from tiering.lake.iceberg.schema.drift import drift
from tiering.lake.iceberg.schema.layout import layout_of_schema, own_fields
from tiering.lake.iceberg.schema.partition_values import PartitionValue, bucket_of_value
from tiering.lake.proof.change_sums import ChangeSums, RowSum, sum_of_hashes
from tiering.lake.proof.file_footer import FileIdentity
from tiering.lake.proof.row_checksum import Words, row_hashes
from tiering.lake.rules.hints import accept_hint
from tiering.lake.schema.column_ids import proof_columns
from tiering.lake.schema.stored_columns import stored_columns
from tiering.lake.writing.keys import Mask
from tiering.model.tables import TableInfo

REMOVES_FILES = "it removed data files without rewriting their rows"
NAMES_OTHER_ROWS = "its deletes name rows that it did not write, or rows twice"


@dataclass
class _Files:
    """The files added to one partition value, by content, each with its sequence number."""

    data: list[tuple[LiveFile, int]] = field(default_factory=list)
    by_key: list[tuple[LiveFile, int]] = field(default_factory=list)
    by_position: list[LiveFile] = field(default_factory=list)
    removes: bool = False


def clean_rows(table: TableInfo, view: LakeView, snapshot_ids: Sequence[int], partitions: Mapping[str, int]) -> list[CleanRows]:
    """Returns the sums of the rows that these snapshots added together (`CleanForeignCommits.clean_rows`)."""
    loaded = cast(Table, view.handle)
    with lake_errors(f"read what another tiering service added to {view.path}", table_path=view.path):
        ids, count = partition_ids(table, loaded, partitions), len(table.partition_keys)
        layout = layout_of_schema(loaded.schema())
        scopes = []
        for values, files in _by_partition(table, loaded, snapshot_ids).items():
            if count and values[:count] not in ids:
                continue  # the partition was dropped
            partition_id = ids[values[:count]] if count else None
            sums, names_other_rows = _sums(table, loaded, files)
            complaint = REMOVES_FILES if files.removes else NAMES_OTHER_ROWS if names_other_rows else ""
            scopes.append(CleanRows(partition_id, bucket_of_value(table, values, layout), sums, complaint))
    return scopes


def live_row_sums(table: TableInfo, view: LakeView, partitions: Mapping[str, int]) -> list[CleanRows]:
    """Returns the sums of the live rows at the head (`LiveRowSums.live_row_sums`)."""
    return _sums_of_live_rows(table, view, partitions, _live_rows_of)


def adoptable_row_sums(table: TableInfo, view: LakeView, partitions: Mapping[str, int]) -> list[CleanRows]:
    """Returns the sums of the live rows at the head in their present columns (`AdoptableRows.adoptable_row_sums`)."""
    return _sums_of_live_rows(table, view, partitions, _present_rows_of)


def _sums_of_live_rows(table: TableInfo, view: LakeView, partitions: Mapping[str, int], sum_of_file: _FileSum) -> list[CleanRows]:
    loaded = cast(Table, view.handle)
    if view.head is None:
        return []
    with lake_errors(f"read the rows of {view.path}", table_path=view.path):
        ids, count = partition_ids(table, loaded, partitions), len(table.partition_keys)
        layout = layout_of_schema(loaded.schema())
        own = own_fields(table, layout)
        names = {partition_id: name for name, partition_id in partitions.items()}
        identity = FileIdentity(table, view.table_uuid, partitions)
        data, dead = files_of_log_table(loaded, table.path, view.head)
        sums: dict[PartitionValue, RowSum] = defaultdict(RowSum)
        for file in data:
            values = partition_of(file)[:own]
            if count and values[:count] not in ids:
                continue  # the partition was dropped
            bucket_id = bucket_of_value(table, values, layout)
            place = (names[ids[values[:count]]] if count else None, bucket_id)
            sums[values] += sum_of_file(table, loaded, identity, file, place, dead.get(file.file_path))
    return [
        CleanRows(
            ids[values[:count]] if count else None,
            bucket_of_value(table, values, layout),
            ChangeSums(written=None, deleted=None, living=total, gone=None),
        )
        for values, total in sums.items()
    ]


_FileSum = Callable[[TableInfo, Table, FileIdentity, DataFile, tuple[str | None, int | None], Mask | None], RowSum]
"""Returns the sum of the live rows of a file in a place. The mask names its deleted rows."""


def _present_rows_of(
    table: TableInfo, loaded: Table, identity: FileIdentity, file: DataFile, place: tuple[str | None, int | None], dead: Mask | None
) -> RowSum:
    """Returns the sum of one file's live rows in the columns that both the lake table and its source have now. Raises SchemaDrift for an
    unreadable file, and for a file that a Lakeward round wrote."""
    if read_footer(loaded.io, file) is not None:
        raise drift(table.path, None, f"holds the file {file.file_path}, which a Lakeward round wrote")
    _check_readable(table, loaded, file, set())
    schema, total, first = loaded.schema(), RowSum(), 0
    names = [name for name in table.schema.names if name in schema.column_names]
    with open_parquet(loaded.io, LiveFile.of(file)) as parquet:
        for batch in whole_rows(parquet, schema):
            hashes = row_hashes(batch.select(names))
            total += sum_of_hashes(hashes if dead is None else hashes[~dead[first : first + len(hashes)]])
            first += len(hashes)
    return total


def _live_rows_of(
    table: TableInfo,
    loaded: Table,
    identity: FileIdentity,
    file: DataFile,
    place: tuple[str | None, int | None],
    dead: Mask | None,
) -> RowSum:
    """Returns the sum of one file's live rows. Raises SchemaDrift for an unreadable file, and for a file of another place."""
    footer = read_footer(loaded.io, file)
    if footer is not None:
        if (complaint := identity.complaint(footer, *place)) is not None:
            raise drift(table.path, None, f"holds the file {file.file_path}, which {complaint}", accept_hint(table.path))
        if identity.is_former(footer, place[0]):
            return RowSum()
        if dead is None:
            return RowSum(footer.rows, footer.checksum)
    if footer is None:
        _check_readable(table, loaded, file, set())
    total, first, recorded = RowSum(), 0, recorded_ids(loaded.properties)
    with open_parquet(loaded.io, LiveFile.of(file)) as parquet:
        names = proof_columns(stored_columns(parquet.schema_arrow), recorded)
        for batch, _ in stored_and_whole_rows(parquet, loaded.schema()):
            hashes = row_hashes(batch, names)
            total += sum_of_hashes(hashes if dead is None else hashes[~dead[first : first + len(hashes)]])
            first += len(hashes)
    return total


def _by_partition(table: TableInfo, loaded: Table, snapshot_ids: Sequence[int]) -> dict[PartitionValue, _Files]:
    """Returns the changed files by partition value. Raises SchemaDrift for an unreadable file."""
    keys = {loaded.schema().find_field(name).field_id for name in table.primary_key}
    files: dict[PartitionValue, _Files] = defaultdict(_Files)
    for snapshot_id in snapshot_ids:
        snapshot = loaded.metadata.snapshot_by_id(snapshot_id)
        number = 0 if snapshot is None else snapshot.sequence_number or 0
        added, removed = changed_files(loaded, snapshot_id)
        for file in added:
            _check_readable(table, loaded, file, keys)
            live, scope = LiveFile.of(file), files[partition_of(file)]
            if file.content is DataFileContent.POSITION_DELETES:
                scope.by_position.append(live)
            else:
                (scope.data if file.content is DataFileContent.DATA else scope.by_key).append((live, number))
        for file in removed:
            files[partition_of(file)].removes = True
    return files


def _check_readable(table: TableInfo, loaded: Table, file: DataFile, keys: set[int]) -> None:
    if file.file_format is not FileFormat.PARQUET or file.spec_id != loaded.spec().spec_id:
        raise drift(
            table.path,
            None,
            f"has the file {file.file_path} of another tiering service, in another format or another partition spec: its rows cannot be "
            "compared with the log",
        )
    if file.content is DataFileContent.EQUALITY_DELETES and set(file.equality_ids or ()) != keys:
        raise drift(table.path, None, f"has the equality deletes {file.file_path} of another tiering service, which do not use its key")


def _sums(table: TableInfo, loaded: Table, files: _Files) -> tuple[ChangeSums, bool]:
    """Returns the sums, and whether deletes by position name rows of other files, or rows twice."""
    schema = loaded.schema()
    # A new column at the source is NULL in rows that were written without it, which adds nothing to their sums.
    names = [name for name in table.schema.names if name in schema.column_names]
    dead, names_other_rows = dead_rows(loaded.io, (file for file, _ in files.data), files.by_position)
    by_key = _keys(loaded, table, files.by_key)
    sums = ChangeSums(deleted=by_key.sum, gone=None)
    for file, number in files.data:
        deleted_rows, first = dead.get(file.location), 0
        with open_parquet(loaded.io, file) as parquet:
            for batch in whole_rows(parquet, schema):
                hashes = row_hashes(batch.select(names))
                named = np.zeros(len(hashes), bool) if deleted_rows is None else deleted_rows[first : first + len(hashes)]
                keys = row_hashes(batch.select(list(table.primary_key))) if table.primary_key else np.zeros(0, np.uint64)
                alive = ~named & ~by_key.names(keys, number) if len(keys) else ~named
                killed = sum_of_hashes(keys[named]) if len(keys) else RowSum(int(named.sum()))
                sums += ChangeSums(sum_of_hashes(hashes), killed, sum_of_hashes(hashes[alive]))
                first += batch.num_rows
    return sums, names_other_rows


@dataclass(frozen=True)
class _DeletedKeys:
    """Sorted hashes of distinct keys, and for each the newest sequence number of its deletes."""

    keys: Words
    numbers: npt.NDArray[np.int64]
    sum: RowSum

    def names(self, keys: Words, number: int) -> npt.NDArray[np.bool_]:
        """Returns which rows with these keys, of a file with this sequence number, are deleted."""
        if not len(self.keys):
            return np.zeros(len(keys), bool)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        dead: npt.NDArray[np.bool_] = (self.keys[places] == keys) & (self.numbers[places] > number)
        return dead


def _keys(loaded: Table, table: TableInfo, files: Iterable[tuple[LiveFile, int]]) -> _DeletedKeys:
    """Returns the keys of equality deletes, which are given with the newest file last. Files may have whole old rows, or only keys."""
    columns = Schema(*(loaded.schema().find_field(name) for name in table.primary_key))
    keys, numbers, total = np.zeros(0, np.uint64), np.zeros(0, np.int64), RowSum()
    for file, number in files:
        if not table.primary_key:
            total += RowSum(file.records)
            continue
        with open_parquet(loaded.io, file) as parquet:
            hashes = np.concatenate([np.zeros(0, np.uint64), *(row_hashes(batch) for batch in whole_rows(parquet, columns))])
        total += sum_of_hashes(hashes)
        joined = np.concatenate([hashes, keys])
        keys, first = np.unique(joined, return_index=True)  # the newest number of a key, because newer ones come first
        numbers = np.concatenate([np.full(len(hashes), number, np.int64), numbers])[first]
    return _DeletedKeys(keys, numbers, total)
