"""Reads a lake table with pyiceberg and tells whether it holds every offset of the log exactly once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyiceberg.table import Table

from support.lake_kinds.by_hand import lake_by_hand
from support.lakes.stored_files import file_system_of, path_in
from tiering.lake.marker import Marker
from tiering.lake.registry import open_lake
from tiering.model.tables import BucketKey, TablePath


def lake_rows(lake_properties: Mapping[str, str], path: TablePath) -> pa.Table:
    """All rows of the lake table's head."""
    return lake_by_hand("iceberg", lake_properties).rows(path)


def places_by_footers(table: Table) -> list[tuple[int, int]]:
    """(bucket, offset) of every row of a clean log table all of whose files are Lakeward's."""
    return places_in_files(task.file.file_path for task in table.scan().plan_files())


def places_in_files(locations: Iterable[str], files: fs.FileSystem | None = None) -> list[tuple[int, int]]:
    """Returns the places in these files."""
    places: list[tuple[int, int]] = []
    for location in locations:
        metadata = pq.read_metadata(path_in(location), filesystem=files)
        texts = {key.decode(): value.decode() for key, value in (metadata.metadata or {}).items()}
        runs = [tuple(map(int, run.split("-"))) for run in texts["lakeward.offsets"].split(",")]
        assert sum(stop - start for start, stop in runs) == metadata.num_rows
        bucket = BucketKey.parse(texts["lakeward.bucket"]).bucket_id
        places += [(bucket, offset) for start, stop in runs for offset in range(start, stop)]
    return places


def rewrite_by_hand(lake_properties: Mapping[str, str], path: TablePath) -> int:
    """A user's compaction with pyiceberg: the same rows in files of its own. Returns the new head."""
    by_hand = lake_by_hand("iceberg", lake_properties)
    by_hand.rewrite(path)
    return by_hand.head(path)


def marker_of(lake_properties: Mapping[str, str], path: TablePath, lake_format: str = "iceberg") -> Marker | None:
    """The marker of the newest tiering commit."""
    view = open_lake(lake_format, dict(lake_properties)).view(path)
    return None if view is None else view.marker


def assert_every_offset_once(
    lake_properties: Mapping[str, str], path: TablePath, ends: Mapping[int, int], lake_format: str = "iceberg"
) -> pa.Table:
    """Each bucket's offsets are 0 .. end-1, none missing, none doubled; commits form a chain. Returns the rows."""
    by_hand = lake_by_hand(lake_format, lake_properties)
    rows = by_hand.rows(path)
    by_bucket: dict[int, list[int]] = {bucket: [] for bucket in ends}
    if "__offset" in rows.column_names:
        places = list(zip(rows["__bucket"].to_pylist(), rows["__offset"].to_pylist(), strict=True))
    else:
        places = places_in_files(map(str, by_hand.data_files(path)), file_system_of(lake_properties))
        assert len(places) == rows.num_rows
    for bucket, offset in places:
        by_bucket[bucket].append(offset)
    for bucket, end in ends.items():
        assert sorted(by_bucket[bucket]) == list(range(end)), f"bucket {bucket} of {path}"
    assert_chain(lake_properties, path, lake_format)
    return rows


def assert_chain(lake_properties: Mapping[str, str], path: TablePath, lake_format: str = "iceberg") -> None:
    """Every round id is in one snapshot at most, and each marker's base is the marker before it."""
    view = open_lake(lake_format, dict(lake_properties)).view(path)
    assert view is not None
    rounds = [snapshot.round_id for snapshot in view.snapshots.values() if snapshot.round_id is not None]
    assert len(rounds) == len(set(rounds))
