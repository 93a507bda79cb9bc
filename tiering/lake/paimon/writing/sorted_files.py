"""Writes files of one bucket of a primary-key table: sorted runs of Paimon's merge tree, at level 0.

The columns are `_KEY_<k>` for each key column that is not a partition column, `_SEQUENCE_NUMBER`, `_VALUE_KIND` (+I 0, -U 1, +U 2, -D 3),
then the table's own columns (Paimon's `SpecialFields`). A data file has each key once, in key order. Files of level 0 may overlap: readers
take the row of a key with the highest sequence number, so existing files of the bucket need not be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tiering.lake.outside_errors import misfit
from tiering.lake.paimon.errors import lake_errors
from tiering.lake.paimon.writing.parquet_files import TARGET_FILE_BYTES, FilePlace, ListedFile
from tiering.lake.paimon.writing.payload import WrittenFile, pack_keys
from tiering.lake.writing.parquet_stream import ROW_GROUP_ROWS
from tiering.lake.writing.provenance import Provenance
from tiering.lake.writing.statistics import FloatsWithoutStatistics, columns_with_nan
from tiering.model.tables import ChangeType

KEY_PREFIX, SEQUENCE, KIND = "_KEY_", "_SEQUENCE_NUMBER", "_VALUE_KIND"
ROW_KINDS = {ChangeType.INSERT: 0, ChangeType.UPDATE_BEFORE: 1, ChangeType.UPDATE_AFTER: 2, ChangeType.DELETE: 3}
"""Paimon's numbers of the kinds (`RowKind`)."""
TAKES_AWAY = pa.array([1, 3], pa.int8())
"""Kinds of rows that delete another row."""
PART_BYTES = 32 << 20
"""Size of the Arrow data in a row group, for a run that is added in parts."""


def sorted_schema(columns: pa.Schema, keys: Sequence[str]) -> pa.Schema:
    """Returns the columns of a data file, including those of the table."""
    fields = [pa.field(KEY_PREFIX + name, columns.field(name).type, nullable=False) for name in keys]
    return pa.schema([*fields, pa.field(SEQUENCE, pa.int64(), False), pa.field(KIND, pa.int8(), False), *columns])


@dataclass
class _RunFile:
    """A file that is being written. `key_bounds`: for each part of the file, in order, its first, last, lowest and highest keys."""

    file: ListedFile
    is_changelog: bool = False
    key_bounds: list[pa.Table] = field(default_factory=list)
    deletes: int = 0


class SortedFiles:
    """The files of one attempt. Each call of `add` writes one file; the calls of `append` write one run, in files of the target size."""

    def __init__(
        self,
        place: FilePlace,
        columns: pa.Schema,
        keys: Sequence[str],
        provenance: Provenance | None = None,
        target_bytes: int = TARGET_FILE_BYTES,
    ) -> None:
        self._place = place
        self.columns = columns
        """The lake table's columns in their written types."""
        self._keys = tuple(keys)
        self._target_bytes = target_bytes
        self.provenance = provenance
        """Set for a table with a clean layout: collects the content of the data file footers."""
        self._run: _RunFile | None = None
        self._parts: list[pa.Table] = []
        self._with_nan = FloatsWithoutStatistics()
        self._started: list[PurePath] = []
        self._done: list[WrittenFile] = []

    def add(self, rows: pa.Table, sequences: npt.NDArray[np.int64], kinds: npt.NDArray[np.int8], *, is_changelog: bool = False) -> None:
        """Sorts and writes `rows`; without `is_changelog` each key occurs once. Raises InvalidData, LakeUnavailable."""
        with lake_errors(f"write a data file of {self._place.table}", table_path=self._place.table):
            table = self._sorted(rows, sequences, kinds)
            run = self._begin(table, columns_with_nan(table), is_changelog=is_changelog)
            self._write(run, table)
            self._end(run)

    def append(self, rows: pa.Table) -> None:
        """Adds rows of `sorted_schema` whose keys follow the previous ones. Raises InvalidData, LakeUnavailable."""
        self._parts.append(rows)
        if sum(part.nbytes for part in self._parts) >= PART_BYTES:
            self._flush()

    def close(self) -> tuple[WrittenFile, ...]:
        """Finishes all files, which are durable afterwards."""
        self._flush()
        with lake_errors(f"write a data file of {self._place.table}", table_path=self._place.table):
            if self._run is not None:
                run, self._run = self._run, None
                self._end(run)
            if self._done:
                self._place.sync()
        return tuple(self._done)

    def abort(self) -> None:
        """Deletes the files written so far. Never raises."""
        if self._run is not None:
            with suppress(Exception):
                self._run.file.end()
            self._run = None
        self._place.discard(self._started)
        self._parts.clear()
        self._started.clear()
        self._done.clear()

    def _flush(self) -> None:
        if not self._parts:
            return
        table, self._parts = pa.concat_tables(self._parts).combine_chunks(), []
        with lake_errors(f"write a data file of {self._place.table}", table_path=self._place.table):
            if self._with_nan.adds(table) and self._run is not None:
                self._end(self._run)
                self._run = None
            if self._run is None:
                self._run = self._begin(table, self._with_nan.names)
            self._write(self._run, table)
            if self._run.file.stream.tell() >= self._target_bytes:
                self._end(self._run)
                self._run = None

    def _sorted(self, rows: pa.Table, sequences: npt.NDArray[np.int64], kinds: npt.NDArray[np.int8]) -> pa.Table:
        keys = [rows[name] for name in self._keys]
        schema = sorted_schema(self.columns, self._keys)
        columns: list[Any] = [*keys, pa.array(sequences), pa.array(kinds), *rows.columns]
        table = pa.Table.from_arrays(columns, schema=schema)
        order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in schema.names[: len(keys) + 1]])
        return table.take(cast(Any, order)).combine_chunks()

    def _begin(self, table: pa.Table, without_statistics: frozenset[str], *, is_changelog: bool = False) -> _RunFile:
        kind = "changelog-" if is_changelog else ""
        path = self._place.begin_file(f"{self._place.prefix}-{kind}{len(self._started):05d}.parquet")
        self._started.append(path)
        return _RunFile(ListedFile(self._place.storage, path, table, without_statistics), is_changelog)

    def _write(self, run: _RunFile, table: pa.Table) -> None:
        try:
            run.file.writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        except pa.ArrowInvalid as error:
            with suppress(Exception):
                run.file.end()
            path_of_table = self._place.table
            raise misfit(f"rows of {path_of_table} do not fit its lake table", error, table_path=path_of_table) from error
        run.file.look_at(table)
        run.key_bounds.append(self._key_bounds(table))
        run.deletes += int(np.count_nonzero(pc.is_in(table[KIND], value_set=TAKES_AWAY).to_numpy()))
        if self.provenance is not None and not run.is_changelog:
            self.provenance.add_rows(table.select([KIND, *self.columns.names]))

    def _end(self, run: _RunFile) -> None:
        """Finishes a file. The checksum in its footer covers the table's own columns and the kinds, because sequence numbers change when a
        round is repeated.
        """
        file = run.file
        size = file.end(None if run.is_changelog or self.provenance is None else self.provenance.end_file())
        low, high, _ = file.bounds.pop(SEQUENCE)
        bounds = {name: bound for name, bound in file.bounds.items() if name in self.columns.names}
        self._done.append(
            WrittenFile(
                self._place.folder,
                file.path.name,
                size,
                file.records,
                cast(int, low),
                cast(int, high),
                bounds,
                pack_keys(_together(run.key_bounds)),
                run.deletes,
                run.is_changelog,
            )
        )

    def _key_bounds(self, table: pa.Table) -> pa.Table:
        keys = table.select([KEY_PREFIX + name for name in self._keys]).rename_columns(list(self._keys))
        ends = pa.concat_tables([keys.slice(0, 1), keys.slice(table.num_rows - 1, 1)])
        return pa.concat_tables([ends, _lowest_and_highest(keys)])


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
