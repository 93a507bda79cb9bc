"""A clean primary-key table with two bucket keys: its buckets share partition values."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.parquet as pq

from support.clusters.primary_key_table import PrimaryKeyTable, Row, primary_key_info
from support.lakes.lake_kit import LakeKit
from tiering.library_guards.bucket_hash import combined_bucket_ids
from tiering.model.tables import BucketKey

CITIES = ("Bern", "Lyon", "Oslo")
TWO_KEYS_SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("city", pa.string(), nullable=False), pa.field("name", pa.string())]
)
PARTITIONED_SCHEMA = pa.schema([*TWO_KEYS_SCHEMA, pa.field("region", pa.string(), nullable=False)])
REGIONS = {"north": 11, "south": 12}


class TwoKeysTable(PrimaryKeyTable):
    """Keys are (id, city); with `is_partitioned` also the region, by which it is partitioned."""

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
        """Of `files`, what is ours in them."""
        return [footer_of(entry["file_path"]) for entry in self.files(content)]


def footer_of(location: str) -> dict[str, str]:
    """The keys of ours in a file's footer."""
    metadata = pq.read_metadata(urlparse(location).path).metadata or {}
    return {key.decode(): value.decode() for key, value in metadata.items() if key.startswith(b"lakeward.")}
