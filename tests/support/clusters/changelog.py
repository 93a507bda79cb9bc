"""A changelog: its records by sign, and the rows that exist after them."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from support.clusters.embedded import scan_all
from tiering.cluster.base import SplitSource
from tiering.model.tables import ChangeType, TableInfo

SIGNS = {
    ChangeType.INSERT: "+I",
    ChangeType.UPDATE_BEFORE: "-U",
    ChangeType.UPDATE_AFTER: "+U",
    ChangeType.DELETE: "-D",
}
CHANGES = {sign: int(kind) for kind, sign in SIGNS.items()}


def changes(cluster: SplitSource, table: TableInfo) -> list[tuple[str, int, str | None]]:
    """All records of a table of (id, city), in their order."""
    return [(SIGNS[row["__change_type"]], row["id"], row["city"]) for row in scan_all(cluster, table).to_pylist()]


def rows_of(logged: pa.Table, before: Iterable[tuple[int, str | None]] = ()) -> dict[int, str | None]:
    """City by id after the changes, applied to the rows that were there before. A change that does not fit them fails."""
    rows = dict(before)
    for record in logged.to_pylist():
        key, city, sign = record["id"], record["city"], SIGNS[record["__change_type"]]
        if sign in ("-U", "-D"):
            assert rows.pop(key) == city
        else:
            assert key not in rows
            rows[key] = city
    return rows
