"""Files of one bucket of a primary-key table: sorted runs of Paimon's merge tree, at level 0.

The columns are `_KEY_<k>` for each key column that is no partition column, `_SEQUENCE_NUMBER`, `_VALUE_KIND` (+I 0, -U 1, +U 2, -D 3), then
the table's own (Paimon's `SpecialFields`). A data file has each key once, in the order of the keys. Files of level 0 may overlap:
readers take the row of a key with the highest sequence number, so nothing that stands in the bucket is read to write.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tiering.lake.outside_errors import misfit
from tiering.lake.paimon.errors import lake_errors
from tiering.lake.paimon.writing.parquet_files import ROW_GROUP_ROWS, FilePlace, open_file
from tiering.lake.paimon.writing.payload import WrittenFile, pack_keys
from tiering.lake.proof.file_footer import FileFooter
from tiering.lake.writing.provenance import Provenance
from tiering.lake.writing.statistics import columns_with_nan
from tiering.model.tables import ChangeType

KEY_PREFIX, SEQUENCE, KIND = "_KEY_", "_SEQUENCE_NUMBER", "_VALUE_KIND"
ROW_KINDS = {ChangeType.INSERT: 0, ChangeType.UPDATE_BEFORE: 1, ChangeType.UPDATE_AFTER: 2, ChangeType.DELETE: 3}
"""Paimon's numbers (`RowKind`)."""
_TAKES_AWAY = pa.array([1, 3], pa.int8())


class SortedFiles:
    """The files of one attempt. Each call writes one."""

    def __init__(self, place: FilePlace, columns: pa.Schema, keys: Sequence[str], provenance: Provenance | None = None) -> None:
        self._place = place
        self.columns = columns
        """The lake's columns as they are written."""
        self._keys = tuple(keys)
        self.provenance = provenance
        """Of a table with a clean layout: what the footers of its data files say."""
        self._started: list[PurePath] = []
        self._done: list[WrittenFile] = []

    def add(self, rows: pa.Table, sequences: npt.NDArray[np.int64], kinds: npt.NDArray[np.int8], *, is_changelog: bool = False) -> None:
        """Sorts and writes `rows`, none of them twice in a data file. Raises InvalidData, LakeUnavailable."""
        with lake_errors(f"write a data file of {self._place.table}", table_path=self._place.table):
            self._write(self._sorted(rows, sequences, kinds), is_changelog)

    def close(self) -> tuple[WrittenFile, ...]:
        """All files; they are durable then."""
        if self._done:
            with lake_errors(f"write a data file of {self._place.table}", table_path=self._place.table):
                self._place.sync()
        return tuple(self._done)

    def abort(self) -> None:
        """Deletes what was written so far. Never raises."""
        self._place.discard(self._started)
        self._started.clear()
        self._done.clear()

    def _sorted(self, rows: pa.Table, sequences: npt.NDArray[np.int64], kinds: npt.NDArray[np.int8]) -> pa.Table:
        keys = [rows[name] for name in self._keys]
        fields = [pa.field(KEY_PREFIX + name, self.columns.field(name).type, nullable=False) for name in self._keys]
        schema = pa.schema([*fields, pa.field(SEQUENCE, pa.int64(), False), pa.field(KIND, pa.int8(), False), *self.columns])
        columns: list[Any] = [*keys, pa.array(sequences), pa.array(kinds), *rows.columns]
        table = pa.Table.from_arrays(columns, schema=schema)
        order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in (*(field.name for field in fields), SEQUENCE)])
        return table.take(cast(Any, order)).combine_chunks()

    def _write(self, table: pa.Table, is_changelog: bool) -> None:
        kind = "changelog-" if is_changelog else ""
        path = self._place.begin_file(f"{self._place.prefix}-{kind}{len(self._started):05d}.parquet")
        self._started.append(path)
        file = open_file(self._place.storage, path, table, columns_with_nan(table))
        try:
            file.writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        except pa.ArrowInvalid as error:
            with suppress(Exception):
                file.end()
            path_of_table = self._place.table
            raise misfit(f"rows of {path_of_table} do not fit its lake table", error, table_path=path_of_table) from error
        file.look_at(table)
        size = file.end(None if is_changelog else self._footer(table))
        low, high, _ = file.bounds.pop(SEQUENCE)
        bounds = {name: bound for name, bound in file.bounds.items() if name in self.columns.names}
        self._done.append(
            WrittenFile(
                self._place.folder,
                path.name,
                size,
                table.num_rows,
                cast(int, low),
                cast(int, high),
                bounds,
                self._key_bounds(table),
                int(np.count_nonzero(pc.is_in(table[KIND], value_set=_TAKES_AWAY).to_numpy())),
                is_changelog,
            )
        )

    def _footer(self, table: pa.Table) -> FileFooter | None:
        """Its checksum is that of the table's own columns and the kinds: sequence numbers differ where a round is written anew."""
        if self.provenance is None:
            return None
        self.provenance.add_rows(table.select([KIND, *self.columns.names]))
        return self.provenance.end_file()

    def _key_bounds(self, table: pa.Table) -> str:
        keys = table.select([KEY_PREFIX + name for name in self._keys]).rename_columns(list(self._keys))
        ends = pa.concat_tables([keys.slice(0, 1), keys.slice(table.num_rows - 1, 1)])
        lowest_and_highest = [_extremes(column.combine_chunks()) for column in keys.columns]
        return pack_keys(pa.concat_tables([ends, pa.Table.from_arrays(lowest_and_highest, schema=keys.schema)]))


def _extremes(column: Any) -> pa.Array[Any]:
    """The lowest and the highest value. They stay in Arrow: Python has no dates and times outside of the years 1 to 9999."""
    extremes: Any = pc.min_max(column)
    places = [column.index(extremes[end]).as_py() for end in ("min", "max")]
    values: pa.Array[Any] = column.take(pa.array(places))
    return values
