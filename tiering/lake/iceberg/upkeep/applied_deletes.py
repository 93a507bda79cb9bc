"""Finds the deleted rows of one rewrite's files, by position and by equality (Iceberg spec, "Scan Planning").

A position delete names a data file and a row. An equality delete applies to all older data files of its partition: it deletes rows that are
equal to one of its rows in the columns `equality_ids`. Lakeward never writes equality deletes, but other tools do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from tiering.lake.iceberg.primary_key.bucket_files import LiveFile
from tiering.lake.iceberg.primary_key.parquet_files import key_rows, open_parquet
from tiering.lake.iceberg.primary_key.position_deletes import deleted_positions
from tiering.lake.iceberg.schema.types import arrow_type
from tiering.lake.writing.keys import ChangedKeys, KeyRows, Mask, rows_with


@dataclass(frozen=True)
class EqualityDelete:
    """An equality-delete file, its sequence number, and the ids of the columns in which rows are compared."""

    file: LiveFile
    sequence_number: int
    columns: tuple[int, ...]


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
            rows: KeyRows
            for rows in key_rows(parquet, 0, fields, None):
                yield pa.RecordBatch.from_arrays(rows.keys, names=[column.name for column in fields])
