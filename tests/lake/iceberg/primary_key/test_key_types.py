"""Keys of every type and width, alone and in pairs: several rounds of inserts, updates and deletes, and the lake row by row."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.types import NestedField

from support.clusters.primary_key_table import PrimaryKeyTable, Row, primary_key_info
from support.lakes.lake_kit import CREATED
from support.values.plain_rows import plain_rows
from support.values.unaligned import unaligned
from tiering.lake.iceberg.primary_key.parquet_files import key_rows
from tiering.lake.iceberg.schema.types import iceberg_type
from tiering.lake.writing.keys import plain
from tiering.model.tables import BucketKey

COUNT = 24


def spread(low: int, high: int) -> list[int]:
    """Whole numbers from the one end to the other, both included, with many around 0."""
    step = (high - low) // (COUNT // 2)
    return sorted({low, high, *range(low, high, step), *range(max(-(COUNT // 4), low), min(COUNT // 4, high))})


KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), spread(-(2**7), 2**7 - 1)),
    "int16": (pa.int16(), spread(-(2**15), 2**15 - 1)),
    "int": (pa.int32(), spread(-(2**31), 2**31 - 1)),
    "long": (pa.int64(), spread(-(2**63), 2**63 - 1)),
    **{
        f"decimal({precision},{scale})": (
            pa.decimal128(precision, scale),
            [Decimal(f"{number}E-{scale}") for number in spread(-(10**precision) + 1, 10**precision - 1)],
        )
        for precision, scale in ((2, 0), (9, 2), (10, 0), (18, 18), (18, 4), (19, 4), (38, 0), (38, 38))
    },
    "date": (pa.date32(), [date.fromordinal(number) for number in spread(1, date.max.toordinal())]),
    "date of any year": (pa.date32(), spread(-(2**31), 2**31 - 1)),
    "timestamp": (pa.timestamp("us"), [datetime(1, 1, 1), datetime.max, *(datetime(1969, 1, 1, microsecond=n) for n in range(COUNT))]),
    "timestamp of any year": (pa.timestamp("us"), spread(-(2**63) + 2, 2**63 - 2)),
    "timestamptz of any year": (pa.timestamp("us", "UTC"), spread(-(2**63) + 2, 2**63 - 2)),
    "string": (pa.string(), ["", "\U0010ffff" * 20, "\ue000", *("grün" * n for n in range(1, COUNT))]),
    "binary": (pa.binary(), [b"", b"\xff" * 40, *(bytes([n, 255 - n]) for n in range(COUNT))]),
}


class Story:
    """A table with `v` beside its keys, rounds over it, and what has to be in the lake."""

    def __init__(self, kit: Any, kinds: dict[str, pa.DataType], keys: list[tuple[Any, ...]]) -> None:
        fields = [pa.field(name, kind, nullable=False) for name, kind in kinds.items()]
        info = primary_key_info("typed", pa.schema([*fields, pa.field("v", pa.int64())]), tuple(kinds), bucket_keys=(), bucket_count=1)
        if len(kinds) == 1:
            info = primary_key_info("typed", info.schema, tuple(kinds), bucket_count=1)
        self.table = Unaligned(kit, info, lambda row: (BucketKey(None, 0), None))
        self.keys = keys
        self.chance = random.Random(7)
        self.rounds = 0

    def rows(self, keys: list[tuple[Any, ...]]) -> list[Row]:
        return [{**dict(zip(self.table.info.primary_key, key, strict=True)), "v": self.chance.randrange(1000)} for key in keys]

    def tier(self) -> None:
        self.rounds += 1
        self.table.tier(f"r{self.rounds}")
        expected = pa.Table.from_pylist(self.table.expected_rows(), schema=self.table.info.lake_schema())
        lake = self.table.kit.catalog().load_table(str(self.table.info.path)).scan().to_arrow()
        assert sorted(plain_rows(lake.select(expected.column_names)), key=repr) == sorted(plain_rows(expected), key=repr)


class Unaligned(PrimaryKeyTable):
    def batch(self, key: BucketKey, start: int, stop: int) -> pa.RecordBatch:
        return unaligned(super().batch(key, start, stop), 8)

    def expected_rows(self) -> list[Row]:
        """Returns the same rows as `expected`, in any order: not all keys can be sorted."""
        living: dict[tuple[Any, ...], Row] = {}
        for bucket, log in self.logs.items():
            for offset, change in enumerate(log):
                when = {"__bucket": bucket.bucket_id, "__offset": offset, "__timestamp": CREATED + timedelta(seconds=offset)}
                living.pop(self._key(change.row), None)
                if change.kind.name in ("INSERT", "UPDATE_AFTER"):
                    living[self._key(change.row)] = {**change.row, **when}
        return list(living.values())


def play(story: Story) -> None:
    third = len(story.keys) // 3
    story.table.put(*story.rows(story.keys[: 2 * third]))
    story.tier()
    story.table.put(*story.rows(story.keys[third:]))  # updates and inserts, the largest key among them
    story.table.delete(*story.rows(story.keys[:2]))  # the smallest
    story.tier()
    story.table.delete(*story.rows(story.keys[-2:]))
    story.table.put(*story.rows(story.keys[:1]))
    story.tier()
    story.table.put(*story.rows(story.chance.sample(story.keys, 5)))
    story.table.delete(*story.rows(story.chance.sample(story.keys, 5)))
    story.tier()


@pytest.mark.in_turn("any_size")
@pytest.mark.usefixtures("any_size")
@pytest.mark.parametrize("name", KEYS)
def test_rounds_over_a_key_of_every_type(kit: Any, name: str) -> None:
    kind, values = KEYS[name]
    play(Story(kit, {"k": kind}, [(value,) for value in values]))


@pytest.mark.parametrize(("first", "second"), list(zip(KEYS, [*list(KEYS)[5:], *list(KEYS)[:5]], strict=True)))
def test_rounds_over_a_composite_key_with_every_type(kit: Any, first: str, second: str) -> None:
    kinds = {"a": KEYS[first][0], "b": KEYS[second][0]}
    pairs = [(value, other) for value in KEYS[first][1][:: COUNT // 5] for other in KEYS[second][1][:: COUNT // 5]]
    play(Story(kit, kinds, pairs))


def written(folder: Path, column: pa.Array[Any], kind: pa.DataType) -> tuple[pq.ParquetFile, NestedField]:
    """A file with one key column, as our writer stores it."""
    field = pa.field("k", column.type, nullable=False, metadata={b"PARQUET:field_id": b"1"})
    pq.write_table(pa.table([column], schema=pa.schema([field])), folder / "keys.parquet", store_decimal_as_integer=True)
    return pq.ParquetFile(folder / "keys.parquet"), NestedField(1, "k", iceberg_type("k", kind, lambda: 2), required=True)


@pytest.mark.parametrize("name", KEYS)
def test_statistics_tell_that_a_key_cannot_be_in_a_row_group(tmp_path: Path, name: str) -> None:
    kind, values = KEYS[name]
    ordered = sorted(values)
    lake_kind = pa.int32() if kind in (pa.int8(), pa.int16()) else kind
    column = pa.array(ordered, lake_kind)
    third = len(ordered) // 3
    parquet, key = written(tmp_path, column.slice(third, third), lake_kind)

    def matches(first: int, last: int) -> int:
        bounds = [(plain(column[first]), plain(column[last]))]
        return sum(len(rows.keys[0]) for rows in key_rows(parquet, 0, [key], bounds))

    assert matches(0, third - 1) == matches(2 * third, len(ordered) - 1) == 0
    assert matches(0, third) == matches(third, third) == matches(2 * third - 1, len(ordered) - 1) == third


def test_statistics_that_cannot_be_read_mean_that_any_key_may_be_there(tmp_path: Path) -> None:
    no_text = pa.array([b"a\xff", b"b\xff"], pa.binary()).view(pa.string())
    parquet, key = written(tmp_path, no_text, pa.string())
    assert [len(rows.keys[0]) for rows in key_rows(parquet, 0, [key], [("x", "z")])] == [2]


def test_statistics_in_another_unit_mean_that_any_key_may_be_there(tmp_path: Path) -> None:
    parquet, key = written(tmp_path, pa.array([1, 2], pa.timestamp("ms")), pa.timestamp("us"))
    assert [len(rows.keys[0]) for rows in key_rows(parquet, 0, [key], [(1_000, 1_000)])] == [2]
