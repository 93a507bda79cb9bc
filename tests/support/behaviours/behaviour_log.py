"""A log table of any backend, beside a model made from what was appended.

After every round the lake must hold exactly the model's rows below the offsets of its marker: each once, with every value, NULL in
columns that came later.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from support.behaviours.behaviour_world import Row, TieredTable, placed
from tiering.cluster.writable import TableSpec
from tiering.model.tables import BucketKey

COLUMNS = pa.schema([pa.field("region", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])


@dataclass
class LogBehaviour(TieredTable):
    """See the module. `rows` has the log of each living bucket, `left` the lake's rows of partitions that are gone."""

    partitioned: bool
    bucket_keys: tuple[str, ...]
    rows: dict[BucketKey, list[Row | None]] = field(default_factory=dict)
    left: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._ids = itertools.count()

    def spec(self) -> TableSpec:
        partition_keys = ("region",) if self.partitioned else ()
        return TableSpec(COLUMNS, 2, self.bucket_keys, {"table.datalake.enabled": "true"}, (), partition_keys)

    def lengths(self) -> Mapping[BucketKey, int]:
        return {bucket: len(rows) for bucket, rows in self.rows.items()}

    def append(self, rows: Sequence[tuple[str, Row]]) -> None:
        """Rows of (region, other values); ids are given here, so that every row is one of its kind."""
        schema = self.table.schema
        whole = [{"region": region, "id": next(self._ids), **values} for region, values in rows]
        ranges = self.cluster.append(self.path, pa.Table.from_pylist(whole, schema=schema), self.writer(), 0)
        appended: list[Row | None] = []
        for appended_range in ranges:
            log = self.rows.setdefault(appended_range.bucket, [])
            assert len(log) == appended_range.starting_offset
            new = self.log(appended_range.bucket, appended_range.starting_offset, appended_range.stopping_offset)
            log.extend(new)
            appended += new
        expected = [{name: row.get(name) for name in schema.names} for row in whole]
        assert sorted(appended, key=_id) == expected, (appended, expected)

    def drop_partition(self, region: str) -> None:
        """Drops a partition. Its rows in the lake stay; other rows are lost."""
        tiered = self.drop(region)
        living = self.cluster.offsets(self.table)
        for bucket in [bucket_key for bucket_key in self.rows if bucket_key not in living]:
            self.left += _placed(bucket, self.rows.pop(bucket)[: tiered.get(bucket, 0)])

    def check(self) -> None:
        """The lake holds the model's rows below the marker's offsets, each once, and nothing else."""
        if self.marker() is not None:
            mine = [row for bucket, stop in self.tiered.items() for row in _placed(bucket, self.rows.get(bucket, [])[:stop])]
            self.assert_lake_holds(mine + self.left)


def _id(row: Row | None) -> int:
    assert row is not None
    number: int = row["id"]
    return number


def _placed(bucket: BucketKey, rows: Sequence[Row | None]) -> list[Row]:
    return [placed(bucket, row, offset) for offset, row in enumerate(rows) if row is not None]
