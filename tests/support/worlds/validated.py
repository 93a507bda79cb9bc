"""Validations of a `LakeWorld`'s tables, and ways to damage a lake table behind the catalog's back."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.parquet as pq

from support.worlds.lake_world import LakeWorld
from tiering.lake.marker import Marker, encode
from tiering.model.tables import TableInfo
from tiering.procedures.validate_table import CheckResult
from tiering.validate.results import Level
from tiering.validate.run import validate


def check(world: LakeWorld, table: TableInfo, level: Level = Level.ROWS, snapshot_id: int | None = None) -> list[CheckResult]:
    return list(validate(world.storage, world.lake, table.path, level, snapshot_id))


def faults(results: list[CheckResult]) -> list[tuple[str, str, str | None]]:
    return [(result.check, result.scope, result.details) for result in results if result.ok is False]


def untold(results: list[CheckResult]) -> list[tuple[str, str, str | None]]:
    return [(result.check, result.scope, result.details) for result in results if result.ok is None]


def data_files(world: LakeWorld, table: TableInfo) -> list[Path]:
    """The table's files, by bucket and size."""
    files = [local(task.file.file_path) for task in world.iceberg(table).scan().plan_files()]
    return sorted(files, key=lambda file: (file.parent.name, -pq.read_metadata(file).num_rows))


def local(location: str) -> Path:
    return Path(urlparse(location).path)


def read(file: Path) -> pa.Table:
    return pq.read_table(file, partitioning=None)


def rewrite(file: Path, rows: pa.Table) -> None:
    """Other rows in the same file; the catalog does not hear of it."""
    pq.write_table(rows, file)


def replace_column(file: Path, name: str, values: list[object], nullable: bool = False) -> None:
    """The file with other values in one column."""
    rows = read(file)
    field = rows.schema.field(name)
    column = pa.array(values, field.type)
    rewrite(file, rows.set_column(rows.schema.get_field_index(name), field.with_nullable(True) if nullable else field, column))


def replace_marker(world: LakeWorld, table: TableInfo, marker: Marker) -> None:
    """Writes another marker into the head's summary, in the metadata file itself."""
    loaded = world.iceberg(table)
    file = local(loaded.metadata_location)
    document = json.loads(file.read_text())
    [head] = [snapshot for snapshot in document["snapshots"] if snapshot["snapshot-id"] == document["current-snapshot-id"]]
    head["summary"] |= encode(marker).properties
    file.write_text(json.dumps(document))
