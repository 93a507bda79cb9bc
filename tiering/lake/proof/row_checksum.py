"""A checksum of rows that does not depend on their order, on how they are cut into files, or on a library's version. Version 1.

The sum over all rows, modulo 2^64, of `mix(sum over columns of hash(value, seed of the column))`. NULL adds nothing, so a column that is
added later, NULL in all rows before it, leaves their checksum as it was. A value keeps its hash when its column gets a wider type:

    bool, integers, date, timestamp   the 64-bit integer (days, microseconds)
    float, double                     the bits of the double; every NaN is the same one
    decimal                           the 128 bits of the unscaled value
    string, binary                    words of 8 bytes, little-endian, the last filled up with zeros, each with its place; the length
    list, map, struct                 the elements, each with its place (a map's in their order); the number of elements

The seed of a column is the first 8 bytes, little-endian, of the SHA-256 of its name; a field of a struct has the same of its own name.
Nothing is hashed by row in Python: all of it is arithmetic on Arrow's buffers, in blocks that fit into the processor's cache.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Words = npt.NDArray[np.uint64]

MODULUS = 1 << 64
BLOCK_ROWS = 1 << 14
"""Of 8 bytes each: a few columns of intermediate values fit into a core's second-level cache."""

SAMPLE_ROWS, REPEATING = 1 << 10, 0.5
"""With up to this share of distinct values in a sample they are hashed once each."""

_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_STEP = np.uint64(0x9E3779B97F4A7C15)
"""Multipliers of SplitMix64 (Steele, Lea, Flood 2014): every bit of a word reaches every other."""
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)
_NAN = np.float64(np.nan)
_ODD = np.uint64(1)
_WORD = 8
"""Bytes."""
_TO_BITS = np.uint64(3)
PLACES_AT_ONCE = 64
"""Longer texts are hashed each by itself from there on: few rows have them."""


def row_checksum(rows: pa.Table | pa.RecordBatch) -> int:
    """The checksum of `rows`, from 0 to 2^64 - 1; that of two batches together is the sum of theirs, modulo 2^64."""
    batches = [rows] if isinstance(rows, pa.RecordBatch) else rows.to_batches()
    total = sum(int(block.sum(dtype=np.uint64)) for batch in batches for block in _hashed_blocks(batch))
    return total % MODULUS


def row_hashes(batch: pa.RecordBatch) -> Words:
    """What each row of `batch` adds to its checksum."""
    return np.concatenate([np.zeros(0, np.uint64), *_hashed_blocks(batch)])


def _hashed_blocks(batch: pa.RecordBatch) -> Iterator[Words]:
    repeating = {name: _repeating(batch.column(name), _seed(name)) for name in batch.schema.names}
    for first in range(0, batch.num_rows, BLOCK_ROWS):
        block = batch.slice(first, BLOCK_ROWS)
        sums = np.zeros(block.num_rows, np.uint64)
        for field, column in zip(block.schema, block.columns, strict=True):
            known = repeating[field.name]
            sums += _hashes(column, _seed(field.name)) if known is None else known[first : first + BLOCK_ROWS]
        yield _mixed(sums + _STEP)


def _repeating(column: pa.Array[Any], seed: np.uint64) -> Words | None:
    """The hashes of a text column whose values repeat: each distinct one is hashed once. None for any other column."""
    if len(column) < BLOCK_ROWS or not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
        return None
    sample = column.slice(len(column) // 2, SAMPLE_ROWS)
    if pc.count_distinct(sample).as_py() > REPEATING * len(sample):
        return None
    encoded = cast(Any, column.dictionary_encode())
    hashes = np.append(_hashes(encoded.dictionary, seed), np.uint64(0))  # the last one is that of NULL
    by_row: Words = hashes[np.asarray(_filled(encoded.indices, len(encoded.dictionary)))]
    return by_row


@cache
def _seed(name: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))


def _mixed(words: Words) -> Words:
    """Changes `words` in place."""
    words ^= words >> _30
    words *= _FIRST
    words ^= words >> _27
    words *= _SECOND
    words ^= words >> _31
    return words


def _hashes(column: pa.Array[Any], seed: np.uint64) -> Words:
    """One word a value; 0 for NULL."""
    hashes = _of_type(column, seed)
    if column.null_count:
        hashes[np.asarray(column.is_null())] = 0
    return hashes


def _of_type(column: pa.Array[Any], seed: np.uint64) -> Words:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _of_type(cast(Any, column).dictionary_decode(), seed)
    if pa.types.is_decimal(kind):
        return _decimals(column, seed)
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return _texts(column, seed)
    if pa.types.is_struct(kind):
        return _structs(column, seed)
    if pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _lists(column, seed)
    return _mixed(_plain_words(column) * _STEP + seed)


def _plain_words(column: pa.Array[Any]) -> Words:
    kind = column.type
    if pa.types.is_floating(kind):
        doubles = np.asarray(_filled(column.cast(pa.float64()), 0.0)).copy()
        doubles[np.isnan(doubles)] = _NAN
        return doubles.view(np.uint64)
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", cast(Any, kind).tz)).cast(pa.int64())
    elif pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif not (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise TypeError(f"values of type {kind} have no checksum")
    return np.asarray(_filled(column.cast(pa.int64()), 0)).astype(np.int64, copy=False).view(np.uint64)


def _filled(column: Any, value: object) -> Any:
    return pc.fill_null(column, cast(Any, value)) if column.null_count else column


def _decimals(column: pa.Array[Any], seed: np.uint64) -> Words:
    column = column.cast(pa.decimal128(38, cast(Any, column.type).scale))
    if not len(column):
        return np.zeros(0, np.uint64)
    buffer = column.buffers()[1]
    halves = np.frombuffer(cast(Any, buffer), np.uint64, 2 * (column.offset + len(column))).reshape(-1, 2)[column.offset :]
    return _mixed(_mixed(halves[:, 1] * _STEP + seed) + halves[:, 0])


def _texts(column: pa.Array[Any], seed: np.uint64) -> Words:
    """By words of 8 bytes: all of a place at a time, so that short texts, the rule, take few steps."""
    offsets, data = _layout(column)
    starts, lengths = offsets[:-1], np.diff(offsets)
    hashes = _mixed(lengths.view(np.uint64) * _STEP + seed)
    padded = np.zeros(len(data) + 8, np.uint8)
    padded[: len(data)] = data
    windows: Words = np.ndarray((len(data) + 1,), np.uint64, buffer=padded.data, strides=(1,))  # the word that begins at each byte
    rows = np.flatnonzero(lengths > 0)
    begins, left = starts[rows], lengths[rows]
    place = 0
    while len(rows) and place < PLACES_AT_ONCE:
        words = windows[begins]
        if len(short := np.flatnonzero(left < _WORD)):
            words[short] &= (_ODD << (left[short].astype(np.uint64) << _TO_BITS)) - _ODD
        words *= _STEP
        words += seed ^ np.uint64(place + 1)
        hashes[rows] += _mixed(words)
        longer = np.flatnonzero(left > _WORD)
        rows, begins, left = rows[longer], begins[longer] + _WORD, left[longer] - _WORD
        place += 1
    for row, begin, rest in zip(rows, begins, left, strict=True):
        hashes[row : row + 1] += _rest_of_text(windows[begin : begin + rest : _WORD].copy(), int(rest), place, seed)
    return hashes


def _rest_of_text(words: Words, length: int, place: int, seed: np.uint64) -> np.uint64:
    """What the words of a long text from `place` on, of `length` bytes, add to its hash."""
    if length % _WORD:
        words[-1] &= (_ODD << (np.uint64(length % _WORD) << _TO_BITS)) - _ODD
    places = np.arange(place + 1, place + 1 + len(words), dtype=np.uint64)
    total: np.uint64 = _mixed(words * _STEP + (places ^ seed)).sum(dtype=np.uint64)
    return total


def _layout(column: pa.Array[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Offsets into the bytes of a text column, from 0, and those bytes. NULL is taken for an empty text."""
    if column.null_count:
        column = _filled(column, b"" if "binary" in str(column.type) else "")
    large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    _, offset_buffer, data_buffer = column.buffers()[:3]
    if not len(column) or offset_buffer is None:
        return np.zeros(len(column) + 1, np.int64), np.zeros(0, np.uint8)
    width = np.int64 if large else np.int32
    offsets = np.frombuffer(cast(Any, offset_buffer), width, column.offset + len(column) + 1)[column.offset :].astype(np.int64)
    data = np.zeros(0, np.uint8) if data_buffer is None else np.frombuffer(cast(Any, data_buffer), np.uint8)
    return offsets - offsets[0], data[offsets[0] : offsets[-1]]


def _structs(column: Any, seed: np.uint64) -> Words:
    hashes = np.full(len(column), seed, np.uint64)
    for index in range(column.type.num_fields):
        hashes += _hashes(column.field(index), seed ^ _seed(column.type.field(index).name))
    return _mixed(hashes + _STEP)


def _lists(column: Any, seed: np.uint64) -> Words:
    """Each element is hashed, given its place in its list, and added to what its list has."""
    lengths = np.asarray(_filled(_lengths(column), 0)).astype(np.int64)
    rows = np.repeat(np.arange(len(column)), lengths)
    firsts = np.cumsum(lengths) - lengths
    places = (np.arange(len(rows)) - firsts[rows]).astype(np.uint64)
    elements = _elements(column, seed)
    hashes = _mixed(lengths.view(np.uint64) * _STEP + seed)
    if len(rows):
        np.add.at(hashes, rows, _mixed(elements + (places + _ODD) * _STEP))
    return _mixed(hashes)


def _lengths(column: Any) -> Any:
    if not pa.types.is_map(column.type):
        return pc.list_value_length(column)
    return pc.list_value_length(_map_as_list(column))


def _map_as_list(column: Any) -> Any:
    entry = pa.struct([column.type.key_field, column.type.item_field])
    return column.cast(pa.list_(pa.field("entries", entry, nullable=False)))


def _elements(column: Any, seed: np.uint64) -> Words:
    """Hashes of the elements of all lists that are not NULL, in their order; a NULL in a list counts by its place alone."""
    if not pa.types.is_map(column.type):
        return _hashes(column.flatten(), seed)
    entries = _map_as_list(column).flatten()
    return _mixed(_hashes(entries.field(0), seed) + _mixed(_hashes(entries.field(1), seed ^ _STEP) + _STEP))
