"""Rewrites the live rows of several files of one bucket, in their order, as fewer files. It does not change the table.

In a clean table, the footer of a new file names exactly the offsets of its rows. The rows that are read must have the checksums of the old
footers, so that a damaged file never becomes a file that looks intact.

Deleted rows are left out (Iceberg spec, "Scan Planning"). A position delete names a data file and a row. An equality delete applies to all
older data files of its partition: it deletes rows that are equal to one of its rows in the columns `equality_ids`. Lakeward never writes
equality deletes, but other tools do.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from tiering import crash_points
from tiering.errors import Cancelled, DataCorrupt
from tiering.lake.base import FileRewrite
from tiering.lake.iceberg.primary_key.bucket_files import LiveFile
from tiering.lake.iceberg.primary_key.parquet_files import ROW_BATCH_ROWS, key_rows, lost_fields, open_parquet, stored_and_whole_rows
from tiering.lake.iceberg.primary_key.position_deletes import deleted_positions
from tiering.lake.iceberg.reading.lake_parquet import FileCheck, footer_of
from tiering.lake.iceberg.schema.partition_values import PackedPartition
from tiering.lake.iceberg.schema.types import arrow_type
from tiering.lake.iceberg.writing.data_files import BucketChange, encode_files
from tiering.lake.iceberg.writing.writer import RowFiles
from tiering.lake.outside_errors import DAMAGED_HINT
from tiering.lake.proof.file_footer import FileFooter, sum_of
from tiering.lake.proof.row_checksum import row_checksum
from tiering.lake.writing.fitting import fit
from tiering.lake.writing.keys import ChangedKeys, Mask, rows_with
from tiering.lake.writing.packed import Packed
from tiering.lake.writing.sorted_rows import merged_rows
from tiering.model.tables import TableType

FLOATS = ("FLOAT", "DOUBLE")
LEAST_ROWS_AT_ONCE = 1_000
"""Lower bound of the rows that a merge of many sorted files reads of each file at once."""


@dataclass(frozen=True)
class EqualityDelete:
    """An equality-delete file, its sequence number, and the ids of the columns in which rows are compared."""

    file: LiveFile
    sequence_number: int
    columns: tuple[int, ...]


@dataclass(frozen=True)
class RewriteJob:
    """The input of a rewrite, and the base for which it was planned. `outputs`: number of files to write.

    `deletes` and `equality_deletes`: all delete files of the partition. `shared_bucket`: the bucket of `FilePlace`. `sequence_numbers`:
    those of the commits that added the rows of `files`. `sort_order_id`: the order of the rows in each file and in the one output; None =
    they are in the order of their offsets.
    """

    base_snapshot_id: int | None
    partition: PackedPartition
    shared_bucket: int | None
    files: tuple[LiveFile, ...]
    deletes: tuple[LiveFile, ...] = ()
    outputs: int = 1
    sequence_numbers: tuple[int, ...] = ()
    equality_deletes: tuple[EqualityDelete, ...] = ()
    sort_order_id: int | None = None


JOBS = Packed(RewriteJob, "a rewrite's files", version=3)


@dataclass
class AppliedDeletes:
    """The deleted rows of some data files. `names`: by delete file the data files that it names; an equality delete names none."""

    rows: dict[str, Mask] = field(default_factory=dict)
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def deleted_rows(self) -> int:
        """Returns how many rows are deleted."""
        return sum(int(mask.sum()) for mask in self.rows.values())

    def apply_positions(self, io: FileIO, files: Sequence[LiveFile], deletes: Sequence[LiveFile]) -> None:
        """Adds the rows that these position-delete files delete. Raises DataCorrupt, LakeUnavailable."""
        records = {file.location: file.records for file in files}
        for delete in deletes:
            names = set[str]()
            for path, positions in deleted_positions(io, delete):
                names.add(path)
                if path in records:
                    self._mask(path, records[path])[positions] = True
            self.names[delete.location] = tuple(sorted(names))

    def apply_equality(
        self, io: FileIO, schema: Schema, files: Sequence[LiveFile], sequence_numbers: Sequence[int], deletes: Sequence[EqualityDelete]
    ) -> None:
        """Adds the rows that these equality-delete files delete in `files`. Raises DataCorrupt, LakeUnavailable."""
        self.names |= {delete.file.location: () for delete in deletes}
        by_columns: dict[tuple[int, ...], list[EqualityDelete]] = defaultdict(list)
        for delete in deletes:
            by_columns[delete.columns].append(delete)
        for columns, same_columns in by_columns.items():
            fields = [schema.find_field(field_id) for field_id in columns]
            for file, sequence_number in zip(files, sequence_numbers, strict=True):
                newer = [delete.file for delete in same_columns if delete.sequence_number > sequence_number]
                if newer:
                    self._apply_to(io, file, fields, newer)

    def _apply_to(self, io: FileIO, file: LiveFile, fields: Sequence[NestedField], deletes: Sequence[LiveFile]) -> None:
        types = tuple(arrow_type(column.field_type) for column in fields)
        count = sum(delete.records for delete in deletes)
        changed = ChangedKeys(tuple(column.name for column in fields), types, count, partial(_batches, io, fields, deletes))
        with open_parquet(io, file) as parquet:
            for _, positions in rows_with(changed, key_rows(parquet, 0, fields, None)):
                self._mask(file.location, file.records)[positions] = True

    def _mask(self, location: str, records: int) -> Mask:
        return self.rows.setdefault(location, np.zeros(records, dtype=bool))


def _batches(io: FileIO, fields: Sequence[NestedField], deletes: Sequence[LiveFile]) -> Iterator[pa.RecordBatch]:
    for delete in deletes:
        with open_parquet(io, delete) as parquet:
            for rows in key_rows(parquet, 0, fields, None):
                yield pa.RecordBatch.from_arrays(rows.keys, names=[column.name for column in fields])


def rewrite_files(job: RewriteJob, new_files: RowFiles, is_stopped: Callable[[int], bool]) -> FileRewrite:
    """Writes the rows to `new_files` (`FileRewriter.rewrite`). After an error the caller aborts them."""
    deletes = AppliedDeletes()
    deletes.apply_positions(new_files.io, job.files, job.deletes)
    deletes.apply_equality(new_files.io, new_files.state.schema, job.files, job.sequence_numbers, job.equality_deletes)
    copying = _Copying(job, new_files, deletes, is_stopped)
    copying.note_dropped_columns()
    copying.copy()
    written = new_files.close()
    copying.check(written)
    change = BucketChange(job.partition, job.base_snapshot_id, "", True, tuple(file.location for file in job.files), job.shared_bucket)
    payload = replace(new_files.payload(written), change=change, deletes=deletes.names)
    return FileRewrite(
        bucket=new_files.context.bucket,
        payload=encode_files(payload),
        files_before=len(job.files),
        files_after=len(written),
        bytes_before=sum(file.size_bytes for file in job.files),
        bytes_after=sum(file.file_size_in_bytes for file in written),
        rows_dropped=deletes.deleted_rows(),
    )


class _Copying:
    """Copies the live rows of the files of one job."""

    def __init__(self, job: RewriteJob, new_files: RowFiles, deletes: AppliedDeletes, is_stopped: Callable[[int], bool]) -> None:
        self._job = job
        self._files = new_files
        self._table = new_files.context.table
        self._has_keys = self._table.table_type is TableType.PRIMARY_KEY
        self._deletes = deletes
        self._is_stopped = is_stopped
        self._read = 0
        self._written = 0
        self._expected_checksum = 0
        self._is_proved = True
        """Whether all files read so far have a footer."""
        self._living = sum(file.records for file in job.files) - deletes.deleted_rows()
        self._rows_a_file = max(1, -(-self._living // job.outputs))

    def note_dropped_columns(self) -> None:
        """Notes the checksum of the rows as rounds wrote them, if a file has columns that the lake table dropped (`FileFooter.folded`).

        The new files do not have these columns, but the marker's checksum of all rows includes them. Raises DataCorrupt, LakeUnavailable.
        """
        provenance, state = self._files.provenance, self._files.state
        if provenance is None or self._has_keys or state.recorded is None:
            return
        written, has_dropped = 0, False
        for file in self._job.files:
            with open_parquet(self._files.io, file) as parquet:
                footer = self._footer(parquet, file)
                has_dropped = has_dropped or lost_fields(parquet.schema_arrow, state.schema) or (footer and footer.folded) is not None
                if footer is None or (dead := self._deletes.rows.get(file.location)) is None:
                    written = sum_of((written, 0 if footer is None else footer.written_checksum))
                    continue
                check, first = FileCheck(parquet, footer, file.location, state.recorded), 0
                for stored, _ in stored_and_whole_rows(parquet, state.schema):
                    written = sum_of((written, check.checksum_of(_filtered(stored, ~dead[first : first + stored.num_rows]))))
                    first += stored.num_rows
        provenance.folded = written if has_dropped else None

    def copy(self) -> None:
        """Adds the live rows of all files. Raises Cancelled, DataCorrupt, LakeUnavailable."""
        files, order = self._job.files, self._job.sort_order_id
        if order is None:
            for rows in itertools.chain.from_iterable(map(self._rows_of, files)):
                self._add(rows)
            return
        if order != self._files.builder.sort_order_id or not self._files.sort_keys:
            raise Cancelled(f"the sort order of the lake table {self._table.path} was changed after the rewrite was planned")
        rows_at_once = max(LEAST_ROWS_AT_ONCE, ROW_BATCH_ROWS // len(files))
        self._files.expect_sorted_rows()
        for rows in merged_rows([self._rows_of(file, rows_at_once) for file in files], self._files.sort_keys, rows_at_once):
            self._add(rows)

    def _rows_of(self, file: LiveFile, rows_at_once: int = ROW_BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yields the live rows of a file, and checks them. Raises Cancelled, DataCorrupt, LakeUnavailable."""
        dead = self._deletes.rows.get(file.location)
        living = None if dead is None else ~dead
        state = self._files.state
        with open_parquet(self._files.io, file) as parquet:
            footer = self._footer(parquet, file)
            self._note_offsets(footer, living)
            self._files.expect_nan(_without_statistics(parquet.metadata))
            check = None if footer is None else FileCheck(parquet, footer, file.location, state.recorded)
            has_other_rows = living is not None or lost_fields(parquet.schema_arrow, state.schema)
            kept_checksums, first = list[int](), 0
            for stored, batch in stored_and_whole_rows(parquet, state.schema, rows_at_once):
                rows = fit(batch, self._files.schema)
                kept = rows if living is None else _filtered(rows, living[first : first + rows.num_rows])
                if check is not None and has_other_rows:
                    check.add(stored)
                    kept_checksums.append(row_checksum(kept, state.proof_names))
                yield kept
                first += rows.num_rows
                self._read += rows.num_rows
                if self._is_stopped(self._read):
                    raise Cancelled("the rewrite of files was cancelled")
        if check is not None and has_other_rows and not check.is_intact:
            raise self._damaged(file.location)
        self._is_proved = self._is_proved and footer is not None
        if footer is not None:
            self._expected_checksum = sum_of((self._expected_checksum, sum_of(kept_checksums) if has_other_rows else footer.checksum))
        crash_points.reach(crash_points.MERGING)

    def _footer(self, parquet: Any, file: LiveFile) -> FileFooter | None:
        """Returns the footer of a file of a clean table. Raises DataCorrupt for the footer of another table or bucket."""
        if self._files.provenance is None:
            return None
        footer = footer_of(parquet, file.location)
        if footer is None and not self._has_keys:  # the offsets of its rows are unknown
            raise self._damaged(file.location)
        if footer is None:
            return None
        own = (self._table.table_id, self._files.state.table_uuid, self._files.context.bucket)
        is_ours = (footer.table_id, footer.lake_table_uuid, footer.bucket) == own
        is_sorted = self._job.sort_order_id is not None
        if not is_ours or footer.rows != file.records or footer.is_sorted != is_sorted:
            raise self._damaged(file.location)
        return footer

    def _note_offsets(self, footer: FileFooter | None, living: npt.NDArray[Any] | None) -> None:
        provenance = self._files.provenance
        if provenance is None:
            return
        if self._has_keys:
            changes = (0, 0) if footer is None or footer.changes is None else footer.changes
            before = provenance.changes or changes
            provenance.changes = (min(before[0], changes[0]), max(before[1], changes[1]))
        elif footer is not None and footer.runs:
            offsets = np.concatenate([np.arange(start, stop) for start, stop in footer.runs])
            provenance.take_offsets(offsets if living is None else offsets[living])

    def _add(self, rows: pa.RecordBatch) -> None:
        """Adds rows, and ends a file once it has its share of them."""
        while rows.num_rows:
            room = self._rows_a_file - self._written % self._rows_a_file
            part = rows.slice(0, room)
            self._files.add(part)
            self._written += part.num_rows
            rows = rows.slice(part.num_rows)
            if self._written % self._rows_a_file == 0 and self._written < self._living:
                self._files.end_file()

    def check(self, written: Collection[DataFile]) -> None:
        """Raises DataCorrupt if the new files have other rows than the old files should have."""
        provenance = self._files.provenance
        rows = sum(file.record_count for file in written)
        is_cut = self._job.sort_order_id is not None and len(written) > 1  # it is unknown which offsets each file has
        if (
            is_cut
            or rows != self._living
            or (self._is_proved and provenance is not None and provenance.checksum != self._expected_checksum)
        ):
            raise self._damaged(self._job.files[0].location)

    def _damaged(self, location: str) -> DataCorrupt:
        return DataCorrupt(
            f"{len(self._job.files)} files of {self._table.path} were read to rewrite them, and their rows do not have the checksum of "
            f"their footers; check the file {location}",
            hint=DAMAGED_HINT,
            table_path=self._table.path,
            lake_file=location,
        )


def _filtered(rows: pa.RecordBatch, living: Mask) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pc.filter(column, pa.array(living)) for column in rows.columns], schema=rows.schema)


def _without_statistics(metadata: pq.FileMetaData) -> set[str]:
    """Returns the columns of a file with floats without statistics: Lakeward's writers leave these out if there is a NaN."""
    names = set[str]()
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for position in range(group.num_columns):
            column = group.column(position)
            if column.physical_type in FLOATS and column.statistics is None:
                names.add(column.path_in_schema.partition(".")[0])
    return names
