"""Tables of real Iceberg files for `blast_radius.py`: many small files, which upkeep rounds rewrite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
from rounds.sources import FLIGHTS

from tiering.lake.base import Committable, LakeView, WriterInitContext
from tiering.lake.iceberg.lake import IcebergLake
from tiering.lake.marker import Marker, TieredRange
from tiering.lake.registry import local_lake_properties
from tiering.model.tables import BucketKey, TableInfo, TablePath, TableType

FILES = 40
"""Data files that a table has at the beginning, all of them far below the target size."""
ONLY = BucketKey(None, 0)


@dataclass(frozen=True)
class LargeTables:
    """`count` tables of one bucket and `rows` rows each, in the lake below `folder`. Their logs get no rows."""

    folder: Path
    count: int
    rows: int

    def lake(self) -> IcebergLake:
        return IcebergLake(local_lake_properties(self.folder))

    def infos(self, after_id: int, freshness_seconds: float, since: datetime) -> list[TableInfo]:
        """The tables, with ids above `after_id`."""
        return [
            TableInfo(
                after_id + number,
                TablePath("many", f"large{number:02d}"),
                TableType.LOG,
                FLIGHTS.schema,
                1,
                since,
                freshness_ms=int(freshness_seconds * 1_000),
                lake_enabled=True,
                lake_enabled_at=since,
                auto_compaction=True,
            )
            for number in range(1, self.count + 1)
        ]

    def write(self, tables: Sequence[TableInfo], cluster_id: str) -> None:
        """Writes all rows, in FILES commits a table."""
        self.folder.mkdir(exist_ok=True)
        lake = self.lake()
        for table in tables:
            view = lake.ensure_table(table)
            for number in range(FILES):
                view = self._commit(lake, table, view, number, cluster_id)

    def _commit(self, lake: IcebergLake, table: TableInfo, view: LakeView, number: int, cluster_id: str) -> LakeView:
        start, stop = (self.rows * place // FILES for place in (number, number + 1))
        factory, round_id = lake.tiering_factory(table), f"before-{number:04d}"
        writer = factory.create_writer(WriterInitContext(table, view.table_uuid, ONLY, None, round_id, "nonce"))
        written = start
        for batch in FLIGHTS.batches(stop - start, Path()):
            writer.write(_with_offsets(table, batch, written))
            written += batch.num_rows
        result = writer.complete(start, stop)
        base = None if view.marker is None else view.marker.round_id
        marker = Marker(cluster_id, table.table_id, view.table_uuid, round_id, 1, base, {ONLY: TieredRange(0, stop)})
        factory.create_committer().commit(Committable(round_id, (result,)), view, marker)
        return self.views([table], lake)[0]

    def views(self, tables: Sequence[TableInfo], lake: IcebergLake | None = None) -> list[LakeView]:
        """The tables as they are now. Raises SystemExit if one is gone."""
        views = [(lake or self.lake()).view(table.path) for table in tables]
        if None in views:
            raise SystemExit("a large table is gone")
        return [view for view in views if view is not None]


def _with_offsets(table: TableInfo, batch: pa.RecordBatch, start: int) -> pa.RecordBatch:
    """The rows as a split of the log gives them. The ids of flights tell their places."""
    offsets = np.arange(start, start + batch.num_rows)
    columns = [pa.array(offsets), *batch.columns[1:], pa.array(np.zeros(batch.num_rows, np.int32)), pa.array(offsets)]
    times = pa.array(offsets * 1_000).cast(pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_arrays([*columns, times], schema=table.lake_schema())
