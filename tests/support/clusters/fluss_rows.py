"""Writes what a Fluss server keeps of a primary-key table: rows in its formats, and KV snapshots of them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from rocksdict import Options, Rdict, WriteBatch

from tiering.cluster.fluss.kv.snapshot_files import SnapshotFile
from tiering.cluster.fluss.log.packed_rows import RowEncoding

_PACKED = {pa.bool_(): "?", pa.int8(): "b", pa.int16(): "<h", pa.float32(): "<f", pa.float64(): "<d"}
_INTEGERS = {pa.int32(): "<i", pa.date32(): "<i", pa.int64(): "<q"}
_NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def encode_value(schema_id: int, types: Sequence[pa.DataType], row: Sequence[Any]) -> bytes:
    """A value of a KV snapshot. Dates and timestamps are numbers, as Arrow has them."""
    return struct.pack("<h", schema_id) + encode_row(types, row)


def encode_row(types: Sequence[pa.DataType], row: Sequence[Any], encoding: RowEncoding = RowEncoding.COMPACTED) -> bytes:
    """A row. Dates and timestamps are numbers, as Arrow has them."""
    values = [(kind, value) for kind, value in zip(types, row, strict=True) if value is not None]
    if encoding is RowEncoding.COMPACTED:
        return _null_bits(row, 1) + b"".join(_column(kind, value) for kind, value in values)
    lengths, columns = b"", b""
    for kind, value in values:
        column = _indexed_column(kind, value)
        lengths += struct.pack("<i", len(column)) if _has_length(kind) else b""
        columns += column
    return _null_bits(row, 1) + lengths.ljust(4 * sum(map(_has_length, types)), b"\0") + columns


def _has_length(kind: Any) -> bool:
    """Whether an INDEXED row has the length of such values."""
    is_fixed = kind in _PACKED or kind in _INTEGERS or pa.types.is_timestamp(kind) or pa.types.is_fixed_size_binary(kind)
    return not is_fixed and not _is_compact_decimal(kind)


def _indexed_column(kind: Any, value: Any) -> bytes:
    if kind in _PACKED or kind in _INTEGERS:
        return struct.pack(_PACKED.get(kind, _INTEGERS.get(kind, "")), value)
    if pa.types.is_timestamp(kind):
        milliseconds, nanoseconds = _instant(kind, value)
        return struct.pack("<q", milliseconds) + (b"" if kind.unit in ("s", "ms") else struct.pack("<i", nanoseconds))
    return struct.pack("<q", _unscaled(kind, value)) if _is_compact_decimal(kind) else _blob(kind, value, RowEncoding.INDEXED)


def varint(number: int, bits: int) -> bytes:
    """The two's complement of a number, seven bits a byte."""
    rest, encoded = number & ((1 << bits) - 1), bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*encoded, rest])


def _null_bits(values: Sequence[Any], word_bytes: int) -> bytes:
    bits = sum(1 << place for place, value in enumerate(values) if value is None)
    words = -(-len(values) // (8 * word_bytes))
    return bits.to_bytes(words * word_bytes, "little")


def _column(kind: Any, value: Any) -> bytes:
    if kind in _PACKED:
        return struct.pack(_PACKED[kind], value)
    if kind in _INTEGERS:
        return varint(value, 8 * struct.calcsize(_INTEGERS[kind]))
    if pa.types.is_timestamp(kind):
        milliseconds, nanoseconds = _instant(kind, value)
        return varint(milliseconds, 64) + (b"" if kind.unit in ("s", "ms") else varint(nanoseconds, 32))
    if _is_compact_decimal(kind):
        return varint(_unscaled(kind, value), 64)
    blob = _blob(kind, value, RowEncoding.COMPACTED)
    return varint(len(blob), 32) + blob


def _blob(kind: Any, value: Any, encoding: RowEncoding) -> bytes:
    if pa.types.is_string(kind):
        return bytes(value, "utf-8")
    if pa.types.is_decimal(kind):
        unscaled = _unscaled(kind, value)
        return unscaled.to_bytes((unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1, "big", signed=True)
    if pa.types.is_map(kind):
        keys = _array(kind.key_type, [key for key, _ in value], encoding)
        return struct.pack("<i", len(keys)) + keys + _array(kind.item_type, [item for _, item in value], encoding)
    if pa.types.is_list(kind):
        return _array(kind.value_type, value, encoding)
    if pa.types.is_struct(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        return encode_row([field.type for field in fields], [value[field.name] for field in fields], encoding)
    return bytes(value)


def _array(kind: Any, values: Sequence[Any], encoding: RowEncoding) -> bytes:
    head = struct.pack("<i", len(values)) + _null_bits(values, 4)
    slot_bytes = struct.calcsize(_PACKED.get(kind, _INTEGERS.get(kind, "<q")))
    slots, behind = b"", b""
    for value in values:
        slot, variable = _slot(kind, value, len(head) + slot_bytes * len(values) + len(behind), encoding)
        slots += slot.ljust(slot_bytes, b"\0")
        behind += variable + bytes(-len(variable) % 8)
    return head + slots + behind


def _slot(kind: Any, value: Any, place: int, encoding: RowEncoding) -> tuple[bytes, bytes]:
    """Returns the bytes of an element in its slot, and at `place` behind all slots."""
    if value is None:
        return b"", b""
    if kind in _PACKED or kind in _INTEGERS:
        return struct.pack(_PACKED.get(kind, _INTEGERS.get(kind, "")), value), b""
    if _is_compact_decimal(kind):
        return struct.pack("<q", _unscaled(kind, value)), b""
    if pa.types.is_timestamp(kind):
        milliseconds, nanoseconds = _instant(kind, value)
        if kind.unit in ("s", "ms"):
            return struct.pack("<q", milliseconds), b""
        return struct.pack("<ii", nanoseconds, place), struct.pack("<q", milliseconds)
    blob = _blob(kind, value, encoding)
    if len(blob) < 8 and (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        return blob.ljust(7, b"\0") + bytes([0x80 | len(blob)]), b""
    return struct.pack("<ii", len(blob), place), blob


def _is_compact_decimal(kind: Any) -> bool:
    return pa.types.is_decimal(kind) and kind.precision <= 18


def _unscaled(kind: Any, value: Any) -> int:
    sign, digits, exponent = value.as_tuple()
    number = int("".join(map(str, digits))) * 10 ** (kind.scale + exponent)
    return -number if sign else number


def _instant(kind: Any, value: int) -> tuple[int, int]:
    if isinstance(value, tuple):  # milliseconds and nanoseconds within, as Fluss holds them: they reach further than Arrow's units
        return value
    return divmod(value * _NANOSECONDS[kind.unit], 1_000_000)


def write_kv_snapshot(folder: Path, values: Iterable[bytes], flush_every: int | None = None) -> tuple[SnapshotFile, ...]:
    """A snapshot with these values under `folder/kv`, as a server keeps it under its `remote.data.dir`. Keys are the values' places."""
    database_folder = folder / "kv" / "db" / "t-1" / "0" / "snap-0"
    database_folder.mkdir(parents=True)
    options = Options(raw_mode=True)
    options.set_disable_auto_compactions(True)
    database = Rdict(str(database_folder), options)
    batch = WriteBatch(raw_mode=True)
    for place, value in enumerate(values):
        batch.put(place.to_bytes(4, "big"), value)
        if flush_every and (place + 1) % flush_every == 0:
            database.write(batch)
            database.flush()
            batch = WriteBatch(raw_mode=True)
    database.write(batch)
    database.flush()
    database.close()
    kept = (
        path
        for path in sorted(database_folder.iterdir())
        if path.name.startswith(("CURRENT", "MANIFEST", "OPTIONS")) or path.suffix == ".sst"
    )
    return tuple(SnapshotFile(str(path), path.name) for path in kept)
