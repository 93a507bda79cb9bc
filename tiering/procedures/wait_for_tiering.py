"""`CALL sys.wait_for_tiering`: waits until a table's lake copy has certain rows. It requests no round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from tiering.model.declare import column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import DESCRIBE_TABLE, CallRequest


@dataclass(frozen=True)
class WaitForTieringResult:
    """The result of the wait. `lake_snapshot_id` is the newest snapshot, whether or not it has the rows."""

    path: TablePath = column("Full name of the table, as it is stored.", name="table")
    reached: bool = column("Whether the lake has the rows; false if the time limit came first.")
    lake_snapshot_id: int | None = column("The newest lake snapshot, which holds the rows if they were reached; NULL = there is none.")
    waited_ms: int = column("How long the call waited, in milliseconds.")


@dataclass(frozen=True)
class WaitForTiering(CallRequest[WaitForTieringResult]):
    """The rows to wait for. `offsets`: by bucket, as in `sys.lake_commits`, the first offset that the lake need not have."""

    procedure = "wait_for_tiering"
    comment = "Waits until the lake has certain rows. It starts no round."
    requirement = DESCRIBE_TABLE
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
    timestamp: datetime | None = parameter(
        "Wait for the rows written until this time. NULL, and offsets NULL, too: for all rows of now.", default=None
    )
    offsets: Mapping[str, int] | None = parameter(
        "Wait for the rows below these offsets, by bucket as sys.lake_commits shows them: '3', or '17/3' in partition 17.", default=None
    )
    timeout_ms: int = parameter("How long to wait, in milliseconds.", default=300_000)
