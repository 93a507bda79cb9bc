"""`CALL sys.tier_table`: brings the lake to the end offsets of the call (DESIGN 5)."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.model.declare import INT, column, hidden, parameter
from tiering.model.tables import TablePath
from tiering.procedures import base
from tiering.procedures.base import Mutation


@dataclass(frozen=True)
class TierTableResult:
    """The row about the table. `state` is the round's state, or EMPTY; if the call did not wait for the end, the table's state."""

    path: TablePath = column("Full name of the table, as it is stored.", name="table")
    round_id: str | None = column("The round that tiered the rows, or will tier them; NULL if none was needed.")
    state: str = column("State of the round, EMPTY if there was nothing to do; the table's state if the call did not wait for the end.")
    tiering_epoch: int = column("Number of the table's latest entry to Pending.")
    lake_snapshot_id: int | None = column("The lake snapshot that holds the rows.")
    splits: int | None = column("Units of reading in the round.", arrow_type=INT)
    records: int | None = column("Records written to the lake.")
    files: int | None = column("Files written to the lake.")
    bytes: int | None = column("Bytes of these files.")
    lag_ms_before: int | None = column("Age of the oldest row not in the lake at the call, in milliseconds.")
    lag_ms_after: int | None = column("Age of the oldest row not in the lake when the call returned, in milliseconds.")
    duration_ms: int = column("How long the call took, in milliseconds.")


@dataclass(frozen=True)
class TierTable(Mutation[TierTableResult]):
    """The table to tier. An idempotency key is bound to the goal, not to how long the caller waits.

    `wait_for_tierer`: whether the wait continues while no tierer is connected. A statement shows no progress, so by default the wait ends.
    """

    procedure = "tier_table"
    comment = "Tiers a table now and waits until the lake has caught up."
    requirement = base.TIER_TABLE
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
    wait: bool = parameter("Whether to wait until the lake has every row written before the call.", default=True, identifies=False)
    timeout_ms: int = parameter("How long to wait, in milliseconds. The round continues afterwards.", default=300_000, identifies=False)
    wait_for_tierer: bool = hidden(default=False)
