"""A real Iceberg lake in a folder, and rounds driven by hand against it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog

from tiering.lake.base import Committable, LakeView, WriterInitContext
from tiering.lake.iceberg.commit.committer import IcebergCommitter
from tiering.lake.iceberg.factory import IcebergTieringFactory
from tiering.lake.iceberg.lake import IcebergLake
from tiering.lake.marker import Marker, TieredRange
from tiering.lake.registry import local_lake_properties
from tiering.lake.rules.base_check import ExpectedLake
from tiering.lake.user_settings import CATALOG_NAME
from tiering.model.tables import BucketKey, TableInfo, TablePath, TableType

CREATED = datetime(2024, 1, 1, tzinfo=UTC)
CLUSTER_ID = "11111111-1111-1111-1111-111111111111"
COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string()), pa.field("small", pa.int16())])


def bucket(bucket_id: int, partition_id: int | None = None) -> BucketKey:
    return BucketKey(partition_id, bucket_id)


@dataclass(frozen=True)
class PreparedRound:
    """A round whose files are written and whose commit was not sent yet."""

    table: TableInfo
    factory: IcebergTieringFactory
    committable: Committable
    base: LakeView
    marker: Marker

    def committer(self) -> IcebergCommitter:
        return self.factory.create_committer()

    def commit(self, base: LakeView | None = None) -> int:
        return self.committer().commit(self.committable, base or self.base, self.marker)

    def with_catalog(self, wrap: Callable[[Any], Any]) -> PreparedRound:
        """Returns the round with commits through `wrap(catalog)`."""
        return replace(self, factory=replace(self.factory, catalog=wrap(self.factory.catalog)))


class ObservedCatalog:
    """Passes everything on and counts commits; with an `error`, commits fail, after they landed or instead."""

    def __init__(self, catalog: Any, error: Exception | None = None, *, lands: bool = True) -> None:
        self._catalog = catalog
        self._error = error
        self._lands = lands
        self.requests: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def commit_table(self, *arguments: Any) -> Any:
        self.requests.append(arguments)
        response = self._catalog.commit_table(*arguments) if self._lands else None
        if self._error is not None:
            raise self._error
        return response


class LakeKit:
    """One lake and the tables of one cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.properties = local_lake_properties(folder)
        self.lake = IcebergLake(self.properties)

    def catalog(self) -> Catalog:
        """The catalog of a user, beside Lakeward."""
        return load_catalog(CATALOG_NAME, **self.properties)

    def table(
        self, name: str = "orders", table_id: int = 7, schema: pa.Schema = COLUMNS, bucket_count: int = 2, **more: object
    ) -> TableInfo:
        return TableInfo(table_id, TablePath("sales", name), TableType.LOG, schema, bucket_count, CREATED, **more)  # type: ignore[arg-type]

    def rows(self, table: TableInfo, key: BucketKey, start: int, stop: int) -> pa.RecordBatch:
        """Records `[start, stop)` of one bucket of a table with COLUMNS; ids are unique over buckets."""
        offsets = np.arange(start, stop)
        columns = {
            "id": pa.array(offsets * 10 + key.bucket_id),
            "name": pa.array([None if offset % 7 == 0 else f"name {offset}" for offset in offsets], pa.string()),
            "small": pa.array((offsets % 100).astype(np.int16)),
            "__bucket": pa.array(np.full(stop - start, key.bucket_id, np.int32)),
            "__offset": pa.array(offsets),
            "__timestamp": pa.array(
                [datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=int(offset)) for offset in offsets], pa.timestamp("us", "UTC")
            ),
        }
        return pa.RecordBatch.from_arrays(list(columns.values()), schema=table.lake_schema())

    def prepare(
        self,
        table: TableInfo,
        round_id: str,
        stops: Mapping[BucketKey, int],
        *,
        lake: IcebergLake | None = None,
        view: LakeView | None = None,
        partition_name: str | None = None,
    ) -> PreparedRound:
        """Writes everything between the lake's marker (or `view`'s) and `stops`."""
        lake = lake or self.lake
        view = view or lake.ensure_table(table)
        factory = lake.tiering_factory(table)
        before = {} if view.marker is None else dict(view.marker.buckets)
        results = []
        for key, stop in stops.items():
            start = before[key].tiered if key in before else 0
            writer = factory.create_writer(WriterInitContext(table, view.table_uuid, key, partition_name, round_id, f"nonce-of-{round_id}"))
            if stop > start:
                writer.write(self.rows(table, key, start, stop))
            results.append(writer.complete(start, stop))
        after = {**before, **{key: TieredRange(before[key].start if key in before else 0, stop) for key, stop in stops.items()}}
        base_round = None if view.marker is None else view.marker.round_id
        marker = Marker(CLUSTER_ID, table.table_id, view.table_uuid, round_id, 1, base_round, after)
        return PreparedRound(table, factory, Committable(round_id, tuple(results)), view, marker)

    def user_appends(self, table: TableInfo, offset: int = 900) -> None:
        """A foreign commit: one row of bucket 0, with an offset no round has."""
        rows = self.rows(table, bucket(0), offset, offset + 1)
        self.catalog().load_table(str(table.path)).append(pa.Table.from_batches([rows]))

    def tier(self, table: TableInfo, round_id: str, stops: Mapping[BucketKey, int]) -> LakeView:
        """A whole round; the lake afterwards."""
        self.prepare(table, round_id, stops).commit()
        return self.view(table)

    def view(self, table: TableInfo) -> LakeView:
        view = self.lake.view(table.path)
        assert view is not None
        return view

    def known(self, table: TableInfo, view: LakeView | None = None, **more: object) -> ExpectedLake:
        uuid = None if view is None else view.table_uuid
        return ExpectedLake(CLUSTER_ID, table.table_id, uuid, **{"passed_head": None, **more})  # type: ignore[arg-type]

    def offsets_in_lake(self, table: TableInfo) -> list[tuple[int, int]]:
        """(bucket, offset) of every row, sorted: each once if nothing was lost or doubled."""
        rows = self.catalog().load_table(str(table.path)).scan(selected_fields=("__bucket", "__offset")).to_arrow().to_pylist()
        return sorted((row["__bucket"], row["__offset"]) for row in rows)
