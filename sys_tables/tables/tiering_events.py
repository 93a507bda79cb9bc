"""sys.tiering_events: the events of the tables, with the user who requested them, the newest first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sys_tables.declare.columns import row_from
from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from sys_tables.query.history_ranges import history_range
from tiering.access.requirements import DESCRIBE_EACH_TABLE, OPERATE_ON_SERVICE
from tiering.coordinator.interface import CoordinatorView
from tiering.model.declare import column


@dataclass(frozen=True)
class TieringEventRow:
    """One event."""

    event_id: int | None = column(
        "Number of the event, in the order in which events were stored; NULL for a caller without OPERATE on the service, "
        "to whom gaps would reveal hidden tables."
    )
    occurred_at: datetime = column("When the event happened, by the coordinator's clock.")
    level: str = column("INFO, WARN or ERROR.")
    event_type: str = column("Kind of the event: TABLE_PENDING, COMMIT_GRANTED, TABLE_PAUSED, ...")
    principal: str | None = column("The user who caused the event; NULL for the coordinator's own actions.")
    database_name: str | None = column("Database of the table; NULL if the event is about no table.")
    table_name: str | None = column("Name of the table; NULL if the event is about no table.")
    round_id: str | None = column("The latest round of the table at that time; NULL if it had none.")
    message: str = column("Description of the event and its reason.")
    details: str = column("Details as JSON: the table's id and epoch, and further fields of the event.")


@system_table(
    "tiering_events",
    TieringEventRow,
    requires=DESCRIBE_EACH_TABLE,
    further=((OPERATE_ON_SERVICE, "`event_id`, and events about no table"),),
    comment="The events of the tables, the newest first. Options of the coordinator limit their number and age.",
    newest_first=("occurred_at", "event_id"),
    is_history=True,
)
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[TieringEventRow]:
    for event in view.history.read_events(history_range(scan, "occurred_at", "level", "event_type", "principal")):
        details = json.dumps(dict(event.details), default=str)
        yield row_from(TieringEventRow, event, level=event.level.value, details=details)
