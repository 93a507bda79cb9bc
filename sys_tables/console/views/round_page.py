"""The page of one round: its progress while it runs, where its time went, why it ended, and what it committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sys_tables.console.query import Query, equal, newest_first
from sys_tables.console.reader import FilledPanel, Heading, Panel, Reader, Row
from sys_tables.declare.scan import Order
from tiering.model.reading.conditions import Condition
from tiering.model.rounds import PART_COLUMNS, RoundState
from tiering.round_history import PART_NAMES

ROUNDS_TABLE = "tiering_rounds"
MAX_SPLITS = 500
MAX_EVENTS = 50
PARTS: Mapping[str, str] = {
    column: "rounds before it" if column == "earlier_rounds_ms" else PART_NAMES[column.removesuffix("_ms")]
    for column in ("queued_late_ms", "waited_for_slot_ms", "earlier_rounds_ms", "backoff_ms", "paused_ms", *PART_COLUMNS)
}
"""Durations of a round in their order, with their names on the page. `read` and `write` are the sums over all tasks."""
MEANINGS: Mapping[str, str] = {
    RoundState.QUEUED: "It waits for a tierer with a free slot.",
    RoundState.RUNNING: "It runs.",
    RoundState.SUCCEEDED: "It committed everything up to the end offsets of its plan.",
    RoundState.EMPTY: "There was nothing new to tier, so it committed nothing.",
    RoundState.FORCE_FINISHED: "Its time was over, so it committed what it had. The next round continues from there.",
    RoundState.FAILED: "It failed and committed nothing.",
    RoundState.CANCELLED: "A user cancelled it before its commit was granted.",
    RoundState.FENCED: "It no longer owned the table, because another round took over. Its commit was refused.",
}
"""Meaning of each state of a round."""


@dataclass(frozen=True)
class Part:
    """One part of the duration of a round. `start` and `share` are percentages of all parts."""

    column: str
    name: str
    duration_ms: int
    start: float
    share: float


@dataclass(frozen=True)
class RoundPage:
    """The content of the page. `round` is the row of `tiering_rounds`."""

    round: Row
    headings: Sequence[Heading]
    query: Query
    parts: Sequence[Part]
    panels: Sequence[FilledPanel]

    @property
    def is_open(self) -> bool:
        """Whether the round has not ended."""
        return self.round["finished_time"] is None

    @property
    def meaning(self) -> str:
        """Meaning of the state of the round."""
        return MEANINGS.get(self.round["state"], "")


def round_page(reader: Reader, round_id: str) -> RoundPage | None:
    """Reads the page; None for an unknown round, or one of a table that the caller may not describe. Raises errors of the service."""
    here = (equal("round_id", round_id),)
    query = Query(ROUNDS_TABLE, tuple(reader.all_columns(ROUNDS_TABLE)), here)
    rows = reader.rows(query)
    if not rows:
        return None
    return RoundPage(rows[0], reader.headings(query), query, parts_of(rows[0]), [reader.filled(panel) for panel in panels(here, rows[0])])


def parts_of(row: Row) -> list[Part]:
    """Returns the parts of a round that took time."""
    durations = {column: row[column] for column in PARTS if row[column]}
    total, start, parts = sum(durations.values()), 0, list[Part]()
    for column, duration_ms in durations.items():
        parts.append(Part(column, PARTS[column], duration_ms, round(100 * start / total, 3), round(100 * duration_ms / total, 3)))
        start += duration_ms
    return parts


def panels(here: tuple[Condition, ...], row: Row) -> list[Panel]:
    """Returns the panels for the round that the conditions select. Those of running rounds are left out once it has ended."""
    of_table = tuple(equal(name, row[name]) for name in ("database_name", "table_name"))
    splits = Panel(
        "Splits",
        Query("tiering_splits", SPLITS, (*of_table, *here), (Order("partition_name"), Order("bucket_id"), Order("split_id")), MAX_SPLITS),
        "The round has no splits yet: its tierer reports them after the plan.",
    )
    return [
        *([splits] if row["finished_time"] is None else []),
        Panel("Commit", Query("lake_commits", COMMITS, (*of_table, *here)), "No commit of this round has been granted."),
        Panel("Upkeep", Query("lake_upkeep", UPKEEP, (*of_table, *here)), "This round did no upkeep."),
        Panel(
            "Events",
            Query("tiering_events", EVENTS, (*of_table, *here), newest_first("occurred_at"), MAX_EVENTS),
            "No event names this round.",
        ),
    ]


SPLITS = (
    *("split_id", "state", "fraction_completed", "split_type", "partition_name", "bucket_id", "snapshot_id"),
    *("starting_offset", "current_offset", "stopping_offset", "executor", "attempt"),
)
COMMITS = (
    *("state", "prepared_at", "lake_committed_at", "acked_at", "lake_snapshot_id", "base_round_id", "records", "files"),
    *("offsets", "reconciled_by"),
)
UPKEEP = ("actions", "outcome", "reason", "files_before", "files_after", "bytes_read", "bytes_written")
EVENTS = ("occurred_at", "level", "event_type", "principal", "message")
