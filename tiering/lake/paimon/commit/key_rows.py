"""Encodes keys of files in manifests as Paimon's binary rows, including dates and times outside of the years 1 to 9999, which Python lacks.

pypaimon builds binary rows only from Python values. For a key outside of Python's range the row is built with another value, and then its
bytes are replaced. Format of Paimon's `BinaryRow`: after the null bits 8 bytes for each field. DATE: the number of days. TIMESTAMP with
more than 3 digits: the position of its milliseconds in the high half, the nanoseconds within the millisecond in the low half.
"""

from __future__ import annotations

import struct
from datetime import date, datetime
from typing import Any, cast

import pyarrow as pa
from pypaimon.manifest import manifest_file_manager
from pypaimon.table.row.binary_row import BinaryRow
from pypaimon.table.row.generic_row import GenericRow, GenericRowDeserializer, GenericRowSerializer

_ARITY_BYTES, _FIELD_BYTES = 4, 8
_EPOCH_DAY, _EPOCH = date(1970, 1, 1), datetime(1970, 1, 1)


def key_row(key: pa.Table, fields: list[Any]) -> GenericRow | BinaryRow:
    """Returns the only row of `key`, whose columns are `fields`."""
    values: list[Any] = []
    beyond: dict[int, pa.Scalar[Any]] = {}
    for place, column in enumerate(key.columns):
        value = cast(Any, column)[0]
        try:
            values.append(value.as_py())
        except (OverflowError, ValueError):
            beyond[place] = value
            values.append(_EPOCH_DAY if pa.types.is_date(value.type) else _EPOCH)
    row = GenericRow(values, fields)
    if not beyond:
        return row
    content = bytearray(GenericRowSerializer.to_bytes(row))
    for place, value in beyond.items():
        _put(content, len(fields), place, cast(Any, value))
    return BinaryRow(bytes(content), fields)


def _put(content: bytearray, arity: int, place: int, value: Any) -> None:
    """Replaces the value at `place` by a date, or by a timestamp in microseconds."""
    at = _ARITY_BYTES + GenericRowDeserializer.calculate_bit_set_width_in_bytes(arity) + place * _FIELD_BYTES
    if pa.types.is_date(value.type):
        struct.pack_into("<i", content, at, value.value)
        return
    milliseconds, microseconds = divmod(value.value, 1_000)
    (halves,) = struct.unpack_from("<Q", content, at)
    struct.pack_into("<Q", content, at, halves >> 32 << 32 | microseconds * 1_000)
    struct.pack_into("<q", content, _ARITY_BYTES + (halves >> 32), milliseconds)


class _LenientDeserializer:
    """Leaves a row as bytes if Python cannot represent its values. pypaimon writes such a row as it was read."""

    @staticmethod
    def from_bytes(bytes_data: bytes, data_fields: list[Any]) -> Any:
        try:
            return GenericRowDeserializer.from_bytes(bytes_data, data_fields)
        except OverflowError:
            return BinaryRow(bytes_data, data_fields)


def keep_unreadable_keys() -> None:
    """Lets pypaimon, in this process, read manifests of files whose keys Python cannot represent."""
    manifest_file_manager.GenericRowDeserializer = _LenientDeserializer
