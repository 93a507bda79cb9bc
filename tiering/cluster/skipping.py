"""Records that a cluster may be told to leave out: the way out for a bucket whose rows cannot take a record of its log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from tiering.model.tables import TablePath


@dataclass(frozen=True)
class SkipRequest:
    """Which record, who says so and why."""

    path: TablePath
    partition_name: str | None
    bucket_id: int
    offset: int
    caller: str
    reason: str | None = None
    dry_run: bool = False


class SkipOutcome(StrEnum):
    """What became of it."""

    SKIPPED = "skipped"
    ALREADY_SKIPPED = "already_skipped"
    WOULD_SKIP = "would_skip"


@dataclass(frozen=True)
class SkippedRecord:
    """The record, with its value as text, cut."""

    table_id: int
    value: str
    outcome: SkipOutcome


@runtime_checkable
class SkipsRecords(Protocol):
    """A cluster that can be told to."""

    def skip_record(self, request: SkipRequest) -> SkippedRecord:
        """Leaves out the record at which a bucket stands, for good: readers get a change of nothing in its place.

        Durable before it takes effect, and harmless to repeat. Raises UnknownTable, UnknownPartition, InvalidArgument (a log
        table, a bucket that does not stand there), ClusterUnavailable.
        """
        ...
