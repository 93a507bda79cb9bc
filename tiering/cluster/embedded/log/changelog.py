"""Converts an upsert or a delete to records of the changelog (Fluss's). Pure.

An upsert of an absent key is `+I`. An upsert of a present key is `-U` with the former row and, at the next offset, `+U` with the new row,
even if both are equal: as in Fluss, the log shows that the row was written. A delete of a present key is `-D` with the former row; a delete
of an absent key is no record. Each key occurs once in a batch: of several rows, the last one counts.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tiering.model.tables import CHANGE_TYPE_FIELD, ChangeType

_KIND_TYPE = CHANGE_TYPE_FIELD.type


def upsert_changes(rows: pa.RecordBatch, present: npt.NDArray[np.int64], before: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the changes that make `rows` (distinct keys) the present ones, in their order, with the change type as last column.

    `before` has the existing rows; its row i has the key of row `present[i]`, and `present` is ascending.
    """
    kinds = np.full(rows.num_rows, ChangeType.INSERT, dtype=np.int8)
    kinds[present] = ChangeType.UPDATE_AFTER
    if not len(present):
        return _with_kinds(rows, kinds)
    records = np.ones(rows.num_rows, dtype=np.int64)
    records[present] = 2
    after_at = np.cumsum(records) - 1
    order = np.empty(rows.num_rows + len(present), dtype=np.int64)
    order[after_at] = np.arange(rows.num_rows)
    order[after_at[present] - 1] = rows.num_rows + np.arange(len(present))
    all_kinds = np.concatenate([kinds, np.full(len(present), ChangeType.UPDATE_BEFORE, dtype=np.int8)])
    both = pa.concat_batches([rows, before])  # type: ignore[attr-defined]  # missing in the stubs
    return _with_kinds(both.take(pa.array(order)), all_kinds[order])


def delete_changes(before: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the changes that delete the rows `before`, in their order, with the change type as last column."""
    return _with_kinds(before, np.full(before.num_rows, ChangeType.DELETE, dtype=np.int8))


def _with_kinds(rows: pa.RecordBatch, kinds: npt.NDArray[np.int8]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*rows.columns, pa.array(kinds, _KIND_TYPE)], schema=pa.schema([*rows.schema, CHANGE_TYPE_FIELD]))
