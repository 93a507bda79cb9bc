"""The nouns of the field as frozen values: paths, buckets, splits, offsets, rounds.

Every module of `tiering` speaks in these; none of them does I/O. Offsets are counts of records from
the start of one bucket's log (Fluss); a range is `[starting_offset, stopping_offset)`. Times are aware
UTC datetimes, durations whole milliseconds and sizes bytes, unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum

import pyarrow as pa

BUCKET_COLUMN = "__bucket"
OFFSET_COLUMN = "__offset"
TIMESTAMP_COLUMN = "__timestamp"
SYSTEM_COLUMNS = (BUCKET_COLUMN, OFFSET_COLUMN, TIMESTAMP_COLUMN)
"""The columns every lake table has behind its own, in Fluss's order."""

DEFAULT_FRESHNESS_MS = 180_000
"""Fluss's default of `table.datalake.freshness` (3 min)."""

SYSTEM_COLUMN_FIELDS = (
    pa.field(BUCKET_COLUMN, pa.int32(), nullable=False),
    pa.field(OFFSET_COLUMN, pa.int64(), nullable=False),
    pa.field(TIMESTAMP_COLUMN, pa.timestamp("us", tz="UTC"), nullable=False),
)


CHANGE_TYPE_COLUMN = "__change_type"
"""Last column of what is read of a primary-key table; never in a lake."""
CHANGE_TYPE_FIELD = pa.field(CHANGE_TYPE_COLUMN, pa.int8(), nullable=False)

SNAPSHOT_OFFSET = -1
"""`__offset` of a row that was read from a KV snapshot, and its `__timestamp` in ms (Fluss)."""


class ChangeType(IntEnum):
    """What a log record says of its row, with Fluss's numbers."""

    APPEND = 0
    INSERT = 1
    UPDATE_BEFORE = 2
    UPDATE_AFTER = 3
    DELETE = 4


class TableType(StrEnum):
    """What a table's log holds: rows, or the changes of keyed rows."""

    LOG = "LOG"
    PRIMARY_KEY = "PRIMARY_KEY"


@dataclass(frozen=True, order=True)
class TablePath:
    """`database.table`. Built from outside text only through `tiering.names.parse_table_path`."""

    database_name: str
    table_name: str

    def __str__(self) -> str:
        return f"{self.database_name}.{self.table_name}"


@dataclass(frozen=True, order=True)
class BucketKey:
    """A bucket within one table: (partition id, bucket id). Partition id is None in a table without partitions."""

    partition_id: int | None
    bucket_id: int

    def __str__(self) -> str:
        """`3`, or `17/3` within partition 17: the form markers and MAP columns use."""
        return str(self.bucket_id) if self.partition_id is None else f"{self.partition_id}/{self.bucket_id}"

    @staticmethod
    def parse(text: str) -> BucketKey:
        """The inverse of str(); raises ValueError."""
        partition, _, bucket = text.rpartition("/")
        return BucketKey(int(partition) if partition else None, int(bucket))

    def sort_key(self) -> tuple[int, int]:
        """Orders buckets also when some have no partition."""
        return (-1 if self.partition_id is None else self.partition_id, self.bucket_id)


Offsets = Mapping[BucketKey, int]
"""Per bucket, an offset: the next one to read."""


@dataclass(frozen=True)
class Partition:
    """One partition of a table. The id is never reused, the name (`value$value`) may be."""

    partition_id: int
    partition_name: str


@dataclass(frozen=True)
class TableInfo:
    """A source table as its cluster describes it. `schema` has no system columns.

    `added_columns` came after the table was made: they are its last ones, nullable, and writers may not know them.
    """

    table_id: int
    path: TablePath
    table_type: TableType
    schema: pa.Schema
    bucket_count: int
    created_at: datetime
    bucket_keys: tuple[str, ...] = ()
    primary_key: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    lake_enabled: bool = False
    lake_enabled_at: datetime | None = None
    lake_format: str = "iceberg"
    freshness_ms: int = DEFAULT_FRESHNESS_MS
    added_columns: tuple[str, ...] = ()

    def lake_schema(self) -> pa.Schema:
        """The columns of its lake table: its own, then the system columns."""
        return pa.schema([*self.schema, *SYSTEM_COLUMN_FIELDS])

    def read_schema(self) -> pa.Schema:
        """The columns a split is read with: those of the lake, and for a primary-key table the change type behind them."""
        lake = self.lake_schema()
        return lake if self.table_type is TableType.LOG else pa.schema([*lake, CHANGE_TYPE_FIELD])


@dataclass(frozen=True)
class BucketOffsets:
    """What a bucket's log holds now: records `[log_start, log_end)`.

    `bytes_per_record` lets a plan estimate sizes without reading; 0 = unknown.
    """

    log_start: int
    log_end: int
    bytes_per_record: float = 0.0


@dataclass(frozen=True)
class TieringLogSplit:
    """One unit of reading: records `[starting_offset, stopping_offset)` of one bucket's log."""

    table_path: TablePath
    bucket: BucketKey
    partition_name: str | None
    starting_offset: int
    stopping_offset: int
    backlog_offset: int

    @property
    def records(self) -> int:
        return self.stopping_offset - self.starting_offset


@dataclass(frozen=True)
class TieringSnapshotSplit:
    """One unit of reading: a whole KV snapshot of one primary-key bucket, which holds the table as of a log offset."""

    table_path: TablePath
    bucket: BucketKey
    partition_name: str | None
    snapshot_id: int
    log_offset_of_snapshot: int
    backlog_offset: int


TieringSplit = TieringLogSplit | TieringSnapshotSplit


@dataclass(frozen=True)
class KvSnapshot:
    """A full copy of one primary-key bucket: the last row of each key in the records below `log_offset`."""

    snapshot_id: int
    log_offset: int


@dataclass(frozen=True)
class TableBucket:
    """One bucket among those of all tables."""

    table_id: int
    bucket: BucketKey


@dataclass(frozen=True)
class LeasedSnapshot:
    """One KV snapshot that a lease keeps alive. `available` = its files are still there."""

    table_bucket: TableBucket
    snapshot_id: int
    log_offset: int
    available: bool = True


@dataclass(frozen=True)
class KvSnapshotLease:
    """A claim that keeps KV snapshots alive until `expires_at`, unless it is renewed."""

    lease_id: str
    acquired_at: datetime
    renewed_at: datetime
    expires_at: datetime
    ttl_ms: int
    snapshots: Collection[LeasedSnapshot] = ()
    owner: str | None = None


@dataclass(frozen=True)
class RecordedLakeSnapshot:
    """What a cluster or the coordinator remembers of a lake table: a copy that may be behind the lake."""

    lake_snapshot_id: int
    offsets: Offsets


@dataclass(frozen=True)
class Assignment:
    """A table handed to a tierer, with the numbers that fence everyone else (DESIGN 5-6).

    `lake_table_uuid` and `passed_head` are what the coordinator remembers of the lake; None = nothing yet.
    `recorded` is the coordinator's copy of the tiered offsets.
    """

    table_id: int
    path: TablePath
    tiering_epoch: int
    coordinator_epoch: int
    round_id: str
    lake_table_uuid: str | None = None
    passed_head: int | None = None
    recorded: RecordedLakeSnapshot | None = None
    max_duration_ms: int = DEFAULT_FRESHNESS_MS


class RoundState(StrEnum):
    """States of a tiering round (SYS.md, `tiering_rounds`)."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    EMPTY = "EMPTY"
    FORCE_FINISHED = "FORCE_FINISHED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    FENCED = "FENCED"

    @property
    def is_final(self) -> bool:
        return self not in (RoundState.QUEUED, RoundState.RUNNING)


class Phase(StrEnum):
    """Where in a round an error happened (SYS.md, `tiering_errors.phase`)."""

    PLAN = "PLAN"
    LEASE = "LEASE"
    READ = "READ"
    WRITE = "WRITE"
    FENCE = "FENCE"
    LAKE_COMMIT = "LAKE_COMMIT"
    ACK = "ACK"
    MAINTENANCE = "MAINTENANCE"


@dataclass(frozen=True)
class RoundStats:
    """What a round did. Bytes are those of files; `records_read` counts log records."""

    splits: int = 0
    records_read: int = 0
    bytes_read: int = 0
    records_written: int = 0
    bytes_written: int = 0
    files_written: int = 0
    deletes_written: int = 0

    def plus(self, other: RoundStats) -> RoundStats:
        """The sum, field by field."""
        return RoundStats(
            self.splits + other.splits,
            self.records_read + other.records_read,
            self.bytes_read + other.bytes_read,
            self.records_written + other.records_written,
            self.bytes_written + other.bytes_written,
            self.files_written + other.files_written,
            self.deletes_written + other.deletes_written,
        )
