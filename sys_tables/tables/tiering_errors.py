"""sys.tiering_errors: the kinds of errors of rounds, by table, phase and class, the newest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sys_tables.declare.columns import row_from
from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from sys_tables.query.history_ranges import history_range
from tiering.access.requirements import DESCRIBE_EACH_TABLE
from tiering.coordinator.interface import CoordinatorView
from tiering.model.declare import column


@dataclass(frozen=True)
class TieringErrorRow:
    """One kind of error of one table."""

    database_name: str = column("Database of the table.")
    table_name: str = column("Name of the table.")
    phase: str | None = column("PLAN, LEASE, READ, WRITE, FENCE, LAKE_COMMIT, ACK or MAINTENANCE; NULL if unknown, as for a lost tierer.")
    error_class: str = column("Class of the error.")
    message: str = column("Message of the latest such error.")
    hint: str | None = column("Hint; NULL if no action is needed.")
    next_action: str | None = column(
        "The statement that helps without leaving an acknowledged row out of the lake; NULL if no action is needed, if a person "
        "has to choose (see hint), and once another error holds the table up."
    )
    retryable: bool = column("Whether the coordinator tries again by itself.")
    count: int = column("Number of rounds that it ended.")
    first_seen: datetime = column("When the error first ended a round.")
    last_seen: datetime = column("When the error last ended a round.")
    last_round_id: str = column("The latest round that it ended.")
    resolved_at: datetime | None = column("When a later round succeeded, or the table was reconciled or removed; NULL until then.")


@system_table(
    "tiering_errors",
    TieringErrorRow,
    requires=DESCRIBE_EACH_TABLE,
    requires_note="`next_action` is a statement if the caller may run it, and otherwise names the privilege to ask for.",
    comment="Kinds of errors that ended rounds, one row per table, phase and class, the newest first.",
    newest_first=("last_seen",),
    is_history=True,
)
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[TieringErrorRow]:
    for error in view.history.read_errors(history_range(scan, "last_seen", "phase", "error_class")):
        yield row_from(TieringErrorRow, error, hint=error.hint or None, next_action=view.next_action_against(error, scan.names))
