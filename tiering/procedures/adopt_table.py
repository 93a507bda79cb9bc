"""`CALL sys.adopt_table`: takes over a lake table that an earlier pipeline wrote from the same records (docs/adopt.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from tiering.model.declare import column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import LOOK_SECONDS, OPERATE_TABLE, Mutation, Pool


@dataclass(frozen=True)
class AdoptTableResult:
    """The adoption. `rows_adopted` and `rows_unproved` None = this call only completes or repeats an earlier one."""

    path: TablePath = column("Full name of the table, as it is stored.", name="table")
    lake_table: str = column("The lake table as the call named it.")
    outcome: str = column("adopted; already_adopted; would_adopt for a dry run.")
    round_id: str | None = column("The round id in the marker that was committed; NULL if none was.")
    lake_snapshot_id: int | None = column("The lake snapshot from which tiering continues.")
    offsets: Mapping[str, int] = column("By bucket, the offset from which tiering continues.")
    rows_adopted: int | None = column("Number of rows that were taken over. NULL = an earlier call counted them.")
    rows_unproved: int | None = column(
        "Number of these rows that could not be compared with the log, which no longer has their records. "
        "NULL = an earlier call counted them."
    )


@dataclass(frozen=True)
class AdoptTable(Mutation[AdoptTableResult]):
    """The table, the lake table with its rows, and how far the pipeline came."""

    procedure = "adopt_table"
    comment = "Takes over a lake table that an earlier pipeline wrote from the same records, after it compared its rows with the log."
    requirement = OPERATE_TABLE
    pool = Pool.REPAIR
    answer_seconds = LOOK_SECONDS
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
    lake_table: str = parameter("The lake table that the pipeline wrote: x.y in the lake's catalog.")
    offsets: Mapping[str, int] | None = parameter(
        "By bucket, the offset of the first record that the pipeline did not write: '3', or '17/3' in the partition with the id 17.",
        default=None,
    )
    timestamp: datetime | None = parameter(
        "Instead of offsets: the pipeline wrote exactly the records that were committed before this time.", default=None
    )
    accept_unproved: bool = parameter("Whether rows are taken over that the log can no longer prove.", default=False)
