"""`CALL sys.backfill_table`: copies older rows of another lake table into a table's lake table (docs/backfill.md)."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.model.declare import column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import OPERATE_TABLE, VALIDATION_SECONDS, Mutation, Pool


@dataclass(frozen=True)
class BackfillTableResult:
    """The backfill. `checksum` has 16 hexadecimal digits (`tiering.lake.proof.row_checksum`)."""

    path: TablePath = column("Full name of the table, as it is stored.", name="table")
    source_table: str = column("The lake table whose rows were copied.")
    outcome: str = column("backfilled; already_backfilled if an earlier call copied this snapshot; would_backfill for a dry run.")
    round_id: str | None = column("The round id in the marker of the commit that added the rows; NULL for a dry run.")
    lake_snapshot_id: int | None = column("The table's newest tiering commit after the call; NULL for a dry run.")
    source_snapshot_id: int = column("The snapshot of the lake table whose rows were copied.")
    rows_copied: int = column("Number of rows.")
    checksum: str = column("Checksum of these rows, which does not depend on their order.")


@dataclass(frozen=True)
class BackfillTable(Mutation[BackfillTableResult]):
    """The table, and the lake table with the older rows."""

    procedure = "backfill_table"
    comment = "Copies rows that are older than a log table's log from another lake table into its lake table, once, without offsets."
    requirement = OPERATE_TABLE
    pool = Pool.REPAIR
    answer_seconds = VALIDATION_SECONDS
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
    source_table: str = parameter("The lake table with the older rows: x.y in the lake's catalog. The caller needs SELECT on it, too.")
    condition: str | None = parameter(
        "Only rows for which this condition in SQL is true. It compares columns of the table with literals. NULL = all rows.", default=None
    )
