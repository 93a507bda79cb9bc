"""A read of a data table: its moment, and what one scan of it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tiering.model.reading.conditions import Condition
from tiering.model.tables import BucketKey, Offsets, TablePath


class ReadPart(StrEnum):
    """The rows that a scan reads; names as in `ReadScan.Part` of the proto."""

    ROWS = "ROWS"
    """The rows of the table: lake and log merged."""
    LOG_ROWS = "LOG_ROWS"
    """The rows of the log part alone: appended rows, or of a primary-key table the last changes of keys that leave a row."""
    CHANGED_KEYS = "CHANGED_KEYS"
    """The keys that the log part of a primary-key table changes, each once. They and LOG_ROWS replace a merge only if the moment has no
    buckets in `replaced`."""
    CHANGELOG = "CHANGELOG"
    """The records of the log from its start up to the stopping offsets, with change type, offset and commit time as first columns."""


@dataclass(frozen=True)
class ReadScan:
    """The rows and columns that a scan reads. Rows may be returned that the conditions or the limit exclude: the engine filters again."""

    part: ReadPart = ReadPart.ROWS
    columns: tuple[str, ...] = ()
    """The columns of the rows in their order; empty = all."""
    conditions: tuple[Condition, ...] = ()
    """All of them are true for a row that is needed."""
    limit: int | None = None
    """Number of rows that are needed in total; None = all."""


@dataclass(frozen=True)
class ReadMoment:
    """The moment of a read. The read has the rows of the lake snapshot and the log records `[starting offset, stopping offset)`.

    Two scans with one moment read the same rows, whatever is written, tiered or maintained in between.
    """

    path: TablePath
    table_id: int
    lake_snapshot_id: int | None
    """None: the table has no lake copy yet, and all rows come from KV snapshots and the log."""
    starting_offsets: Offsets
    """L: per bucket the first offset that is read from the log. The lake snapshot has the records below it."""
    stopping_offsets: Offsets
    """E: per bucket the end of the log at the moment of the read. Has the same buckets as `starting_offsets`."""
    kv_snapshots: Mapping[BucketKey, int] = field(default_factory=dict)
    """Ids of the KV snapshots with which buckets begin that are not in the lake. Their log part begins at the snapshot's log offset."""
    replaced: frozenset[BucketKey] = frozenset()
    """Buckets whose KV snapshot replaces all rows that the lake has of them."""
    lake_mark: int | None = None
    """`LakeSnapshot.mark` of the lake snapshot: after a roll-back another snapshot may get its id, but not its mark."""
    only_in_lake: Offsets = field(default_factory=dict)
    """Per bucket the offset before which only the lake copy has rows, for a log table whose lake is disabled. If there is one, only the
    changelog can be read."""
    changelog_starts: Offsets = field(default_factory=dict)
    """Per bucket the start of the log when the first scan of CHANGELOG was planned; empty before. All such scans begin there."""
    schema_id: int = 0
    """The schema id of the table's columns when the read began; 0 = unknown."""

    @property
    def log_starts(self) -> dict[BucketKey, int]:
        """Per bucket the first log record of the read. Buckets of which it needs no log record are left out."""
        return {
            bucket: start
            for bucket, stop in self.stopping_offsets.items()
            if (start := min(self.starting_offsets[bucket], self.changelog_starts.get(bucket, stop))) < stop
        }

    @property
    def log_records(self) -> int:
        """Upper bound of the number of log records, because some clusters use offsets without a record."""
        return sum(self.stopping_offsets[bucket] - start for bucket, start in self.log_starts.items())
