"""Decodes rows in Fluss's own formats in bulk to Arrow: column by column, with a running position for each row.

The formats, as 0.9.1 writes them (its `CompactedRowWriter`, `IndexedRowWriter` and `BinaryArray`, and observed in its snapshots and logs),
with little-endian numbers. COMPACTED:

   row         a bit a column (1 = NULL), padded to a byte; then the columns that are not NULL
   column      boolean, int8, int16, float, double: fixed width. int32, date, int64: a varint of the two's complement.
               decimal up to 18 digits: the unscaled value as a varint; above: its length, and big-endian bytes.
               timestamp up to 3 digits: a varint of milliseconds; above: that, and a varint of nanoseconds within.
               string, bytes, array, map, row: a varint of the length in bytes, and the bytes
   array       count i32; a bit an element (1 = NULL), padded to 4 bytes; a slot an element; the values that do not fit into slots
   slot        fixed widths unchanged, decimals up to 18 digits and timestamps up to 3 in 8 bytes; else 8 bytes: the place within
               the array (high half) with the length, or the nanoseconds of a timestamp; or, with the highest bit set, up to 7 bytes of
               a string and in the highest byte their number
   map         length of the key array i32, key array, value array

INDEXED, with the same arrays and maps, whose rows are INDEXED as well:

   row         a bit a column (1 = NULL), padded to a byte; an i32 for each column of variable width, which begin with the lengths of
               those that are not NULL; then the columns that are not NULL
   column      numbers and dates: fixed width. decimal up to 18 digits: 8 bytes. timestamp: 8 bytes of milliseconds and, above 3
               digits, 4 of nanoseconds within. BINARY and CHAR: the declared number of bytes. Others: as long as the length says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tiering.model.refused_records import UnwritableRow, first_failing

Positions: TypeAlias = npt.NDArray[np.int64]
"""Positions, or lengths, in bytes."""
Words: TypeAlias = npt.NDArray[np.uint64]
AnyArray: TypeAlias = "pa.Array[Any]"

PADDING = bytes(32)
"""A damaged value may end some bytes behind its row before that is detected."""
_MAX_DECIMAL_BYTES = 16
_WORD_BYTES = 8
_MAX_INLINE_BYTES = 12
"""Maximum size of a value that Arrow's views contain inline."""
_CONTINUED = np.uint64(0x8080808080808080)
_SEVEN_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
_BYTE_COUNTS = np.uint64(0x0101010101010101)
_FOLDS = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(shift))
    for low, high, shift in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)
"""Masks and shifts that join eight groups of seven bits, one per byte, to one number: neighbours are joined in pairs, three times."""


# One numpy operation reads a field of all rows. Positions count from the first byte of the buffer. A buffer has `PADDING` before and
# after its values, so that a whole word may be read at any position of a value.
class PackedBytes:
    """A padded buffer. Methods raise ValueError for invalid bytes."""

    def __init__(self, padded: bytes) -> None:
        self._buffer = pa.py_buffer(padded)
        self._bytes = np.frombuffer(padded, np.uint8)

    @staticmethod
    def joined(values: Sequence[bytes]) -> PackedBytes:
        """Returns the concatenated values; the first begins at `len(PADDING)`."""
        return PackedBytes(b"".join((PADDING, *values, PADDING)))

    def read(self, dtype: npt.DTypeLike, at: Positions) -> npt.NDArray[Any]:
        """Returns the little-endian number of type `dtype` at each position."""
        kind = np.dtype(dtype)
        # A view with a number at every byte: indexing it gathers unaligned words.
        view: npt.NDArray[Any] = np.ndarray((len(self._bytes) - kind.itemsize + 1,), kind, self._bytes.data, strides=(1,))
        return view[at]

    def bits(self, at: Positions, places: int | Positions) -> npt.NDArray[np.bool_]:
        """Returns bit `places` of the bits that begin at each position."""
        result: npt.NDArray[np.bool_] = (self._bytes[at + (places >> 3)] >> (places & 7)) & 1 == 1
        return result

    def varints(self, at: Positions) -> tuple[Words, Positions]:
        """Returns the unsigned number at each position, encoded with seven bits a byte, lowest first, and the position after it."""
        words = self.read("<u8", at)
        last = ~words & _CONTINUED
        below = (last & (~last + np.uint64(1))) - np.uint64(1)
        lengths = ((below & _BYTE_COUNTS) * _BYTE_COUNTS >> np.uint64(56)).view(np.int64)
        numbers = words & below & _SEVEN_BITS
        for low, high, shift in _FOLDS:
            numbers = (numbers & low) | ((numbers & high) >> shift)
        if (long := np.flatnonzero(last == 0)).size:
            last_bytes = self.read("<u2", at[long] + _WORD_BYTES).astype(np.uint64)
            has_tenth = last_bytes & np.uint64(0x80) != 0
            tenth = np.where(has_tenth, last_bytes >> np.uint64(8), np.uint64(0))
            if (tenth > 1).any():
                raise ValueError("a number is longer than 64 bits")
            numbers[long] |= (last_bytes & np.uint64(0x7F)) << np.uint64(56) | tenth << np.uint64(63)
            lengths[long] += 1 + has_tenth
        return numbers, at + lengths

    def slices(self, starts: Positions, lengths: Positions) -> AnyArray:
        """Returns a copy of the bytes `[start, start + length)` for each start."""
        views = np.zeros((len(starts), 2), np.uint64)
        views[:, 0] = lengths.view(np.uint64) | self.read("<u4", starts).astype(np.uint64) << np.uint64(32)
        inline = self.read("<u8", starts + 4)
        views[:, 1] = np.where(lengths <= _MAX_INLINE_BYTES, inline, starts.view(np.uint64) << np.uint64(32))
        if len(self._bytes) > np.iinfo(np.int32).max:
            raise ValueError("more than 2 GiB of values at once")
        return array_of(pa.binary_view(), len(starts), views, self._buffer).cast(pa.binary())

    def big_integers(self, starts: Positions, lengths: Positions) -> npt.NDArray[np.int64]:
        """Returns signed big-endian integers of up to 16 bytes, each as its low and its high word."""
        if ((lengths < 1) | (lengths > _MAX_DECIMAL_BYTES)).any():
            raise ValueError("a decimal is not between 1 and 16 bytes long")
        places = np.arange(_MAX_DECIMAL_BYTES)
        digits = self._bytes[(starts + lengths - 1)[:, None] - places]
        signs = np.where(self._bytes[starts] >= 0x80, 0xFF, 0).astype(np.uint8)
        whole = np.where(places < lengths[:, None], digits, signs[:, None])
        return np.ascontiguousarray(whole).view(np.int64)


def array_of(kind: pa.DataType, count: int, *values: Any) -> AnyArray:
    """Returns an Arrow array without NULLs that consists of these buffers."""
    buffers: list[Any] = [None, *map(pa.py_buffer, values)]
    array: AnyArray = pa.Array.from_buffers(kind, count, buffers)
    return array


KV_FORMAT, KV_FORMAT_VERSION, LOG_FORMAT = "table.kv.format", "table.kv.format-version", "table.log.format"
_ARROW = "ARROW"
_KV_FORMAT_VERSIONS = ("", "1", "2")


class RowEncoding(StrEnum):
    """A row format, as Fluss's options name it."""

    COMPACTED = "COMPACTED"
    INDEXED = "INDEXED"


def kv_encoding(properties: Mapping[str, str]) -> RowEncoding | None:
    """Returns the format of rows in KV snapshots; None = an unknown format, so that the table is read from its log."""
    name = properties.get(KV_FORMAT, RowEncoding.COMPACTED).upper()
    is_known = name in tuple(RowEncoding) and properties.get(KV_FORMAT_VERSION, "") in _KV_FORMAT_VERSIONS
    return RowEncoding(name) if is_known else None


def log_encoding(properties: Mapping[str, str]) -> RowEncoding | None:
    """Returns the format of rows in the log; None = Arrow record batches, which are Fluss's default."""
    name = properties.get(LOG_FORMAT, _ARROW).upper()
    return RowEncoding(name) if name in tuple(RowEncoding) else None


def unreadable_format(properties: Mapping[str, str], schema: Mapping[str, Any]) -> str | None:
    """Returns why rows of a table with these options and this schema (Fluss's JSON) cannot be read; None = they can."""
    name = properties.get(LOG_FORMAT, _ARROW).upper()
    if name != _ARROW and name not in tuple(RowEncoding):
        return f"its log is in the format {name[:60]!r} ({LOG_FORMAT}), which Lakeward cannot read"
    if RowEncoding.INDEXED in (log_encoding(properties), kv_encoding(properties)) and _has_char(schema):
        return "it has a column of type CHAR and rows in the format INDEXED, which Lakeward cannot read"
    return None


def _has_char(described: Any) -> bool:
    """Returns whether the schema contains a CHAR: an INDEXED row has its declared number of bytes, which Arrow's type does not contain."""
    if isinstance(described, Mapping):
        return described.get("type") == "CHAR" or any(map(_has_char, described.values()))
    return isinstance(described, list) and any(map(_has_char, described))


Numbers: TypeAlias = npt.NDArray[Any]

_FIRST_MS, _FIRST_US_WITHIN = divmod(-(1 << 63), 1_000)
_LAST_MS, _LAST_US_WITHIN = divmod((1 << 63) - 1, 1_000)
"""The limits of a timestamp in microseconds. Fluss stores 64-bit milliseconds, whose range is a thousand times larger."""
_COMPACT_DIGITS = 18
"""Maximum number of digits of a decimal that fits into 64 bits."""
_COMPACT_UNITS = ("s", "ms")
"""Units of timestamps that are stored as milliseconds only."""
_ARRAY_COUNT_BYTES = 4
_LENGTH_BYTES = 4
"""Size of the length of a value of variable width, in an INDEXED row."""
_INLINE = np.uint64(1 << 63)
_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_FIXED: dict[pa.DataType, str] = {
    pa.bool_(): "u1",
    pa.int8(): "i1",
    pa.int16(): "<i2",
    pa.float32(): "<f4",
    pa.float64(): "<f8",
}
_VARIABLE: dict[pa.DataType, str] = {pa.int32(): "<i4", pa.date32(): "<i4", pa.int64(): "<i8"}
"""Types that are varints in a row, but have a fixed width in an array."""


class TimestampOutOfRange(ValueError):
    """A timestamp outside of the range of microseconds. `column`: the place of its column in the row."""

    def __init__(self, milliseconds: int) -> None:
        super().__init__(f"holds {milliseconds} ms since 1970, which is out of range of a timestamp in microseconds")
        self.column = 0


def decode_rows(
    data: PackedBytes, starts: Positions, ends: Positions, types: Sequence[pa.DataType], encoding: RowEncoding = RowEncoding.COMPACTED
) -> list[AnyArray]:
    """Returns the columns of the rows `[start, end)`; `types` are those with which the rows were written (`schemas.arrow_type`).

    Raises ValueError for bytes that are not valid rows, or values that leave their row; TimestampOutOfRange.
    """
    at = lengths_at = starts + (len(types) + 7) // 8
    if encoding is RowEncoding.INDEXED:
        at = lengths_at + _LENGTH_BYTES * sum(_indexed_bytes(kind) is None for kind in types)
    columns = []
    for place, kind in enumerate(types):
        _check(at, ends)
        nulls = data.bits(starts, place)
        valid = np.flatnonzero(~nulls) if nulls.any() else slice(None)
        try:
            if encoding is RowEncoding.INDEXED:
                values, behind = _decode_indexed(data, at[valid], lengths_at[valid], ends[valid], kind)
            else:
                values, behind = _decode_column(data, at[valid], ends[valid], kind)
        except TimestampOutOfRange as error:
            error.column = place
            raise
        if encoding is RowEncoding.INDEXED and _indexed_bytes(kind) is None:
            lengths_at[valid] += _LENGTH_BYTES
        if isinstance(valid, slice):
            at = behind
        else:
            at[valid] = behind
            values = _spread(values, nulls)
        columns.append(values)
    if (at != ends).any():
        raise ValueError("a row is longer or shorter than its columns")
    return columns


def _decode_indexed(
    data: PackedBytes, at: Positions, lengths_at: Positions, ends: Positions, kind: pa.DataType
) -> tuple[AnyArray, Positions]:
    """Decodes values as `_decode_column` does, for INDEXED rows; the lengths of values of variable width are at `lengths_at`."""
    width = _indexed_bytes(kind)
    if width is None:
        lengths = data.read("<i4", lengths_at).astype(np.int64)
        _check(lengths, ends - at)
        return _blobs(data, at, lengths, kind, RowEncoding.INDEXED), at + lengths
    _check(np.full(len(at), width), ends - at)
    if (dtype := _FIXED.get(kind, _VARIABLE.get(kind))) is not None:
        return _numbers(data.read(dtype, at), kind), at + width
    if isinstance(kind, pa.TimestampType):
        nanoseconds = data.read("<i4", at + 8).astype(np.int64) if width > 8 else np.zeros(0, np.int64)
        return _timestamps(data.read("<i8", at), nanoseconds, kind), at + width
    if _is_compact_decimal(kind):
        return _compact_decimals(data.read("<i8", at), kind), at + width
    return data.slices(at, np.full(len(at), width)).cast(kind), at + width


def _indexed_bytes(kind: pa.DataType) -> int | None:
    """Returns the size of a value in an INDEXED row; None = the row contains its length."""
    if (dtype := _FIXED.get(kind, _VARIABLE.get(kind))) is not None:
        return np.dtype(dtype).itemsize
    if isinstance(kind, pa.TimestampType):
        return 8 if kind.unit in _COMPACT_UNITS else 12
    if isinstance(kind, pa.FixedSizeBinaryType) and not isinstance(kind, pa.Decimal128Type):
        return kind.byte_width
    return 8 if _is_compact_decimal(kind) else None


def _decode_column(data: PackedBytes, at: Positions, ends: Positions, kind: pa.DataType) -> tuple[AnyArray, Positions]:
    """Returns the values at `at`, none of which is NULL, and the positions after them."""
    if (dtype := _FIXED.get(kind)) is not None:
        return _numbers(data.read(dtype, at), kind), at + np.dtype(dtype).itemsize
    if (dtype := _VARIABLE.get(kind)) is not None:
        words, behind = data.varints(at)
        return _numbers(words.astype(dtype), kind), behind
    if isinstance(kind, pa.TimestampType):
        milliseconds, behind = data.varints(at)
        nanoseconds: Numbers = np.zeros(0, np.int64)
        if kind.unit not in _COMPACT_UNITS:
            nanoseconds, behind = data.varints(behind)
        return _timestamps(milliseconds.view(np.int64), nanoseconds.view(np.int64), kind), behind
    if _is_compact_decimal(kind):
        words, behind = data.varints(at)
        return _compact_decimals(words.view(np.int64), kind), behind
    words, start = data.varints(at)
    lengths = words.view(np.int64)
    _check(lengths, ends - start)
    return _blobs(data, start, lengths, kind, RowEncoding.COMPACTED), start + lengths


def _blobs(data: PackedBytes, starts: Positions, lengths: Positions, kind: pa.DataType, encoding: RowEncoding) -> AnyArray:
    """Returns values that are stored with their length; `encoding` is that of rows among them."""
    if isinstance(kind, pa.Decimal128Type):
        return array_of(kind, len(starts), data.big_integers(starts, lengths))
    if isinstance(kind, pa.StructType):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        columns = decode_rows(data, starts, starts + lengths, [field.type for field in fields], encoding)
        return pa.StructArray.from_arrays(columns, fields=fields)
    if isinstance(kind, pa.MapType):
        return _decode_maps(data, starts, lengths, kind, encoding)
    if isinstance(kind, pa.ListType):
        offsets, elements = _decode_arrays(data, starts, lengths, kind.value_type, encoding)
        return pa.ListArray.from_arrays(offsets, elements, type=kind)
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return data.slices(starts, lengths).cast(kind)  # cast checks UTF-8, and the fixed size
    raise TypeError(f"no value of type {kind} is in a row")


def _decode_maps(data: PackedBytes, starts: Positions, lengths: Positions, kind: pa.MapType[Any, Any], encoding: RowEncoding) -> AnyArray:
    _check(np.full(len(starts), _ARRAY_COUNT_BYTES), lengths)
    key_lengths = data.read("<i4", starts).astype(np.int64)
    _check(key_lengths, lengths - _ARRAY_COUNT_BYTES)
    keys_at = starts + _ARRAY_COUNT_BYTES
    offsets, keys = _decode_arrays(data, keys_at, key_lengths, kind.key_type, encoding)
    value_lengths = lengths - _ARRAY_COUNT_BYTES - key_lengths
    value_offsets, values = _decode_arrays(data, keys_at + key_lengths, value_lengths, kind.item_type, encoding)
    if keys.null_count or not offsets.equals(value_offsets):
        raise ValueError("a map has a NULL for a key, or not as many values as keys")
    maps: AnyArray = pa.MapArray.from_arrays(offsets, keys, values, type=kind)  # type: ignore[call-overload]  # not in the stubs
    return maps


def _decode_arrays(
    data: PackedBytes, starts: Positions, lengths: Positions, kind: pa.DataType, encoding: RowEncoding
) -> tuple[pa.Int32Array, AnyArray]:
    """Returns where each array begins among the elements of all arrays, and these elements."""
    _check(np.full(len(starts), _ARRAY_COUNT_BYTES), lengths)
    counts = data.read("<i4", starts).astype(np.int64)
    _check(counts, lengths)  # checked before any multiplication; an element has at least one byte
    slots_at = _ARRAY_COUNT_BYTES + (counts + 31) // 32 * 4
    slot_bytes = _slot_bytes(kind)
    _check(slots_at + counts * slot_bytes, lengths)
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    places = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
    array_at, array_bytes = np.repeat(starts, counts), np.repeat(lengths, counts)
    nulls = data.bits(array_at + _ARRAY_COUNT_BYTES, places)
    at = np.repeat(starts + slots_at, counts) + places * slot_bytes
    if nulls.any():
        valid = ~nulls
        elements = _spread(_decode_slots(data, at[valid], array_at[valid], array_bytes[valid], kind, encoding), nulls)
    else:
        elements = _decode_slots(data, at, array_at, array_bytes, kind, encoding)
    return pa.array(offsets, pa.int32()), elements


def _decode_slots(
    data: PackedBytes, at: Positions, array_at: Positions, array_bytes: Positions, kind: pa.DataType, encoding: RowEncoding
) -> AnyArray:
    """Returns the elements with slots at `at`, none of which is NULL, of arrays that begin at `array_at`."""
    if (dtype := _FIXED.get(kind, _VARIABLE.get(kind))) is not None:
        return _numbers(data.read(dtype, at), kind)
    if _is_compact_decimal(kind):
        return _compact_decimals(data.read("<i8", at), kind)
    if isinstance(kind, pa.TimestampType) and kind.unit in _COMPACT_UNITS:
        return _timestamps(data.read("<i8", at), np.zeros(0, np.int64), kind)
    slots = data.read("<u8", at)
    places, low = (slots >> _HALF).view(np.int64), (slots & _LOW_HALF).view(np.int64)
    if isinstance(kind, pa.TimestampType):
        _check(places + 8, array_bytes)
        return _timestamps(data.read("<i8", array_at + places), low, kind)
    starts, lengths = array_at + places, low
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        inline = slots & _INLINE != 0
        starts = np.where(inline, at, starts)
        lengths = np.where(inline, (slots >> np.uint64(56) & np.uint64(0x7F)).view(np.int64), lengths)
    _check(starts + lengths, array_at + array_bytes)
    return _blobs(data, starts, lengths, kind, encoding)


def _slot_bytes(kind: pa.DataType) -> int:
    dtype = _FIXED.get(kind, _VARIABLE.get(kind))
    return 8 if dtype is None else np.dtype(dtype).itemsize


def _is_compact_decimal(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.Decimal128Type) and kind.precision <= _COMPACT_DIGITS


def _numbers(numbers: Numbers, kind: pa.DataType) -> AnyArray:
    array: AnyArray = pa.array(numbers != 0) if pa.types.is_boolean(kind) else pa.array(numbers).view(kind)
    return array


def _compact_decimals(unscaled: npt.NDArray[np.int64], kind: pa.DataType) -> AnyArray:
    words = np.empty((len(unscaled), 2), np.int64)
    words[:, 0] = unscaled
    words[:, 1] = unscaled >> 63
    return array_of(kind, len(unscaled), words)


def _timestamps(milliseconds: npt.NDArray[np.int64], nanoseconds: npt.NDArray[np.int64], kind: pa.TimestampType[Any, Any]) -> AnyArray:
    if kind.unit == "us":
        within = nanoseconds // 1_000
        beyond = (milliseconds < _FIRST_MS) | (milliseconds > _LAST_MS)
        beyond |= (milliseconds == _FIRST_MS) & (within < _FIRST_US_WITHIN) | (milliseconds == _LAST_MS) & (within > _LAST_US_WITHIN)
        if beyond.any():
            raise TimestampOutOfRange(int(milliseconds[beyond][0]))
    instants: Callable[[], npt.NDArray[np.int64]] = {
        "s": lambda: milliseconds // 1_000,
        "ms": lambda: milliseconds,
        "us": lambda: milliseconds * 1_000 + nanoseconds // 1_000,
        "ns": lambda: milliseconds * 1_000_000 + nanoseconds,
    }[kind.unit]
    array: AnyArray = pa.array(instants()).view(kind)
    return array


def _spread(values: AnyArray, nulls: npt.NDArray[np.bool_]) -> AnyArray:
    """Returns the values in their rows, with NULL in the other rows."""
    return values.take(pa.array(np.cumsum(~nulls) - 1, mask=nulls))


def _check(lengths: Positions, limits: Positions) -> None:
    """Raises ValueError unless all lengths are between 0 and their limits."""
    if ((lengths < 0) | (lengths > limits)).any():
        raise ValueError("a value does not end within its row")


BEYOND_MICROSECONDS = "holds a time that is out of range of a timestamp in microseconds"


def rows_within_range(data: PackedBytes, starts: Positions, ends: Positions, written: pa.Schema, encoding: RowEncoding) -> list[AnyArray]:
    """Decodes rows as `decode_rows` does. Raises UnwritableRow for the first row with a value out of range."""
    try:
        return decode_rows(data, starts, ends, written.types, encoding)
    except TimestampOutOfRange as error:
        refusals = [error]

        def is_good(start: int, stop: int) -> bool:
            try:
                decode_rows(data, starts[start:stop], ends[start:stop], written.types, encoding)
            except TimestampOutOfRange as refusal:
                refusals.append(refusal)
                return False
            return True

        row = first_failing(len(starts), is_good)
        raise UnwritableRow(row, written.names[refusals[-1].column], BEYOND_MICROSECONDS, str(refusals[-1])) from error
