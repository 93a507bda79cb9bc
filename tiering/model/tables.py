"""Tables, partitions, buckets and offsets; the columns that every lake table has behind its own.

Offsets are counts of records from the start of one bucket's log (Fluss); a range is `[starting_offset, stopping_offset)`. Times are
aware UTC datetimes, durations whole milliseconds and sizes bytes, unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
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
DEFAULT_LAKE_FORMAT = "iceberg"
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
    """What a table's log holds: rows, or the changes of rows that have a key."""

    LOG = "LOG"
    PRIMARY_KEY = "PRIMARY_KEY"


@dataclass(frozen=True, order=True)
class TablePath:
    """`database.table`. Built from outside text only through `tiering.model.names.parse_table_path`."""

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

SkippedRecords = Mapping[BucketKey, Mapping[int, str | None]]
"""Per bucket, the offsets of records that `CALL sys.skip_record` left out. Each has its trace (`RewritableLogs`), if known."""


@dataclass(frozen=True)
class Partition:
    """One partition of a table. The id is never reused, the name (`value$value`) may be."""

    partition_id: int
    partition_name: str


@dataclass(frozen=True)
class SnapshotRetention:
    """How long the snapshots of a lake table are kept.

    Older ones than `max_age_ms` expire, but for the newest `min_count`.
    """

    max_age_ms: int
    min_count: int


@dataclass(frozen=True)
class TableInfo:
    """A source table as its cluster describes it. `schema` has no system columns.

    `added_columns` came after the table was made: they are its last ones, nullable, and writers may not know them. `refusal` says why
    the table cannot be tiered, as far as its description alone tells; None = nothing does. `round_bytes`: so much waiting begins a round
    before the freshness is over; None = only the freshness does. `snapshot_retention` None: snapshots of its lake table never expire.
    `auto_compaction`: rounds merge small files of its lake table. `target_file_bytes`: size of its data files; None = the lake table's own.
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
    lake_format: str = DEFAULT_LAKE_FORMAT
    freshness_ms: int = DEFAULT_FRESHNESS_MS
    added_columns: tuple[str, ...] = ()
    refusal: str | None = None
    round_bytes: int | None = None
    snapshot_retention: SnapshotRetention | None = None
    auto_compaction: bool = False
    target_file_bytes: int | None = None

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

    `bytes_per_record` is their average size, by which a plan estimates without reading; None = the cluster cannot tell, or there is none.
    """

    log_start: int
    log_end: int
    bytes_per_record: float | None = None


@dataclass(frozen=True)
class TableBucket:
    """One bucket among those of all tables."""

    table_id: int
    bucket: BucketKey
