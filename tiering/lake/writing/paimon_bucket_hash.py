"""Computes Paimon's buckets of Arrow columns, without pypaimon: the hash of a row's keys as a `BinaryRow`, modulo the number of buckets.

A BinaryRow of k fields (Paimon's `BinaryRow`, little-endian) consists of: a header with one bit for each null, a multiple of 8 bytes long;
8 bytes for each field; then the longer values, each padded to 8 bytes. A field's 8 bytes hold the value; or a text of up to 7 bytes
followed by 0x80 + its length; or position << 32 | length of a longer value. Decimals of more than 18 digits and times finer than
milliseconds are stored as longer values. The hash is murmur3 over the row's 32-bit words with the seed 42
(`MurmurHashUtils.hashBytesByWords`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tiering.errors import UnsupportedType

Words = npt.NDArray[np.uint32]

_SEED = np.uint32(42)
_FIELD_BYTES = 8
_INLINE_BYTES = 7
_DECIMAL_BYTES = 16
_COMPACT_DIGITS = 18
"""Decimals of up to this many digits are stored as a 64-bit integer."""


def bucket_ids_of(columns: Sequence[pa.Array[Any]], bucket_count: int) -> npt.NDArray[np.int32]:
    """Returns the bucket of each row from its key columns, which have no nulls. Raises UnsupportedType for a type that cannot be a bucket
    key.
    """
    hashes = row_hashes(columns).view(np.int32).astype(np.int64)
    return np.abs(np.fmod(hashes, bucket_count)).astype(np.int32)


def row_hashes(columns: Sequence[pa.Array[Any]]) -> Words:
    """Returns the hash of each row."""
    rows = len(columns[0])
    texts = [_texts(column) for column in columns]
    hashes = np.zeros(rows, np.uint32)
    lengths = np.zeros((rows, len(columns)), np.int64)
    for number, text in enumerate(texts):
        if text is not None:
            lengths[:, number] = text[1]
    if not lengths.any():
        return _hashed(_rows(columns, texts, lengths, np.arange(rows)))
    distinct, group = np.unique(lengths, axis=0, return_inverse=True)
    for number in range(len(distinct)):  # rows with texts of the same lengths have the same total length
        chosen = np.flatnonzero(group.reshape(-1) == number)
        hashes[chosen] = _hashed(_rows(columns, texts, lengths, chosen))
    return hashes


def _rows(
    columns: Sequence[pa.Array[Any]],
    texts: Sequence[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.uint8]] | None],
    lengths: npt.NDArray[np.int64],
    chosen: npt.NDArray[np.int64],
) -> npt.NDArray[np.uint8]:
    """Returns the bytes of the `chosen` rows, which all have the same length."""
    header = ((len(columns) + 63 + 8) // 64) * 8
    fixed = header + _FIELD_BYTES * len(columns)
    first = lengths[chosen[0]] if len(chosen) else np.zeros(len(columns), np.int64)
    wide = [_wide(column) for column in columns]
    filled = [_filled(int(length)) if length > _INLINE_BYTES else 0 for length in first]
    filled = [size if values is None else values[1].shape[1] for size, values in zip(filled, wide, strict=True)]
    rows = np.zeros((len(chosen), fixed + sum(filled)), np.uint8)
    position = fixed
    for number, (column, text, behind) in enumerate(zip(columns, texts, wide, strict=True)):
        at = header + _FIELD_BYTES * number
        if behind is not None:
            slots = (np.int64(position) << 32) | behind[0][chosen]
            rows[:, at : at + _FIELD_BYTES] = slots.view(np.uint8).reshape(-1, _FIELD_BYTES)
            rows[:, position : position + filled[number]] = behind[1][chosen]
            position += filled[number]
            continue
        if text is None:
            rows[:, at : at + _FIELD_BYTES] = _fixed(column)[chosen]
            continue
        starts, _, data = text
        length = int(first[number])
        values = data[starts[chosen][:, None] + np.arange(length)]
        if length <= _INLINE_BYTES:
            rows[:, at : at + length] = values
            rows[:, at + _INLINE_BYTES] = 0x80 | length
        else:
            rows[:, at : at + _FIELD_BYTES] = np.frombuffer(((position << 32) | length).to_bytes(8, "little"), np.uint8)
            rows[:, position : position + length] = values
            position += filled[number]
    return rows


def _hashed(rows: npt.NDArray[np.uint8]) -> Words:
    words = np.ascontiguousarray(rows).view("<u4")
    result = np.full(len(rows), _SEED, np.uint32)
    with np.errstate(over="ignore"):
        for number in range(words.shape[1]):
            word = words[:, number] * np.uint32(0xCC9E2D51)
            word = _turned(word, 15) * np.uint32(0x1B873593)
            result = _turned(result ^ word, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        result ^= np.uint32(rows.shape[1])
        result = (result ^ (result >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        result = (result ^ (result >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        return result ^ (result >> np.uint32(16))


def _turned(words: Words, bits: int) -> Words:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


def _filled(length: int) -> int:
    return (length + 7) // 8 * 8


def _texts(column: pa.Array[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.uint8]] | None:
    """Returns starts and lengths of texts, and the buffer with their bytes; None for values of fixed width."""
    if not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
        return None
    _, offsets, data = column.buffers()
    ends = np.frombuffer(cast(Any, offsets), np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    return ends[:-1], np.diff(ends), np.zeros(0, np.uint8) if data is None else np.frombuffer(cast(Any, data), np.uint8)


def _wide(column: pa.Array[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]] | None:
    """Returns, for types that are always stored behind the fixed part, the lower half of their slots and their bytes; otherwise None.

    For times finer than milliseconds the slot has the nanoseconds within the millisecond, for long decimals the number of bytes.
    """
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        micros = column.cast(pa.int64()).to_numpy()
        millis = np.floor_divide(micros, 1_000)
        return (micros - millis * 1_000) * 1_000, millis.view(np.uint8).reshape(-1, _FIELD_BYTES)
    if pa.types.is_decimal128(kind) and kind.precision > _COMPACT_DIGITS:
        first = _DECIMAL_BYTES * column.offset
        data = np.frombuffer(cast(Any, column.buffers()[1]), np.uint8)[first : first + _DECIMAL_BYTES * len(column)]
        return _shortest(data.reshape(-1, _DECIMAL_BYTES)[:, ::-1])
    return None


def _shortest(numbers: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Returns big-endian numbers without bytes that only repeat the sign (Java's `BigInteger.toByteArray`): their lengths and their
    bytes.
    """
    sign = numbers[:, :1] >> 7
    repeats = (numbers[:, :-1] == sign * np.uint8(255)) & (numbers[:, 1:] >> 7 == sign)
    left_out = np.cumprod(repeats, axis=1, dtype=np.int64).sum(axis=1)
    places = np.arange(_DECIMAL_BYTES) + left_out[:, None]
    moved = np.take_along_axis(numbers, np.minimum(places, _DECIMAL_BYTES - 1), axis=1)
    return _DECIMAL_BYTES - left_out, np.where(places < _DECIMAL_BYTES, moved, np.uint8(0))


def _fixed(column: pa.Array[Any]) -> npt.NDArray[np.uint8]:
    """Returns the 8 bytes of each value."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_date32(kind):
        width = 4 if pa.types.is_date32(kind) else kind.bit_width // 8
        number = column.cast(pa.int32()) if pa.types.is_date32(kind) else column
        values = np.zeros((len(column), _FIELD_BYTES), np.uint8)
        values[:, :width] = np.ascontiguousarray(number.to_numpy()).view(np.uint8).reshape(len(column), width)
        return values
    if pa.types.is_timestamp(kind) and kind.unit in ("s", "ms"):
        return _fixed(column.cast(pa.timestamp("ms", kind.tz)).cast(pa.int64()))
    if pa.types.is_decimal128(kind) and kind.precision <= _COMPACT_DIGITS:
        words = np.frombuffer(cast(Any, column.buffers()[1]), "<i8")[2 * column.offset : 2 * (column.offset + len(column))]
        return _fixed(pa.array(words[::2]))
    raise UnsupportedType(f"a column of type {kind} cannot be a bucket key of a Paimon table", type=kind)
