"""The number of a lake table's rows in each partition of the source, from its manifests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta

from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.table import Table
from pyiceberg.types import DateType

from tiering.lake.iceberg.schema.partition_values import EPOCH, VALUE_SEPARATOR
from tiering.model.tables import TableInfo


def partition_rows(table: TableInfo, loaded: Table, snapshot_id: int) -> Mapping[str | None, int]:
    """Returns rows by partition name, including deleted ones. The key None is for files whose partition spec does not tell the name."""
    snapshot, schema, specs = loaded.snapshot_by_id(snapshot_id), loaded.schema(), loaded.specs()
    rows = Counter[str | None]()
    for manifest in [] if snapshot is None else snapshot.manifests(loaded.io):
        places: dict[str, int] = {}
        for place, field in enumerate(specs[manifest.partition_spec_id].fields):
            if str(field.transform) == "identity" and (name := schema.find_column_name(field.source_id)) is not None:
                places[name] = place
        are_dates = [isinstance(schema.find_field(key).field_type, DateType) for key in table.partition_keys]
        for entry in manifest.fetch_manifest_entry(loaded.io, discard_deleted=True):
            if entry.data_file.content is DataFileContent.DATA:
                name = _name(entry.data_file, [places.get(key) for key in table.partition_keys], are_dates)
                rows[name] += entry.data_file.record_count
    return rows


def _name(file: DataFile, places: list[int | None], are_dates: list[bool]) -> str | None:
    texts = []
    for place, is_date in zip(places, are_dates, strict=True):
        value = None if place is None else file.partition[place]
        if value is None:
            return None
        texts.append((EPOCH + timedelta(days=value)).isoformat() if is_date and isinstance(value, int) else str(value))
    return VALUE_SEPARATOR.join(texts)
