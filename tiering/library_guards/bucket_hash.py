"""Iceberg's transforms `bucket` (spec, appendix B: murmur3) and `truncate` of Arrow columns. Only this module calls pyiceberg-core.

Rust's Arrow accepts only buffers that are aligned to the size of their values, and panics instead of raising an error. Columns of an Arrow
message are aligned to 8 bytes at best, but decimals need 16. Such a column is copied before it is hashed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg_core import transform

from tiering.errors import InvalidData
from tiering.library_guards.panics import panics_raised_as

_DECIMAL_ALIGNMENT_BYTES = 16
_ALIGNMENT_BYTES = 8
"""Alignment of 64-bit integers and times, the widest keys other than decimals. Offsets of strings need less."""

_COMBINED_MODULUS = 2_147_483_647
_COMBINED_FACTOR = 31


def bucket_ids_of(column: pa.Array[Any], bucket_count: int) -> npt.NDArray[np.int32]:
    """Returns the bucket of each value of a key column without nulls. Raises InvalidData for a column that cannot be hashed."""
    with panics_raised_as(lambda cause: InvalidData(f"a key column of type {column.type} cannot be hashed: {cause}")):
        ids: npt.NDArray[np.int32] = transform.bucket(aligned(_widened(column)), bucket_count).to_numpy(zero_copy_only=False)
    return ids


def bucketed(column: pa.Array[Any], bucket_count: int) -> pa.Array[Any]:
    """Returns the bucket of each value; NULL for NULL. Raises InvalidData for a column that cannot be hashed."""
    with panics_raised_as(lambda cause: InvalidData(f"a column of type {column.type} cannot be hashed: {cause}")):
        ids: pa.Array[Any] = transform.bucket(aligned(_widened(column)), bucket_count)
    return ids


def truncated(column: pa.Array[Any], width: int) -> pa.Array[Any]:
    """Returns each value truncated to `width`; NULL for NULL. Raises InvalidData for a column that cannot be truncated."""
    with panics_raised_as(lambda cause: InvalidData(f"a column of type {column.type} cannot be truncated: {cause}")):
        values: pa.Array[Any] = transform.truncate(aligned(_widened(column)), width)
    return values


def combined_bucket_ids(columns: Sequence[pa.Array[Any]], bucket_count: int) -> npt.NDArray[np.int32]:
    """Returns the bucket of each row from several key columns without nulls, by the formula `combined-v1`.

    With `h(k)` = Iceberg's bucket transform of column k with N = 2147483647, the keys are folded in order from acc = 0:
    `acc = (31 * acc + h(k)) mod 2147483647`; the bucket is `acc mod n`.
    """
    combined = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        combined = (combined * _COMBINED_FACTOR + bucket_ids_of(column, _COMBINED_MODULUS)) % _COMBINED_MODULUS
    return (combined % bucket_count).astype(np.int32)


def aligned(column: pa.Array[Any]) -> pa.Array[Any]:
    """Returns `column` if its buffers have the alignment that Rust's Arrow needs, else an aligned copy. Only for columns that are not
    nested."""
    alignment = _DECIMAL_ALIGNMENT_BYTES if pa.types.is_decimal(column.type) else _ALIGNMENT_BYTES
    if all(buffer is None or buffer.address % alignment == 0 for buffer in column.buffers()):
        return column
    return pa.concat_arrays([column])  # Arrow allocates at 64 bytes


def _widened(column: pa.Array[Any]) -> pa.Array[Any]:
    """Returns 8- and 16-bit integers as 32-bit ones: Iceberg has no narrower type, and the lake column hashes as an int."""
    return column.cast(pa.int32()) if column.type in (pa.int8(), pa.int16()) else column
