"""Tables of values that are odd in every way that their types allow, drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from support.values.any_values import build

DAYS = (-(2**31), -719_163, -719_162, -1, 0, 2_932_896, 2_932_897, 2**31 - 1)
"""The ends of the type and of the years 1 to 9999."""
MICROSECONDS = (-(2**63), -62_135_596_800_000_001, -62_135_596_800_000_000, -1, 0, 253_402_300_800_000_000, 2**63 - 1)
FLOATS = (float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 5e-324, 1.5)
TEXTS = ("", " ", "\x00", "'", "NULL", "a\nb", "\U0010ffff" * 20, "x" * 300_000)
LARGEST = 38
"""Digits of a decimal."""


@dataclass(frozen=True)
class OddValues:
    """A kind of such tables: a key and other columns. `draw` makes a value of each, by name; None is a NULL."""

    schema: pa.Schema
    draw: Mapping[str, Callable[[random.Random], Any]]
    key: str = "id"
    shown_wrong: bool = False
    """Whether readers of the tests show some of them wrong, or fail: then validations alone compare."""

    def rows(self, rng: random.Random, count: int, ids: range) -> pa.RecordBatch:
        """Keys may come again where they are drawn."""
        columns = {name: [draw(rng) for _ in range(count)] for name, draw in self.draw.items()}
        columns.setdefault("id", list(ids))
        arrays = [build(field.type, columns[field.name]) for field in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _choice(values: tuple[Any, ...], *, nulls: bool = True) -> Callable[[random.Random], Any]:
    return lambda rng: rng.choice((*values, None) if nulls else values)


def _with_id(*columns: tuple[str, pa.DataType, Callable[[random.Random], Any]], shown_wrong: bool = False) -> OddValues:
    fields = [pa.field("id", pa.int64(), nullable=False), *(pa.field(name, kind) for name, kind, _ in columns)]
    return OddValues(pa.schema(fields), {name: draw for name, _, draw in columns}, shown_wrong=shown_wrong)


def decimal_keys(rng: random.Random) -> OddValues:
    """Keys of any width."""
    precision = rng.randint(1, LARGEST)
    scale, largest = rng.randint(0, precision), 10**precision - 1
    numbers = (-largest, -1, 0, 1, largest, rng.randint(-largest, largest))
    values = tuple({Context(prec=40).scaleb(Decimal(number), -scale) for number in sorted(set(numbers))})
    schema = pa.schema([pa.field("key", pa.decimal128(precision, scale), nullable=False), pa.field("id", pa.int64())])
    return OddValues(schema, {"key": _choice(tuple(sorted(values)), nulls=False)}, "key")


def far_dates(rng: random.Random) -> OddValues:
    """Draws dates of all years, also outside of 1 to 9999, for keys, too."""
    kinds = {"day": (pa.date32(), DAYS), "at": (pa.timestamp("us"), MICROSECONDS), "zoned": (pa.timestamp("us", "UTC"), MICROSECONDS)}
    key = rng.choice(("id", *kinds))
    fields = [pa.field("id", pa.int64(), nullable=key != "id"), *(pa.field(name, kind, name != key) for name, (kind, _) in kinds.items())]
    draws = {name: _choice(values, nulls=name != key) for name, (_, values) in kinds.items()}
    return OddValues(pa.schema(fields), draws, key, shown_wrong=True)  # pypaimon merges rows as Python has them, whose years end at 9999


def odd_floats(_: random.Random) -> OddValues:
    """NaN, infinities, -0.0."""
    return _with_id(("double", pa.float64(), _choice(FLOATS)), ("single", pa.float32(), _choice(FLOATS)))


def text_keys(_: random.Random) -> OddValues:
    """Empty ones, huge ones, and such as mean something elsewhere."""
    schema = pa.schema([pa.field("key", pa.string(), nullable=False), pa.field("bytes", pa.binary()), pa.field("id", pa.int64())])
    draws = {"key": _choice(TEXTS, nulls=False), "bytes": _choice((b"", b"\x00", b"\xff" * 20))}
    return OddValues(schema, draws, "key")


def nested_nulls(_: random.Random) -> OddValues:
    """At every depth."""
    inner = pa.struct([pa.field("number", pa.int32()), pa.field("words", pa.list_(pa.field("element", pa.string())))])
    values = (
        [],
        [None],
        [{"number": None, "words": None}],
        [{"number": 1, "words": [None, ""]}, None],
        [{"number": 2, "words": []}],
    )
    return _with_id(
        ("deep", pa.list_(pa.field("element", inner)), _choice(values)), shown_wrong=True
    )  # pyiceberg reads a NULL list as an empty one


def repeated_map_keys(_: random.Random) -> OddValues:
    """At times a key comes twice."""
    values = ([], [("a", 1)], [("a", None), ("b", 2)], [("a", 1), ("a", 2)])
    return _with_id(("counts", pa.map_(pa.string(), pa.int32()), _choice(values)))
