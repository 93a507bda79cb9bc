"""sys.history_bounds: how far back the rounds of each table are kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from sys_tables.query.history_ranges import history_range
from tiering.access.requirements import DESCRIBE_EACH_TABLE
from tiering.coordinator.interface import CoordinatorView, HistoryKind
from tiering.model.declare import column


@dataclass(frozen=True)
class HistoryBoundsRow:
    """The bounds of one table's history."""

    database_name: str = column("Database of the table.")
    table_name: str = column("Name of the table.")
    rounds_since: datetime = column(
        "When the oldest kept round was queued. EMPTY rounds count only where there is no other. What was before is not recorded: "
        "older rounds were deleted, or there were none."
    )


@system_table(
    "history_bounds",
    HistoryBoundsRow,
    requires=DESCRIBE_EACH_TABLE,
    comment="How far back the rounds of each table are kept. A table without a round has no row.",
)
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[HistoryBoundsRow]:
    within = history_range(scan, "rounds_since")
    names = view.history.paths_of(HistoryKind.ROUNDS) if within.paths is None else within.paths
    paths = [path for path in names if within.database_name in (None, path[0]) and within.table_name in (None, path[1])]
    for (database_name, table_name), since in view.history.oldest_rounds(paths).items():
        if database_name is not None and table_name is not None:
            yield HistoryBoundsRow(database_name, table_name, since)
