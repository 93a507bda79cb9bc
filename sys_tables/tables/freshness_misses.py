"""sys.freshness_misses: rounds that brought a table up to date after its deadline, and what took longest; the newest first.

A table becomes due at its deadline, so that a healthy round misses it by its own duration: ask for those that missed it by more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sys_tables.declare.columns import column
from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from sys_tables.query.history_ranges import history_range
from sys_tables.tables.tiering_rounds import row_of
from tiering.coordinator.interface import CoordinatorView, RoundRecord
from tiering.durations import short_duration


@dataclass(frozen=True)
class FreshnessMissRow:
    """One missed deadline."""

    database_name: str = column("Database of the table.")
    table_name: str = column("Name of the table.")
    round_id: str = column("The round that brought the table up to date.")
    deadline: datetime = column("When the table's freshness was over.")
    reached_at: datetime = column("When the lake had caught up.")
    missed_by_ms: int = column("Milliseconds from the one to the other.")
    largest_part: str | None = column("The part of tiering_rounds that took longest: backoff, read, ...; NULL if none is known.")
    largest_part_ms: int | None = column("How long that took, in milliseconds.")
    explanation: str = column("The same in words.")


_PARTS: Mapping[str, str] = {
    "waited_for_slot": "no tierer was free for {}: start more of them, or give them more slots",
    "backoff": "rounds failed, and their back-offs took {}: sys.tiering_errors says why",
    "paused": "it was paused for {}: sys.tiering_events says by whom",
    "plan": "looks at table, lake and log took {}",
    "lease": "leasing its KV snapshots took {}",
    "read": "reading took {}",
    "write": "writing took {}",
    "commit": "the commit to the lake took {}",
    "ack": "recording the commit took {}",
}
"""Parts of a round's time, in the order in which they follow each other, with their words."""


@system_table(
    "freshness_misses", FreshnessMissRow, comment="Deadlines that rounds missed, the newest first, with what took longest.", is_history=True
)
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[FreshnessMissRow]:
    for record in view.history.read_rounds(history_range(scan, "")):
        if record.deadline is not None and record.missed_by_ms:
            yield _miss(record, record.deadline, record.missed_by_ms)


def _miss(record: RoundRecord, deadline: datetime, missed_by_ms: int) -> FreshnessMissRow:
    row = row_of(record)
    spent = {part: milliseconds for part in _PARTS if (milliseconds := getattr(row, f"{part}_ms"))}
    largest = max(spent, key=lambda part: spent[part], default=None)
    return FreshnessMissRow(
        database_name=record.database_name,
        table_name=record.table_name,
        round_id=record.round_id,
        deadline=deadline,
        reached_at=deadline + timedelta(milliseconds=missed_by_ms),
        missed_by_ms=missed_by_ms,
        largest_part=largest,
        largest_part_ms=None if largest is None else spent[largest],
        explanation=_explanation(largest, spent),
    )


def _explanation(largest: str | None, spent: Mapping[str, int]) -> str:
    return "nobody said where the time went" if largest is None else _PARTS[largest].format(short_duration(spent[largest]))
