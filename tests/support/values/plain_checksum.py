"""The checksum of rows, a value after the other in plain Python: what `tiering.lake.proof.row_checksum` says of itself, version 1."""

from __future__ import annotations

import decimal
import hashlib
import math
import struct
from typing import Any

import pyarrow as pa

MASK = (1 << 64) - 1
STEP = 0x9E3779B97F4A7C15


def plain_checksum(rows: pa.Table) -> int:
    """Takes long: for few rows."""
    total = 0
    for number in range(rows.num_rows):
        row = sum(value_hash(rows.column(name)[number], name_seed(name)) for name in rows.column_names)
        total += mix(row + STEP)
    return total & MASK


def name_seed(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")


def mix(word: int) -> int:
    """SplitMix64."""
    word &= MASK
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB & MASK
    return word ^ (word >> 31)


def seeded(word: int, seed: int) -> int:
    return mix(word * STEP + seed)


def value_hash(value: Any, seed: int) -> int:
    """Returns the hash of an Arrow scalar."""
    if not value.is_valid:
        return 0
    kind = value.type
    if pa.types.is_decimal(kind):
        unscaled = int(value.as_py().scaleb(kind.scale, decimal.Context(prec=40))) & ((1 << 128) - 1)
        return mix(seeded(unscaled >> 64, seed) + (unscaled & MASK))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _text_hash(value.as_buffer().to_pybytes(), seed)
    if pa.types.is_struct(kind):
        return mix(seed + sum(value_hash(value[field.name], seed ^ name_seed(field.name)) for field in kind) + STEP)
    if pa.types.is_map(kind):
        return _list_hash([_entry_hash(key, item, seed) for key, item in zip(*value.values.flatten(), strict=True)], seed)
    if pa.types.is_list(kind):
        return _list_hash([value_hash(element, seed) for element in value.values], seed)
    if pa.types.is_floating(kind):
        number = math.nan if math.isnan(value.as_py()) else value.as_py()
        return seeded(struct.unpack("<Q", struct.pack("<d", number))[0], seed)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return seeded(value.value, seed)
    return seeded(int(value.as_py()), seed)


def _text_hash(text: bytes, seed: int) -> int:
    words = [int.from_bytes(text[first : first + 8], "little") for first in range(0, len(text), 8)]
    return (seeded(len(text), seed) + sum(seeded(word, seed ^ place) for place, word in enumerate(words, 1))) & MASK


def _list_hash(elements: list[int], seed: int) -> int:
    return mix(seeded(len(elements), seed) + sum(mix(element + place * STEP) for place, element in enumerate(elements, 1)))


def _entry_hash(key: Any, item: Any, seed: int) -> int:
    return mix(value_hash(key, seed) + mix(value_hash(item, seed ^ STEP) + STEP))
