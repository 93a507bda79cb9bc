"""Computes sums of the rows of a Paimon table with a clean layout (`tiering.lake.proof.change_sums`): of the rows that snapshots of Fluss's
own tiering added together, and of the rows at the head of a log table.

All rows of files that another service wrote are read, batch by batch, because nothing else identifies the rows. A data file of a
primary-key table has the last change of each key that was in its writer's memory, and readers take the row with the highest sequence
number. A writer numbers its changes after those in the bucket (Paimon's `AbstractFileStoreWrite`), so the newest change of a key is in the
newest snapshot. If that does not hold, for example because a round wrote its files before another one committed, sums cannot identify the
rows.

Memory: for one snapshot's bucket 25 bytes a change, and 17 bytes a changed key.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tiering.errors import DataCorrupt, LakewardError, SchemaDrift
from tiering.lake.base import LakeView
from tiering.lake.foreign import CleanRows
from tiering.lake.paimon.commit.manifests import Manifests, Place
from tiering.lake.paimon.errors import lake_errors
from tiering.lake.paimon.reading.added_rows import APPEND, COMPACT, partition_ids
from tiering.lake.paimon.reading.data_files import known_footer, open_data_file
from tiering.lake.paimon.reading.file_columns import FileColumns
from tiering.lake.paimon.reading.loading import LoadedTable
from tiering.lake.paimon.schema.drift import drift
from tiering.lake.paimon.schema.layout import BUCKET, CHANGELOG_PRODUCER, INPUT, UNAWARE
from tiering.lake.paimon.schema.types import written_type
from tiering.lake.paimon.writing.sorted_files import KIND, ROW_KINDS, SEQUENCE
from tiering.lake.proof.change_sums import ChangeSums, NewestRows, RowSum, sum_of_hashes
from tiering.lake.proof.file_footer import FileFooter, FileIdentity
from tiering.lake.proof.row_checksum import Words, row_hashes
from tiering.lake.rules.hints import accept_hint
from tiering.lake.schema.column_ids import lake_columns_of_source, proof_columns, versions_of_source
from tiering.model.schema.field_ids import children, identity, with_field_ids
from tiering.model.schema.row_conversion import has_same_values
from tiering.model.tables import SYSTEM_COLUMNS, ChangeType, TableInfo

REMOVES_FILES = "it removed data files without rewriting their rows"
OUT_OF_ORDER = "sequence numbers of its rows are not above those of the earlier rows, so readers may take an earlier row for the newest"
_BATCH_ROWS = 1 << 16
_TAKES_AWAY = np.array([ROW_KINDS[ChangeType.UPDATE_BEFORE], ROW_KINDS[ChangeType.DELETE]], np.int8)
_OWN = (pa.field(SEQUENCE, pa.int64()), pa.field(KIND, pa.int8()))
Numbers = npt.NDArray[np.int64]


@dataclass
class _AddedRows:
    """The rows that one snapshot added to one place. `highest_before` is the highest sequence number at the place before the snapshot."""

    data: list[Any] = field(default_factory=list)
    changelog: list[Any] = field(default_factory=list)
    highest_before: int = -1
    complaint: str = ""


def clean_rows(table: TableInfo, view: LakeView, snapshot_ids: Sequence[int], partitions: Mapping[str, int]) -> list[CleanRows]:
    """Returns the sums of the rows that the snapshots added together. Implements `CleanForeignCommits.clean_rows`."""
    loaded = cast(LoadedTable, view.handle)
    with lake_errors(f"read what another tiering service added to {view.path}", table_path=view.path):
        manifests, ids = Manifests(loaded), partition_ids(table, loaded, partitions)
        places: dict[Place, list[_AddedRows]] = defaultdict(list)
        for snapshot_id in snapshot_ids:
            for place, added in _by_place(table, loaded, manifests, snapshot_id).items():
                places[place].append(added)
        reader = _FileReader(table, loaded, manifests)
        is_unaware = int(loaded.schema.options.get(BUCKET, UNAWARE)) == UNAWARE
        scopes = []
        for (values, bucket_id), parts in places.items():
            if table.partition_keys and values not in ids:
                continue  # a file of a dropped partition
            partition_id = ids[values] if table.partition_keys else None
            sums, complaint = _keyed_sums(reader, parts) if table.primary_key else (_row_sums(reader, parts), "")
            complaint = next((added.complaint for added in parts if added.complaint), complaint)
            scopes.append(CleanRows(partition_id, None if is_unaware else bucket_id, sums, complaint))
    return scopes


def live_row_sums(table: TableInfo, view: LakeView, partitions: Mapping[str, int]) -> list[CleanRows]:
    """Returns the sums of the head's rows. Implements `LiveRowSums.live_row_sums`.

    Rows that deletion vectors delete count too, because they were tiered.
    """
    return _sums_of_live_rows(table, view, partitions, _live_rows_in)


def adoptable_row_sums(table: TableInfo, view: LakeView, partitions: Mapping[str, int]) -> list[CleanRows]:
    """Returns the sums of the head's rows. Implements `AdoptableRows.adoptable_row_sums`.

    The table has no deletion vectors, because `schema.drift` refuses the option.
    """
    return _sums_of_live_rows(table, view, partitions, _adoptable_rows_in)


def _sums_of_live_rows(table: TableInfo, view: LakeView, partitions: Mapping[str, int], sum_of_file: _FileSum) -> list[CleanRows]:
    loaded = cast(LoadedTable, view.handle)
    if loaded.head is None:
        return []
    with lake_errors(f"read the rows of {view.path}", table_path=view.path):
        manifests, ids = Manifests(loaded), partition_ids(table, loaded, partitions)
        is_unaware = int(loaded.schema.options.get(BUCKET, UNAWARE)) == UNAWARE
        names = {partition_id: name for name, partition_id in partitions.items()}
        reader, identity = _FileReader(table, loaded, manifests), FileIdentity(table, view.table_uuid, partitions)
        sums: dict[Place, RowSum] = defaultdict(RowSum)
        for entry in manifests.live_entries(loaded.head):
            values, bucket_id = place = _place(entry)
            if table.partition_keys and values not in ids:
                continue  # a file of a dropped partition
            name = names[ids[values]] if table.partition_keys else None
            sums[place] += sum_of_file(reader, identity, entry, (name, None if is_unaware else bucket_id))
    return [
        CleanRows(
            ids[values] if table.partition_keys else None,
            None if is_unaware else bucket_id,
            ChangeSums(written=None, deleted=None, living=total, gone=None),
        )
        for (values, bucket_id), total in sums.items()
    ]


def _live_rows_in(reader: _FileReader, identity: FileIdentity, entry: Any, place: tuple[str | None, int | None]) -> RowSum:
    """Returns the sum of the rows of one file. Raises SchemaDrift for a file that cannot be read or belongs to another place."""
    footer = reader.footer(entry)
    if footer is not None:
        if (complaint := identity.complaint(footer, *place)) is not None:
            path = identity.table.path
            raise drift(path, None, f"has the file {entry.file.file_name}, which {complaint}", accept_hint(path))
        if identity.is_former(footer, place[0]):
            return RowSum()
        if reader.has_source_columns(entry):
            return RowSum(footer.rows, footer.checksum)
    return _sum_of_rows(reader, entry)


def _adoptable_rows_in(reader: _FileReader, identity: FileIdentity, entry: Any, place: tuple[str | None, int | None]) -> RowSum:
    """Returns the sum of the rows of one file. Raises SchemaDrift for a file that cannot be read, and for one of a Lakeward round."""
    if reader.footer(entry) is not None:
        raise drift(identity.table.path, None, f"has the file {entry.file.file_name}, which a Lakeward round wrote")
    return _sum_of_rows(reader, entry)


def _sum_of_rows(reader: _FileReader, entry: Any) -> RowSum:
    return sum((sum_of_hashes(row_hashes(batch)) for batch in reader.rows(entry)), RowSum())


def _by_place(table: TableInfo, loaded: LoadedTable, manifests: Manifests, snapshot_id: int) -> dict[Place, _AddedRows]:
    """Returns the changes of a snapshot by place. Raises SchemaDrift if the snapshot, or the one before it, has expired in the meantime."""
    snapshot, before = loaded.snapshot(snapshot_id), loaded.snapshot(snapshot_id - 1)
    if snapshot is None or (before is None and snapshot_id > 1):
        raise drift(table.path, None, f"lost its snapshot {snapshot_id}, or the one before it, while it was read")
    changes, kind = manifests.changes(snapshot), str(snapshot.document["commitKind"])
    places: dict[Place, _AddedRows] = defaultdict(_AddedRows)
    for entry in changes.added:
        places[_place(entry)].data.append(entry)
    for entry in changes.changelog:
        places[_place(entry)].changelog.append(entry)
    for entry in changes.removed:
        places[_place(entry)].complaint = REMOVES_FILES
    if kind not in (APPEND, COMPACT):
        for added in places.values():
            added.complaint = f"it made a commit of the kind {kind}"
    if table.primary_key and before is not None:
        for entry in manifests.live_entries(before):
            if (place := _place(entry)) in places:
                places[place].highest_before = max(places[place].highest_before, int(entry.file.max_sequence_number))
    return places


def _place(entry: Any) -> Place:
    return tuple(entry.partition.values), int(entry.bucket)


def _row_sums(reader: _FileReader, parts: Sequence[_AddedRows]) -> ChangeSums:
    written = RowSum()
    for added in parts:
        for entry in added.data:
            for batch in reader.rows(entry):
                written += sum_of_hashes(row_hashes(batch))
    return ChangeSums(written, living=written)


def _keyed_sums(reader: _FileReader, parts: Sequence[_AddedRows]) -> tuple[ChangeSums, str]:
    """Returns the sums of changes of a primary-key table, and what is wrong with their order; "" = nothing."""
    newest, in_order = NewestRows(), True
    for added in parts:
        keys, rows, alive, sequences = reader.changes(added.data)
        order = np.argsort(sequences, kind="stable")
        numbers = sequences[order]
        in_order = in_order and bool((np.diff(numbers) > 0).all()) and not (numbers[:1] <= added.highest_before).any()
        newest.add(keys[order], rows[order], alive[order])
    written, deleted = _followed(reader, parts)
    at_the_end = newest.sums()
    return ChangeSums(written, deleted, at_the_end.living, at_the_end.gone), "" if in_order else OUT_OF_ORDER


def _followed(reader: _FileReader, parts: Sequence[_AddedRows]) -> tuple[RowSum | None, RowSum | None]:
    """Returns the sums of all written rows and of the keys of all deleted ones. Both are None if the table has no changelog files."""
    if not reader.is_followed and not any(added.changelog for added in parts):
        return None, None
    written, deleted = RowSum(), RowSum()
    for added in parts:
        for entry in added.changelog:
            for keys, rows, alive, _ in reader.parts(entry):
                written += sum_of_hashes(rows[alive])
                deleted += sum_of_hashes(keys[~alive])
    return written, deleted


def _has_names(stored: pa.Schema | pa.DataType, source: pa.Schema | pa.DataType, left_out: Collection[str] = ()) -> bool:
    """Whether each field of `stored` is one of `source` with the same name, nested fields included. A field that it lacks is NULL."""
    by_identity = {identity(field): field for field in children(source)}
    pairs = [(field, by_identity.get(identity(field))) for field in children(stored) if field.name not in left_out]
    return all(same is not None and same.name == field.name and _has_names(field.type, same.type) for field, same in pairs)


_FileSum = Callable[["_FileReader", FileIdentity, Any, tuple[str | None, int | None]], RowSum]
"""Returns the sum of the rows of a file in a place."""

Hashed = tuple[Words, Words, npt.NDArray[np.bool_], Numbers]
"""For a batch of changes: hashes of keys, hashes of rows, whether each change leaves a row, and the sequence numbers."""


class _FileReader:
    """Reads rows of files of any writer, in the columns of the source table; a column that a file lacks is null."""

    def __init__(self, table: TableInfo, loaded: LoadedTable, manifests: Manifests) -> None:
        self._table, self._loaded, self._manifests = table, loaded, manifests
        self._recorded = loaded.schema.column_ids
        self._source = with_field_ids(table.schema)
        self._columns = self._with_lake_types(self._source)
        self._stored_columns: dict[tuple[int, bool], FileColumns] = {}
        """The result of `_stored` by schema id and `for_proof`."""

    @property
    def is_followed(self) -> bool:
        """Returns whether the table's options require changelog files."""
        return self._loaded.schema.options.get(CHANGELOG_PRODUCER, "none").lower() == INPUT

    def footer(self, entry: Any) -> FileFooter | None:
        """Returns the footer of a file; None for a file that another service wrote."""
        path = self._loaded.root / self._manifests.file_path(entry)
        return known_footer(self._loaded.storage, path, int(entry.file.row_count))

    def has_source_columns(self, entry: Any) -> bool:
        """Returns whether the checksum in the footer of a file is made with the names of the source's columns."""
        number = int(entry.file.schema_id)
        named = self._stored(entry, for_proof=True).by_schema[number]
        return _has_names(named, self._source, SYSTEM_COLUMNS)

    def rows(self, entry: Any) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a file. Raises SchemaDrift if its rows cannot be compared with the log, DataCorrupt."""
        return self._batches(entry, self._columns)

    def changes(self, entries: Sequence[Any]) -> Hashed:
        """Returns the changes of several files of a primary-key table."""
        parts = [part for entry in entries for part in self.parts(entry)]
        nothing = np.zeros(0, np.uint64), np.zeros(0, np.uint64), np.zeros(0, bool), np.zeros(0, np.int64)
        columns = [np.concatenate(column) for column in zip(nothing, *parts, strict=True)]
        return cast(Hashed, tuple(columns))

    def parts(self, entry: Any) -> Iterator[Hashed]:
        """Yields the changes of one file of a primary-key table, batch by batch."""
        names, keys = self._columns.names, list(self._table.primary_key)
        for batch in self._batches(entry, pa.schema([*self._columns, *_OWN])):
            numbers, kinds = batch.column(SEQUENCE), batch.column(KIND)
            if numbers.null_count or kinds.null_count:
                raise self._unreadable(entry, "which has rows without sequence number or kind of change")
            alive = ~np.isin(kinds.to_numpy(), _TAKES_AWAY)
            yield row_hashes(batch.select(keys)), row_hashes(batch.select(names)), alive, numbers.to_numpy()

    def _batches(self, entry: Any, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        path = self._loaded.root / self._manifests.file_path(entry)
        if path.suffix != ".parquet" or entry.file.external_path:
            raise self._unreadable(entry, "which is not a Parquet file in the table's folder")
        stored = self._stored(entry)
        requested = pa.schema([column for column in columns if column not in _OWN])
        own = [column for column in _OWN if column.name in columns.names]
        with open_data_file(self._loaded.storage, path) as file:
            if file.metadata.num_rows != int(entry.file.row_count):
                raise DataCorrupt(
                    f"{self._loaded.storage.location(path)} has {file.metadata.num_rows} rows; the lake table says {entry.file.row_count}",
                    hint="The file was changed after it was committed. Restore it.",
                    table_path=self._table.path,
                )
            names = [*(column.name for column in own), *stored.names(int(entry.file.schema_id), list(requested))]
            present = [name for name in file.schema_arrow.names if name in names]
            for batch in file.iter_batches(_BATCH_ROWS, columns=present, use_threads=False):
                values = stored.converted(
                    batch, int(entry.file.schema_id), requested, lambda column, problem: self._misfit(entry, column, problem)
                )
                arrays = [*values.columns, *(self._own_column(entry, batch, column) for column in own)]
                yield pa.RecordBatch.from_arrays(arrays, schema=columns)

    def _own_column(self, entry: Any, batch: pa.RecordBatch, column: pa.Field[Any]) -> pa.Array[Any]:
        place = batch.schema.get_field_index(column.name)
        if place < 0:
            raise self._unreadable(entry, f"which lacks the column {column.name!r}")
        return batch.column(place).cast(column.type)

    def _misfit(self, entry: Any, column: str, problem: str) -> LakewardError:
        return self._unreadable(entry, f"whose column {column!r} has {problem}")

    def _stored(self, entry: Any, *, for_proof: bool = False) -> FileColumns:
        """Returns the columns of a file, with their names in checksums if `for_proof`. Raises SchemaDrift if its schema does not exist."""
        number = int(entry.file.schema_id)
        if (number, for_proof) in self._stored_columns:
            return self._stored_columns[number, for_proof]
        schema = self._loaded.schema.version(number)
        if schema is None:
            raise self._unreadable(entry, f"of the schema {number}, which does not exist")
        present = self._loaded.schema.field_ids
        if self._recorded is None and any(present.get(name) != field_id for name, field_id in schema.field_ids.items()):
            raise self._unreadable(entry, "which has a column that was renamed or dropped since")
        columns = proof_columns(schema.numbered_all, self._recorded) if for_proof else schema.numbered_all
        versions = versions_of_source(self._source, self._loaded.schema.numbered_all, self._recorded, {number: columns})
        return self._stored_columns.setdefault((number, for_proof), FileColumns(versions))

    def _with_lake_types(self, source: pa.Schema) -> pa.Schema:
        """Returns the source's columns in the types in which files of the lake table have them, or will have them if they are new."""
        lake = {identity(column): column for column in lake_columns_of_source(source, self._loaded.schema.numbered, self._recorded)}
        return pa.schema([column.with_type(self._type(column, lake.get(identity(column)))) for column in source])

    def _type(self, column: pa.Field[Any], lake: pa.Field[Any] | None) -> pa.DataType:
        is_same = lake is not None and has_same_values(pa.schema([column]), pa.schema([lake]))
        kind = lake.type if lake is not None and (is_same or not column.type.num_fields) else column.type
        return written_type(kind)

    def _unreadable(self, entry: Any, difference: str) -> SchemaDrift:
        difference = f"has the file {entry.file.file_name} of another tiering service, {difference}"
        return drift(self._table.path, None, f"{difference}: its rows cannot be compared with the log")
