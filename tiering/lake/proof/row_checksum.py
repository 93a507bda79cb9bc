"""A checksum of rows that does not depend on their order, their division into files, or the version of a library. Version 1.

It is the sum over all rows, modulo 2^64, of `mix(sum over columns of hash(value, seed of the column))`. NULL adds nothing. So a column that
is added later, and is NULL in all earlier rows, leaves their checksum unchanged. A value keeps its hash when its column gets a wider type:

    bool, integers, date, timestamp   the 64-bit integer (days, microseconds)
    float, double                     the bits of the double; every NaN is the same
    decimal                           the 128 bits of the unscaled value
    string, binary                    words of 8 bytes, little-endian, the last one padded with zeros, each with its position; the length
    list, map, struct                 the elements, each with its position (a map's in their order); the number of elements

The seed of a column is the first 8 bytes, little-endian, of the SHA-256 of its name. The seed of a struct's field comes from its own name.
Python hashes no single row: all of it is arithmetic on Arrow's buffers, in place, in blocks that fit into the processor's cache.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]

MODULUS = 1 << 64
BLOCK_ROWS = 1 << 15
"""Rows of a block. Each has 8 bytes in each of three columns of intermediate values, which fit into a core's second-level cache. A block is
large enough that the calls of numpy take little time."""
TEXTS_AT_ONCE = 1 << 14
"""Rows of a block of texts, which have more intermediate values."""
FEW_TEXTS, FEW_WORDS = 1 << 6, 1 << 4
"""Up to FEW_TEXTS texts of a block that are longer than all others, and longer than FEW_WORDS words, are hashed to their end one by one."""
MOST_PLACES = 1 << 12
"""Upper bound of the words of a text that are hashed together with those of other texts. Further words are hashed text by text, which is as
fast for such long texts. The number is below 2^16 - 1, the highest number of words by which texts are sorted."""

SAMPLE_ROWS, REPEATING, LONG_TEXT = 1 << 8, 0.25, 32
"""Texts of at least this average length in bytes, with at most this share of distinct values in a sample, are hashed once each. Finding
equal texts takes as long as hashing about 30 bytes."""

_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_STEP = np.uint64(0x9E3779B97F4A7C15)
"""Multipliers of SplitMix64 (Steele, Lea, Flood 2014): every bit of a word reaches every other."""
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)
_WORD = 8
"""Size of a word in bytes."""
_MASKS = np.array([(1 << 8 * length) - 1 for length in range(_WORD + 1)], np.uint64)
"""Masks that keep the first bytes of a word, by their number."""
_STORED_AS: dict[pa.DataType, type[np.generic]] = {
    pa.int8(): np.int8,
    pa.int16(): np.int16,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.date32(): np.int32,
}


def row_checksum(rows: pa.Table | pa.RecordBatch, names: pa.Schema | None = None) -> int:
    """Returns the checksum of `rows`, from 0 to 2^64 - 1. The checksum of two batches is the sum of their checksums, modulo 2^64.

    `names`: columns in the order of the rows, whose names are the seeds (`schema.column_ids.proof_columns`); None = the names of the rows.
    """
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    return sum(int(block.sum(dtype=np.uint64)) for block in _hashed_blocks(table, names)) % MODULUS


def row_hashes(rows: pa.RecordBatch, names: pa.Schema | None = None) -> Words:
    """Returns what each row adds to the checksum. `names` as in `row_checksum`."""
    return np.concatenate([np.zeros(0, np.uint64), *(block.copy() for block in _hashed_blocks(pa.Table.from_batches([rows]), names))])


def _hashed_blocks(table: pa.Table, names: pa.Schema | None) -> Iterator[Words]:
    """Yields the hashes of consecutive rows. Each block reuses the memory of the one before."""
    fields = list(table.schema if names is None else names)
    sums, words, spare = np.empty((3, min(BLOCK_ROWS, table.num_rows)), np.uint64)
    for first in range(0, table.num_rows, BLOCK_ROWS):
        for block in table.slice(first, BLOCK_ROWS).combine_chunks().to_batches():
            count = block.num_rows
            sums[:count] = _STEP
            for column, field in zip(block.columns, fields, strict=True):
                sums[:count] += _hashes(column, _seed(field.name), field.type, words[:count], spare[:count])
            yield _mixed(sums[:count], spare[:count])


@cache
def _seed(name: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))


def _mixed(words: Words, spare: Words | None = None) -> Words:
    """Mixes `words` in place, and overwrites `spare` of the same size. Allocating memory would take longer than the arithmetic."""
    shifted = np.right_shift(words, _30, out=spare)
    words ^= shifted
    words *= _FIRST
    words ^= np.right_shift(words, _27, out=shifted)
    words *= _SECOND
    words ^= np.right_shift(words, _31, out=shifted)
    return words


def _hashes(
    column: pa.Array[Any], seed: np.uint64, names: pa.DataType | None = None, out: Words | None = None, spare: Words | None = None
) -> Words:
    """Returns one word for each value; 0 for NULL. The result may be in `out`, and `spare` is overwritten.

    `names`: a type whose structs have the names that seed the hashes; None = the type of the column.
    """
    if column.null_count == len(column):
        return np.zeros(len(column), np.uint64)
    hashes = _of_type(column, seed, names or column.type, out, spare)
    if column.null_count:
        hashes *= _bits(column.buffers()[0], column.offset, len(column))
    return hashes


def _of_type(column: pa.Array[Any], seed: np.uint64, names: pa.DataType, out: Words | None, spare: Words | None) -> Words:
    """Returns one word for each value. NULL gets any word."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _hashes(cast(Any, column).dictionary_decode(), seed, None, out, spare)
    if pa.types.is_decimal(kind):
        return _decimals(column, seed, out, spare)
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return _texts(column, seed)
    if pa.types.is_struct(kind):
        return _structs(column, seed, names)
    if pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _lists(column, seed, names)
    return _mixed(_seeded(_words(column), seed, out), spare)


def _seeded(words: Words, seed: np.uint64, out: Words | None = None) -> Words:
    """Returns the words before they are mixed."""
    seeded = np.multiply(words, _STEP, out=out)
    seeded += seed
    return seeded


def _words(column: pa.Array[Any]) -> Words:
    """Returns numbers, dates and times as words; a view if the column holds words of 64 bits."""
    kind = column.type
    if pa.types.is_floating(kind):
        column = column if pa.types.is_float64(kind) else column.cast(pa.float64())
        return _bits_of_doubles(_values(column, np.float64))
    if pa.types.is_timestamp(kind):
        column = column if cast(Any, kind).unit == "us" else column.cast(pa.timestamp("us", cast(Any, kind).tz))
        return _values(column, np.uint64)
    if kind not in _STORED_AS:
        if not (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
            raise TypeError(f"values of type {kind} have no checksum")
        column = column.cast(pa.int64())
    return _values(column, _STORED_AS[column.type]).astype(np.int64, copy=False).view(np.uint64)


def _bits_of_doubles(doubles: npt.NDArray[np.float64]) -> Words:
    odd = np.isnan(doubles)
    if odd.any():
        doubles = doubles.copy()
        doubles[odd] = np.nan
    return doubles.view(np.uint64)


def _values(column: pa.Array[Any], kind: type[np.generic], width: int = 1) -> npt.NDArray[Any]:
    """Returns a view of the values of a column of fixed size: `width` consecutive items of `kind` for each value."""
    values = np.frombuffer(cast(Any, column.buffers()[1]), kind, width * (column.offset + len(column)))
    return values[width * column.offset :]


def _bits(buffer: Any, offset: int, count: int) -> Bytes:
    """Returns 0 or 1 for each of `count` bits of an Arrow bitmap."""
    first = offset // 8
    bits = np.unpackbits(np.frombuffer(buffer, np.uint8)[first : (offset + count + 7) // 8], bitorder="little")
    return bits[offset - 8 * first : offset - 8 * first + count]


def _decimals(column: pa.Array[Any], seed: np.uint64, out: Words | None, spare: Words | None) -> Words:
    """Mixes the high half, and then the low half with the result. If all high halves are equal, the high half is mixed once."""
    if not pa.types.is_decimal128(column.type):
        column = column.cast(pa.decimal128(38, cast(Any, column.type).scale))
    halves = _values(column, np.uint64, width=2)
    low, high = halves[::2], halves[1::2]
    if (high == high[0]).all():
        return _mixed(np.add(low, _mixed(_seeded(high[:1], seed)), out=out), spare)
    words = _mixed(_seeded(high, seed, out), spare)
    words += low
    return _mixed(words, spare)


def _texts(column: pa.Array[Any], seed: np.uint64) -> Words:
    large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    _, offset_buffer, data_buffer = column.buffers()
    offsets = np.frombuffer(cast(Any, offset_buffer), np.int64 if large else np.int32, column.offset + len(column) + 1)[column.offset :]
    first, end = int(offsets[0]), int(offsets[-1])
    repeating = _repeating(column, seed) if end - first >= LONG_TEXT * len(column) else None
    if repeating is not None:
        return repeating
    data = np.frombuffer(cast(Any, data_buffer or b""), np.uint8)
    if end + _WORD > len(data):
        data, offsets = np.append(data[first:end], np.zeros(_WORD, np.uint8)), offsets - first
    windows: Words = np.ndarray((len(data) - _WORD + 1,), np.uint64, buffer=data.data, strides=(1,))
    hashes = np.empty(len(column), np.uint64)
    for begin in range(0, len(column), TEXTS_AT_ONCE):
        block = offsets[begin : begin + TEXTS_AT_ONCE + 1].astype(np.int64)
        hashes[begin : begin + TEXTS_AT_ONCE] = _text_hashes(windows, block[:-1], np.diff(block), seed)
    return hashes


def _repeating(column: pa.Array[Any], seed: np.uint64) -> Words | None:
    """Returns the hashes of texts that repeat, with each distinct text hashed once. None if they do not repeat."""
    sample = column.slice(len(column) // 2, SAMPLE_ROWS)
    if pc.count_distinct(sample).as_py() > REPEATING * len(sample):
        return None
    encoded = cast(Any, column.dictionary_encode())
    indices = pc.fill_null(encoded.indices, 0) if column.null_count else encoded.indices
    by_row: Words = _hashes(encoded.dictionary, seed)[np.asarray(indices)]
    return by_row


def _text_hashes(windows: Words, starts: Integers, lengths: Integers, seed: np.uint64) -> Words:
    """Returns the hashes of texts of `lengths` that begin at `starts`. `windows` has the word that begins at each byte."""
    shortest, longest = int(lengths.min()), int(lengths.max())
    if shortest == longest:
        lengths = lengths[:1]  # for example codes; they need not be gathered if they are adjacent
    if longest < len(lengths):
        hashes = _mixed(_seeded(np.arange(longest + 1, dtype=np.uint64), seed))[lengths]
    else:
        hashes = _mixed(_seeded(lengths.view(np.uint64), seed))
    if not longest:
        return hashes
    if longest > _WORD:
        return hashes + _words_of_texts(windows, starts, np.broadcast_to(lengths, starts.shape), seed)
    is_regular = shortest == longest and int(starts[-1] - starts[0]) == longest * (len(starts) - 1)
    words = windows[starts[0] :: longest][: len(starts)] if is_regular else windows[starts]
    words = _mixed(_seeded(words & _MASKS[lengths], seed ^ np.uint64(1)))
    if not shortest:
        words *= lengths > 0
    words += hashes
    return words


def _words_of_texts(windows: Words, starts: Integers, lengths: Integers, seed: np.uint64) -> Words:
    """Returns what the words of each text add to its hash, position by position. The texts are sorted by their number of words, so the
    texts that have a word at a position are always the last ones."""
    counts = np.minimum((lengths + (_WORD - 1)) >> 3, 0xFFFF).astype(np.uint16)  # numbers of 16 bits are sorted in linear time
    order = np.argsort(counts, kind="stable")
    counts, begins, left, sums = counts[order], starts[order], lengths[order], np.zeros(len(order), np.uint64)
    few = int(counts[-FEW_TEXTS - 1]) if len(counts) > FEW_TEXTS else 0
    places = min(max(FEW_WORDS, few), int(counts[-1]), MOST_PLACES)
    ends = np.searchsorted(counts, np.arange(places + 1), side="right")
    for place, (first, last) in enumerate(pairwise(ends)):
        words = windows[begins[first:]]
        words[: last - first] &= _MASKS[left[first:last]]
        sums[first:] += _mixed(_seeded(words, seed ^ np.uint64(place + 1)))
        begins += _WORD
        left -= _WORD
    for row in range(ends[-1], len(order)):
        words = windows[begins[row] : begins[row] + left[row] : _WORD].copy()
        words[-1] &= _MASKS[(left[row] - 1) % _WORD + 1]
        later = np.arange(places + 1, places + 1 + len(words), dtype=np.uint64)
        sums[row : row + 1] += _mixed(words * _STEP + (later ^ seed)).sum(dtype=np.uint64)
    hashes = np.empty_like(sums)
    hashes[order] = sums
    return hashes


def _structs(column: Any, seed: np.uint64, names: Any) -> Words:
    hashes = np.full(len(column), seed, np.uint64)
    for index in range(column.type.num_fields):
        field = names.field(index)
        hashes += _hashes(column.field(index), seed ^ _seed(field.name), field.type)
    return _mixed(hashes + _STEP)


def _lists(column: Any, seed: np.uint64, names: Any) -> Words:
    """Hashes each element together with its position in its list, and adds it to the hash of its list."""
    lengths = np.asarray(pc.fill_null(_lengths(column), 0)).astype(np.int64)
    hashes = _mixed(_seeded(lengths.view(np.uint64), seed))
    elements = _elements(column, seed, names)
    ends = np.cumsum(lengths)
    firsts = ends - lengths
    places = np.arange(1, len(elements) + 1) - np.repeat(firsts, lengths)
    elements += places.view(np.uint64) * _STEP
    running = np.zeros(len(elements) + 1, np.uint64)
    np.cumsum(_mixed(elements), out=running[1:])
    hashes += running[ends] - running[firsts]
    return _mixed(hashes)


def _lengths(column: Any) -> Any:
    if not pa.types.is_map(column.type):
        return pc.list_value_length(column)
    return pc.list_value_length(_map_as_list(column))


def _map_as_list(column: Any) -> Any:
    entry = pa.struct([column.type.key_field, column.type.item_field])
    return column.cast(pa.list_(pa.field("entries", entry, nullable=False)))


def _elements(column: Any, seed: np.uint64, names: Any) -> Words:
    """Returns the hashes of the elements of all lists that are not NULL, in order. A NULL in a list counts only by its position."""
    if not pa.types.is_map(column.type):
        return _hashes(column.flatten(), seed, names.value_type)
    entries = _map_as_list(column).flatten()
    keys, items = _hashes(entries.field(0), seed, names.key_type), _hashes(entries.field(1), seed ^ _STEP, names.item_type)
    return _mixed(keys + _mixed(items + _STEP))
