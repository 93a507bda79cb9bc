"""A primary-key table: its log, the lake table that rounds make of it, and the rows that the lake has to hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.transforms import BucketTransform

from support.lakes.lake_kit import CLUSTER_ID, CREATED, LakeKit, PreparedRound
from tiering.lake.base import Committable, LakeView, WriteResult, WriterInitContext
from tiering.lake.iceberg.lake import IcebergLake
from tiering.lake.iceberg.schema.types import iceberg_type
from tiering.lake.marker import Marker, TieredRange
from tiering.lake.proof.bucket_proof import advanced
from tiering.lake.table_options import LAYOUT
from tiering.lake.writing.serializers import deserialize_write_result, serialize_write_result
from tiering.library_guards.bucket_hash import combined_bucket_ids
from tiering.model.tables import SNAPSHOT_OFFSET, BucketKey, ChangeType, TableInfo, TablePath, TableType

PRIMARY_KEY_SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string()), pa.field("small", pa.int16())])

CITIES = ("Bern", "Lyon", "Oslo")
TWO_KEYS_SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("city", pa.string(), nullable=False), pa.field("name", pa.string())]
)
PARTITIONED_SCHEMA = pa.schema([*TWO_KEYS_SCHEMA, pa.field("region", pa.string(), nullable=False)])
REGIONS = {"north": 11, "south": 12}

Row = dict[str, Any]


@dataclass(frozen=True)
class Change:
    """One record of a log."""

    kind: ChangeType
    row: Row


def primary_key_info(
    name: str, schema: pa.Schema = PRIMARY_KEY_SCHEMA, primary_key: tuple[str, ...] = ("id",), bucket_count: int = 2, **more: Any
) -> TableInfo:
    path = TablePath("sales", name)
    return TableInfo(8, path, TableType.PRIMARY_KEY, schema, bucket_count, CREATED, primary_key=primary_key, **more)


class PrimaryKeyTable:
    """`put` and `delete` write the log as a cluster does; `tier` runs a round over what is new in it."""

    def __init__(
        self, kit: LakeKit, info: TableInfo, place_of: Callable[[Row], tuple[BucketKey, str | None]] | None = None, batch_rows: int = 50
    ) -> None:
        self.kit = kit
        self.info = info
        self.logs: dict[BucketKey, list[Change]] = {}
        self.partition_names: dict[BucketKey, str | None] = {}
        self._now: dict[tuple[Any, ...], Row] = {}
        self._place_of = place_of or self._hashed
        self._nonces = 0
        self._batch_rows = batch_rows

    # --- the source

    def put(self, *rows: Row) -> None:
        """Inserts or updates."""
        for row in rows:
            before = self._now.get(self._key(row))
            if before is None:
                self._log(ChangeType.INSERT, row)
            else:
                self._log(ChangeType.UPDATE_BEFORE, before)
                self._log(ChangeType.UPDATE_AFTER, row)
            self._now[self._key(row)] = row

    def delete(self, *rows: Row) -> None:
        """Rows whose key does not exist are left out, as a cluster does."""
        for row in rows:
            before = self._now.pop(self._key(row), None)
            if before is not None:
                self._log(ChangeType.DELETE, before)

    def rows(self, count: int, start: int = 0, name: str = "name") -> list[Row]:
        """Rows of a table with PRIMARY_KEY_SCHEMA."""
        return [
            {"id": number, "name": None if number % 7 == 0 else f"{name} {number}", "small": number % 100}
            for number in range(start, start + count)
        ]

    # --- the lake

    def tier(self, round_id: str, stops: Mapping[BucketKey, int] | None = None) -> LakeView:
        """A whole round; the lake afterwards."""
        self.prepare(round_id, stops).commit()
        return self.kit.view(self.info)

    def prepare(
        self, round_id: str, stops: Mapping[BucketKey, int] | None = None, view: LakeView | None = None, lake: IcebergLake | None = None
    ) -> PreparedRound:
        """A round up to `stops` (default: the logs' ends) that is not committed yet."""
        lake = lake or self.kit.lake
        view = view or lake.ensure_table(self.info)
        before = {} if view.marker is None else dict(view.marker.buckets)
        stops = stops or {key: len(log) for key, log in self.logs.items()}
        starts = {key: before[key].tiered if key in before else 0 for key in stops}
        bases = lake.bucket_files(self.info, view, {key: self.partition_names[key] for key in stops})
        results = [self.write(lake, view, round_id, key, starts[key], stop, bases.get(key, b"")) for key, stop in stops.items()]
        after = {**before, **{key: TieredRange(0, stop) for key, stop in stops.items()}}
        base_round = None if view.marker is None else view.marker.round_id
        proofs = advanced({} if view.marker is None else view.marker.proofs, before, after, results, round_id)
        marker = Marker(CLUSTER_ID, self.info.table_id, view.table_uuid, round_id, 1, base_round, after, proofs=proofs)
        factory = lake.tiering_factory(self.info)
        return PreparedRound(self.info, factory, Committable(round_id, tuple(results)), view, marker)

    def write(
        self,
        lake: IcebergLake,
        view: LakeView,
        round_id: str,
        key: BucketKey,
        start: int,
        stop: int,
        base: bytes,
        *,
        replaces: bool = False,
    ) -> WriteResult:
        """One bucket's task: small batches, and the result carried as bytes."""
        factory = lake.tiering_factory(self.info)
        self._nonces += 1
        context = WriterInitContext(
            self.info, view.table_uuid, key, self.partition_names[key], round_id, f"n{self._nonces}", base, replaces
        )
        writer = factory.create_writer(context)
        for first in range(start, stop, self._batch_rows):
            writer.write(self.batch(key, first, min(first + self._batch_rows, stop)))
        return deserialize_write_result(serialize_write_result(writer.complete(start, stop)))

    def batch(self, key: BucketKey, start: int, stop: int) -> pa.RecordBatch:
        """Records `[start, stop)` of a bucket's log, as a split reads them."""
        changes = self.logs[key][start:stop]
        return self.encode(key, [(change.kind, offset, change.row) for offset, change in enumerate(changes, start)])

    def snapshot_batch(self, key: BucketKey, rows: Sequence[Row]) -> pa.RecordBatch:
        """Rows of a KV snapshot."""
        return self.encode(key, [(ChangeType.INSERT, SNAPSHOT_OFFSET, row) for row in rows])

    def encode(self, key: BucketKey, records: Sequence[tuple[int, int, Row]]) -> pa.RecordBatch:
        """(change type, offset, row) as a batch of `TableInfo.read_schema`."""
        rows = [
            {
                **{name: row.get(name) for name in self.info.schema.names},
                "__bucket": key.bucket_id,
                "__offset": offset,
                "__timestamp": CREATED + timedelta(seconds=offset),
                "__change_type": int(kind),
            }
            for kind, offset, row in records
        ]
        return pa.RecordBatch.from_pylist(rows, schema=self.info.read_schema())

    # --- what the lake has to hold

    def expected(self, marker: Marker | None = None) -> list[Row]:
        """The rows at `marker`'s offsets (default: the lake's), each with the offset of its last change; sorted by key."""
        marker = marker or self.kit.view(self.info).marker
        assert marker is not None
        rows_by_key: dict[tuple[Any, ...], Row] = {}
        for bucket, tiered in marker.buckets.items():
            for offset, change in enumerate(self.logs[bucket][: tiered.tiered]):
                key = self._key(change.row)
                if change.kind is ChangeType.DELETE:
                    rows_by_key.pop(key)
                elif change.kind is not ChangeType.UPDATE_BEFORE:
                    rows_by_key[key] = {name: change.row.get(name) for name in self.info.schema.names}
                    if LAYOUT.of(self.info.properties).has_row_offsets:
                        rows_by_key[key] |= {"__bucket": bucket.bucket_id, "__offset": offset, "__timestamp": _time(offset)}
        return [rows_by_key[key] for key in sorted(rows_by_key)]

    def in_lake(self) -> list[Row]:
        """Rows that pyiceberg reads, sorted by key."""
        scanned = self.kit.catalog().load_table(str(self.info.path)).scan().to_arrow().to_pylist()
        return sorted(scanned, key=self._key)

    def check(self) -> None:
        """The lake holds just the right rows, and the view counts them."""
        expected = self.expected()
        assert self.in_lake() == expected
        assert self.kit.view(self.info).records == len(expected)

    def summary(self) -> dict[str, str]:
        """Summary of the head, with its operation."""
        snapshot = self.kit.catalog().load_table(str(self.info.path)).current_snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        return {"operation": snapshot.summary.operation.value, **snapshot.summary.additional_properties}

    def _log(self, kind: ChangeType, row: Row) -> None:
        bucket, name = self._place_of(row)
        self.partition_names[bucket] = name
        self.logs.setdefault(bucket, []).append(Change(kind, row))

    def _key(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.info.primary_key)

    def _hashed(self, row: Row) -> tuple[BucketKey, str | None]:
        if len(self.info.primary_key) > 1:
            columns = [pa.array([row[name]], self.info.schema.field(name).type) for name in self.info.primary_key]
            return BucketKey(None, int(combined_bucket_ids(columns, self.info.bucket_count)[0])), None
        (key,) = self.info.primary_key
        kind = self.info.schema.field(key).type
        transform = BucketTransform(self.info.bucket_count).pyarrow_transform(iceberg_type(key, kind, lambda: 0))
        lake_kind = pa.int32() if kind in (pa.int8(), pa.int16()) else kind
        return BucketKey(None, transform(pa.array([row[key]], lake_kind))[0].as_py()), None


def with_columns(table: PrimaryKeyTable, *fields: pa.Field[Any]) -> None:
    """Adds nullable columns at the source."""
    names = tuple(field.name for field in fields)
    table.info = replace(table.info, schema=pa.schema([*table.info.schema, *fields]), added_columns=(*table.info.added_columns, *names))


def _time(offset: int) -> datetime:
    return datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=offset)


class TwoKeysTable(PrimaryKeyTable):
    """A clean table with two bucket keys, (id, city): its buckets share partition values.

    With `is_partitioned` the region is part of the key, and the table partitioned by it.
    """

    def __init__(self, kit: LakeKit, name: str = "places", bucket_count: int = 2, *, is_partitioned: bool = False) -> None:
        clean = {"table.datalake.layout": "clean"}
        if is_partitioned:
            info = primary_key_info(
                name, PARTITIONED_SCHEMA, ("id", "city", "region"), bucket_count, partition_keys=("region",), properties=clean
            )
        else:
            info = primary_key_info(name, TWO_KEYS_SCHEMA, ("id", "city"), bucket_count, properties=clean)
        super().__init__(kit, info, lambda row: (self.bucket_of(row), row.get("region")))

    def rows(self, count: int, start: int = 0, name: str = "name") -> list[Row]:
        """Rows whose city and region follow from their id."""
        rows: list[Row] = [{"id": number, "city": CITIES[number % 3], "name": f"{name} {number}"} for number in range(start, start + count)]
        if self.info.partition_keys:
            rows = [{**row, "region": list(REGIONS)[row["id"] % 2]} for row in rows]
        return rows

    def rows_of(self, bucket_id: int, count: int, start: int = 0, name: str = "name") -> list[Row]:
        """The first of `rows` that are of a bucket, in whichever partition."""
        rows = self.rows(count * 20, start, name)
        return [row for row in rows if self.bucket_of(row).bucket_id == bucket_id][:count]

    def bucket_of(self, row: Row) -> BucketKey:
        columns = [pa.array([row["id"]], pa.int64()), pa.array([row["city"]])]
        partition_id = REGIONS[row["region"]] if self.info.partition_keys else None
        return BucketKey(partition_id, int(combined_bucket_ids(columns, self.info.bucket_count)[0]))

    def compact(self) -> None:
        """A user writes all rows anew, those of several buckets to one file."""
        loaded = self.kit.catalog().load_table(str(self.info.path))
        loaded.overwrite(loaded.scan().to_arrow())

    def files(self, content: int = 0) -> list[dict[str, Any]]:
        """Live files of the head: 0 = data, 1 = position deletes."""
        entries = self.kit.catalog().load_table(str(self.info.path)).inspect.files().to_pylist()
        return [entry for entry in entries if entry["content"] == content]

    def footers(self, content: int = 0) -> list[dict[str, str]]:
        """Returns our metadata in the footers of `files`."""
        return [footer_of(entry["file_path"]) for entry in self.files(content)]


def footer_of(location: str) -> dict[str, str]:
    """The keys of ours in a file's footer."""
    metadata = pq.read_metadata(urlparse(location).path).metadata or {}
    return {key.decode(): value.decode() for key, value in metadata.items() if key.startswith(b"lakeward.")}
