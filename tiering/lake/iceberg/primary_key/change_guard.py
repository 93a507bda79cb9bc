"""The last look at changes of one bucket: what `RowGuard` checks, and a key and a known change type in each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tiering.lake.iceberg.writing.row_guard import RowGuard
from tiering.model.tables import OFFSET_COLUMN, SNAPSHOT_OFFSET, ChangeType

_KNOWN = pa.array([ChangeType.INSERT, ChangeType.UPDATE_BEFORE, ChangeType.UPDATE_AFTER, ChangeType.DELETE], pa.int8())
_TRUE, _FALSE = pa.scalar(True), pa.scalar(False)


class ChangeGuard(RowGuard):
    """Rows of a KV snapshot (`+I` at offset -1) come before all others; those of the log have growing offsets."""

    def check_changes(self, batch: pa.RecordBatch, changes: pa.Array[Any], keys: Sequence[str]) -> None:
        """A batch that is not empty, in the lake's columns, and its change types. Raises DataCorrupt naming the first wrong row."""
        offsets = batch.column(OFFSET_COLUMN)
        for name in keys:
            if batch.column(name).null_count:
                wrong = batch.column(name).is_null().index(_TRUE).as_py()
                raise self._corrupt(f"the row at offset {offsets[wrong]} has no value in the key column {name!r}")
        known = pc.is_in(changes, value_set=_KNOWN)
        if (wrong := known.index(_FALSE).as_py()) >= 0:
            raise self._corrupt(f"the row at offset {offsets[wrong]} has the change type {changes[wrong]}, which no primary-key table has")
        self._check_places(batch)
        if offsets[0].as_py() == SNAPSHOT_OFFSET:
            self._check_snapshot(offsets, changes)
        else:
            self._check_growth(batch)

    def _check_snapshot(self, offsets: pa.Array[Any], changes: pa.Array[Any]) -> None:
        if self._last is not None:
            raise self._corrupt(f"rows of a KV snapshot came after the offset {self._last} of the log")
        if not (np.all(offsets.to_numpy() == SNAPSHOT_OFFSET) and np.all(changes.to_numpy() == ChangeType.INSERT)):
            raise self._corrupt("a KV snapshot holds rows with an offset, or other than inserts")
