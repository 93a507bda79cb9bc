"""sys.freshness_misses: promises of freshness that are broken now, then rounds that brought a table up to date after its deadline, the
newest first, and what took longest.

A promise is broken when a row waits for longer than the table's freshness: the deadline is the oldest row's, where that is known.
A table becomes due so early that its round ends before the deadline (`decisions.waits`), so a healthy table has no rows here. Where a
shared Fluss says whose turn it is, it is due at its deadline, and each round misses that by its own duration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from sys_tables.query.history_ranges import history_range
from sys_tables.tables.tiering_rounds import row_of
from tiering.access.requirements import DESCRIBE_EACH_TABLE
from tiering.coordinator.interface import CoordinatorView, RoundRecord
from tiering.durations import short_duration
from tiering.errors import ClusterUnavailable
from tiering.model.declare import column
from tiering.model.reading.matching import AnyArray
from tiering.model.rounds import PART_COLUMNS
from tiering.model.status import Promise


@dataclass(frozen=True)
class FreshnessMissRow:
    """One broken promise."""

    database_name: str = column("Database of the table.")
    table_name: str = column("Name of the table.")
    round_id: str | None = column(
        "The round that brought the table up to date. While the promise is still broken: the running or queued round, NULL without one."
    )
    deadline: datetime = column("When the oldest row that the lake lacked had waited for the table's freshness.")
    reached_at: datetime | None = column("When the lake had caught up; NULL while the promise is still broken.")
    missed_by_ms: int = column("Milliseconds from the deadline to reached_at, or until now.")
    largest_part: str | None = column(
        "The part that took longest: a column of tiering_rounds without its _ms, or unmeasured; NULL if unknown, "
        "and while the promise is still broken."
    )
    largest_part_ms: int | None = column("Duration of that part in milliseconds.")
    explanation: str = column("largest_part in words. While the promise is still broken: the status of the table and its reason.")


_PARTS: Mapping[str, str] = {
    "queued_late": "no round was queued for {}: no coordinator ran, or the cluster had not assigned the table",
    "waited_for_slot": "no tierer was free for {}: start more of them, or give them more slots",
    "earlier_rounds": "rounds before it took {} and did not bring the table up to date: sys.tiering_rounds says how they ended",
    "backoff": "rounds failed, and the table waited {} after them: sys.tiering_errors says why",
    "paused": "it was paused for {}: sys.tiering_events says by whom",
    "plan": "reading the state of table, lake and log took {}",
    "lease": "leasing its KV snapshots took {}",
    "read": "reading took {}",
    "write": "writing took {}",
    "commit": "the commit to the lake took {}",
    "ack": "recording the commit took {}",
    "unmeasured": "{} of the round are in none of its parts: its tierer began late, paused, or does not measure them",
}
"""Parts of the time from the due time to the end of the round, with their texts. All parts but the last are columns of tiering_rounds. The
last is the rest of the round's duration."""

_NO_TIERER = "no tierer that gets tables was connected for {}: start one"
"""Text instead of the wait for a slot, if most of that wait was without a tierer."""

_OF_THE_ROUND = tuple(column.removesuffix("_ms") for column in PART_COLUMNS)


@system_table(
    "freshness_misses",
    FreshnessMissRow,
    requires=DESCRIBE_EACH_TABLE,
    comment="Promises of freshness that are or were broken, the newest first, with what took longest.",
    is_history=True,
)
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[FreshnessMissRow]:
    yield from _broken_now(view, scan)
    for record in view.history.read_rounds(replace(history_range(scan, ""), is_missed=True)):
        if record.deadline is not None and record.missed_by_ms:
            yield _miss(record, record.deadline, record.missed_by_ms)


def _broken_now(view: CoordinatorView, scan: ScanRequest) -> list[FreshnessMissRow]:
    """Returns misses of tables with a row that now waits longer than their freshness, if their lag is known. It returns none while no
    coordinator observes logs and the cluster is down. History is read in any case."""
    statuses = view.status_columns(scan.names)
    try:
        is_broken: AnyArray = pc.equal(statuses.column("promise"), pa.scalar(str(Promise.BROKEN)))
    except ClusterUnavailable:
        return []
    late = statuses.take(pc.indices_nonzero(is_broken))
    columns = ("database_name", "table_name", "round_id", "oldest_pending_time", "freshness_ms", "lag_ms", "status", "status_reason")
    broken = []
    for database, table, round_id, oldest, freshness_ms, lag_ms, status, reason in zip(
        *(late.column(name).to_pylist() for name in columns), strict=True
    ):
        deadline = oldest + timedelta(milliseconds=freshness_ms)
        words = f"{status} until now" if reason is None else f"{status} until now: {reason}"
        broken.append(FreshnessMissRow(database, table, round_id, deadline, None, lag_ms - freshness_ms, None, None, words))
    return sorted(broken, key=lambda miss: miss.deadline, reverse=True)


def _miss(record: RoundRecord, deadline: datetime, missed_by_ms: int) -> FreshnessMissRow:
    row = row_of(record)
    reached_at = deadline + timedelta(milliseconds=missed_by_ms)
    spent = {part: getattr(row, f"{part}_ms", None) or 0 for part in _PARTS}
    if record.started_time is not None:
        measured_ms = sum(spent[part] for part in _OF_THE_ROUND)
        spent["unmeasured"] = max(0, (reached_at - record.started_time) // timedelta(milliseconds=1) - measured_ms)
    largest = max(spent, key=lambda part: spent[part])
    has_durations = spent[largest] > 0
    words, words_ms = _PARTS[largest], spent[largest]
    if largest == "waited_for_slot" and (row.no_tierer_ms or 0) * 2 > words_ms:
        words, words_ms = _NO_TIERER, row.no_tierer_ms or 0
    return FreshnessMissRow(
        database_name=record.database_name,
        table_name=record.table_name,
        round_id=record.round_id,
        deadline=deadline,
        reached_at=reached_at,
        missed_by_ms=missed_by_ms,
        largest_part=largest if has_durations else None,
        largest_part_ms=spent[largest] if has_durations else None,
        explanation=words.format(short_duration(words_ms)) if has_durations else "the tierer reported no durations",
    )
