"""Writes files of one bucket of a primary-key table: sorted runs of Paimon's merge tree, at level 0.

The columns are `_KEY_<k>` for each key column that is not a partition column, `_SEQUENCE_NUMBER`, `_VALUE_KIND` (+I 0, -U 1, +U 2, -D 3),
then the table's own columns (Paimon's `SpecialFields`). A data file has each key once, in key order. Files of level 0 may overlap: readers
take the row of a key with the highest sequence number, so existing files of the bucket need not be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tiering.lake.paimon.storage.base import Storage
from tiering.lake.paimon.writing.parquet_files import TARGET_FILE_BYTES, FilePlace, ListedFile, PaimonFiles
from tiering.lake.paimon.writing.payload import WrittenFile, pack_keys
from tiering.lake.proof.file_footer import FileFooter
from tiering.lake.writing.provenance import Provenance
from tiering.lake.writing.statistics import FloatsWithoutStatistics
from tiering.model.tables import ChangeType

KEY_PREFIX, SEQUENCE, KIND = "_KEY_", "_SEQUENCE_NUMBER", "_VALUE_KIND"
KIND_FIELD = pa.field(KIND, pa.int8(), nullable=False)
ROW_KINDS = {ChangeType.INSERT: 0, ChangeType.UPDATE_BEFORE: 1, ChangeType.UPDATE_AFTER: 2, ChangeType.DELETE: 3}
"""Paimon's numbers of the kinds (`RowKind`)."""
TAKES_AWAY = pa.array([1, 3], pa.int8())
"""Kinds of rows that delete another row."""
PART_BYTES = 32 << 20
"""Size of the Arrow data in a row group, for a run that is added in parts."""


def sorted_schema(columns: pa.Schema, keys: Sequence[str]) -> pa.Schema:
    """Returns the columns of a data file, including those of the table."""
    fields = [pa.field(KEY_PREFIX + name, columns.field(name).type, nullable=False) for name in keys]
    return pa.schema([*fields, pa.field(SEQUENCE, pa.int64(), False), KIND_FIELD, *columns])


class _RunFile(ListedFile):
    """A file that is being written."""

    def __init__(self, storage: Storage, path: PurePath, table: pa.Table, without_statistics: frozenset[str], keys: Sequence[str]) -> None:
        super().__init__(storage, path, table, without_statistics)
        self._keys = list(keys)
        self.key_bounds: list[pa.Table] = []
        """For each part of the file, in order, its first, last, lowest and highest keys."""
        self.deletes = 0

    def look_at(self, table: pa.Table) -> None:
        super().look_at(table)
        keys = table.select([KEY_PREFIX + name for name in self._keys]).rename_columns(self._keys)
        ends = pa.concat_tables([keys.slice(0, 1), keys.slice(table.num_rows - 1, 1)])
        self.key_bounds.append(pa.concat_tables([ends, _lowest_and_highest(keys)]))
        self.deletes += int(np.count_nonzero(pc.is_in(table[KIND], value_set=TAKES_AWAY).to_numpy()))


class SortedFiles(PaimonFiles[_RunFile]):
    """The files of one attempt. Each call of `add` writes one file; the calls of `append` write one run, in files of the target size."""

    def __init__(
        self,
        place: FilePlace,
        columns: pa.Schema,
        keys: Sequence[str],
        provenance: Provenance | None = None,
        target_bytes: int = TARGET_FILE_BYTES,
    ) -> None:
        super().__init__(place.table, sorted_schema(columns, keys), target_bytes, provenance)
        self._place = place
        self._started = []
        self.columns = columns
        """The lake table's columns in their written types."""
        self._keys = tuple(keys)
        self._parts: list[pa.Table] = []
        self._is_changelog = False

    def add(self, rows: pa.Table, sequences: npt.NDArray[np.int64], kinds: npt.NDArray[np.int8], *, is_changelog: bool = False) -> None:
        """Sorts and writes `rows`; without `is_changelog` each key occurs once. Raises InvalidData, LakeUnavailable."""
        with self._border():
            table = self._sorted(rows, sequences, kinds)
        self._is_changelog, self._with_nan = is_changelog, FloatsWithoutStatistics()
        self._write(table)
        self._close_file()

    def append(self, rows: pa.Table) -> None:
        """Adds rows of `sorted_schema` whose keys follow the previous ones. Raises InvalidData, LakeUnavailable."""
        self._parts.append(rows)
        if sum(part.nbytes for part in self._parts) >= PART_BYTES:
            self._flush()

    def abort(self) -> None:
        self._parts.clear()
        super().abort()

    def _flush(self) -> None:
        if self._parts:
            table, self._parts = pa.concat_tables(self._parts).combine_chunks(), []
            self._write(table)

    def _sorted(self, rows: pa.Table, sequences: npt.NDArray[np.int64], kinds: npt.NDArray[np.int8]) -> pa.Table:
        keys = [rows[name] for name in self._keys]
        schema = sorted_schema(self.columns, self._keys)
        columns: list[Any] = [*keys, pa.array(sequences), pa.array(kinds), *rows.columns]
        table = pa.Table.from_arrays(columns, schema=schema)
        order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in schema.names[: len(keys) + 1]])
        return table.take(cast(Any, order)).combine_chunks()

    def _begin(self, first_rows: pa.Table) -> _RunFile:
        path = self._next_path("changelog-" if self._is_changelog else "")
        return _RunFile(self._place.storage, path, first_rows, self._with_nan.names, self._keys)

    def _prove(self, table: pa.Table) -> None:
        """The checksum covers the table's own columns and the kinds, because sequence numbers change when a round is repeated."""
        if not self._is_changelog:
            super()._prove(table.select([KIND, *self.columns.names]))

    def _footer(self) -> FileFooter | None:
        return None if self._is_changelog else super()._footer()

    def _describe(self, file: _RunFile, size_bytes: int, footer: FileFooter | None) -> WrittenFile:
        low, high, _ = file.bounds.pop(SEQUENCE)
        return WrittenFile(
            self._place.folder,
            file.path.name,
            size_bytes,
            file.records,
            cast(int, low),
            cast(int, high),
            {name: bound for name, bound in file.bounds.items() if name in self.columns.names},
            pack_keys(_together(file.key_bounds)),
            file.deletes,
            self._is_changelog,
        )


def _together(parts: Sequence[pa.Table]) -> pa.Table:
    """Returns the combined key bounds of all parts of a file."""
    if len(parts) == 1:
        return parts[0]
    return pa.concat_tables([parts[0].slice(0, 1), parts[-1].slice(1, 1), _lowest_and_highest(pa.concat_tables(parts))])


def _lowest_and_highest(keys: pa.Table) -> pa.Table:
    return pa.Table.from_arrays([_extremes(column.combine_chunks()) for column in keys.columns], schema=keys.schema)


def _extremes(column: Any) -> pa.Array[Any]:
    """Returns the lowest and the highest value as Arrow values, because Python lacks dates and times outside of the years 1 to 9999."""
    extremes: Any = pc.min_max(column)
    places = [column.index(extremes[end]).as_py() for end in ("min", "max")]
    values: pa.Array[Any] = column.take(pa.array(places))
    return values
