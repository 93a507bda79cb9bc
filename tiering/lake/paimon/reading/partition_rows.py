"""Counts the rows of each source partition in a Paimon table, from its manifests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tiering.lake.paimon.commit.manifests import Manifests
from tiering.lake.paimon.reading.loading import LoadedTable
from tiering.lake.paimon.schema.partitions import VALUE_SEPARATOR
from tiering.model.tables import TableInfo


def partition_rows(table: TableInfo, loaded: LoadedTable) -> Mapping[str | None, int]:
    """Returns the number of rows by partition name at the head, replaced and deleted rows included; None = rows without a partition
    name.
    """
    rows = Counter[str | None]()
    keys = list(loaded.schema.table.partition_keys)
    for entry in [] if loaded.head is None else Manifests(loaded).live_entries(loaded.head):
        values = dict(zip(keys, entry.partition.values, strict=True))
        has_name = all(values.get(key) is not None for key in table.partition_keys)
        rows[VALUE_SEPARATOR.join(str(values[key]) for key in table.partition_keys) if has_name else None] += int(entry.file.row_count)
    return rows
