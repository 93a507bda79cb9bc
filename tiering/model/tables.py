"""Tables, partitions, buckets and offsets, and the system columns of every lake table.

An offset counts records from the start of one bucket's log, as in Fluss. A range is `[starting_offset, stopping_offset)`. Times are aware
UTC datetimes, durations whole milliseconds and sizes bytes, unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum

import pyarrow as pa

BUCKET_COLUMN = "__bucket"
OFFSET_COLUMN = "__offset"
TIMESTAMP_COLUMN = "__timestamp"
SYSTEM_COLUMNS = (BUCKET_COLUMN, OFFSET_COLUMN, TIMESTAMP_COLUMN)
"""The columns that follow the source's columns in every lake table, in Fluss's order."""
PRIMARY_KEY = "primary.key"
"""Property in Fluss's words: the columns of the primary key, separated by commas. A table without it is a log table."""
BUCKET_KEY = "bucket.key"
"""Property: the columns whose values choose the bucket of a row, separated by commas."""
BUCKET_NUM = "bucket.num"
"""Property: the number of buckets, in a partitioned table of each partition."""
COMMENT = "comment"
"""Property: the comment of the table."""
TABLE_ID = "table-id"
TABLE_TYPE = "table-type"
PARTITION_KEYS = "partition.keys"
LAKE_PREFIX = "lake."
"""Prefix of the properties that show how the lake copy of a table is."""
DEFAULT_FRESHNESS_MS = 180_000
"""Fluss's default of `table.datalake.freshness` (3 min)."""
DEFAULT_LAKE_FORMAT = "iceberg"
SYSTEM_COLUMN_FIELDS = (
    pa.field(BUCKET_COLUMN, pa.int32(), nullable=False),
    pa.field(OFFSET_COLUMN, pa.int64(), nullable=False),
    pa.field(TIMESTAMP_COLUMN, pa.timestamp("us", tz="UTC"), nullable=False),
)
CHANGE_TYPE_COLUMN = "__change_type"
"""The last column of a batch that is read of a primary-key table. It is never in a lake table."""
CHANGE_TYPE_FIELD = pa.field(CHANGE_TYPE_COLUMN, pa.int8(), nullable=False)
SNAPSHOT_OFFSET = -1
"""`__offset` of a row from a KV snapshot, and its `__timestamp` in milliseconds (Fluss's value)."""


class ChangeType(IntEnum):
    """The kind of change in a log record, with Fluss's numbers."""

    APPEND = 0
    INSERT = 1
    UPDATE_BEFORE = 2
    UPDATE_AFTER = 3
    DELETE = 4

    @property
    def symbol(self) -> str:
        """The text by which SQL and Fluss's command line name the change type."""
        return ("+A", "+I", "-U", "+U", "-D")[self]


class TableType(StrEnum):
    """The content of a table's log: rows, or changes of rows that have a key."""

    LOG = "LOG"
    PRIMARY_KEY = "PRIMARY_KEY"


def is_shown_property(name: str) -> bool:
    """Returns whether SQL shows the property of every table, computed at that moment."""
    return name in (TABLE_ID, TABLE_TYPE, PARTITION_KEYS) or name.startswith(LAKE_PREFIX)


@dataclass(frozen=True, order=True)
class TablePath:
    """The name `database.table`. Code builds it from outside text only with `tiering.model.names.parse_table_path`."""

    database_name: str
    table_name: str

    def __str__(self) -> str:
        return f"{self.database_name}.{self.table_name}"


@dataclass(frozen=True, order=True)
class BucketKey:
    """A bucket of one table, by partition id and bucket id. The partition id is None in a table without partitions."""

    partition_id: int | None
    bucket_id: int

    def __str__(self) -> str:
        """Returns `3`, or `17/3` in partition 17. Markers and MAP columns use this form."""
        return str(self.bucket_id) if self.partition_id is None else f"{self.partition_id}/{self.bucket_id}"

    @staticmethod
    def parse(text: str) -> BucketKey:
        """Returns the key whose str() is `text`. Raises ValueError for any other text, also for one that `int` accepts, such as `00`."""
        partition, slash, bucket = text.rpartition("/")
        key = BucketKey(int(partition) if slash else None, int(bucket))
        if str(key) != text or min(key.bucket_id, key.partition_id or 0) < 0:
            raise ValueError(f"{text!r} is not the name of a bucket")
        return key

    def sort_key(self) -> tuple[int, int]:
        """Returns a key for sorting, also among buckets without a partition."""
        return (-1 if self.partition_id is None else self.partition_id, self.bucket_id)


Offsets = Mapping[BucketKey, int]
"""The offset of the next record to read, per bucket."""

SkippedRecords = Mapping[BucketKey, Mapping[int, str | None]]
"""Offsets of records that `CALL sys.skip_record` left out, per bucket. Each has the record's trace (`RewritableLogs`); None = unknown."""


PARTITION_SEPARATOR = "$"
"""Separates the values in the name of a partition, as in Fluss."""


@dataclass(frozen=True)
class Partition:
    """One partition of a table. Its id is never reused; another partition may later have its name (`value$value`).

    `bucket_count` is its own number of buckets, which never changes; None = that of its table.
    """

    partition_id: int
    partition_name: str
    bucket_count: int | None = None


@dataclass(frozen=True)
class SnapshotRetention:
    """How long the snapshots of a lake table are kept.

    Snapshots older than `max_age_ms` expire, except for the newest `min_count`.
    """

    max_age_ms: int
    min_count: int


UNKNOWN_SNAPSHOT = 0
"""No id of a lake snapshot: Iceberg's are random, and Paimon's begin with 1."""


@dataclass(frozen=True)
class TableInfo:
    """A source table as its cluster describes it. `schema` has no system columns.

    `added_columns` were added after the table was created: they are nullable, and a writer may not know them. `schema_id` grows with each
    change of the columns, and `schema` then has field ids (`schema.field_ids`); 0 = the cluster numbers no columns.
    `refusal` is the reason why the table cannot be tiered, as far as the description shows one; None = no such reason. `round_bytes`: a
    round begins before the freshness is over if this number of bytes waits; None = only the freshness begins rounds. `snapshot_retention`
    None: snapshots of its lake table never expire. `auto_compaction`: rounds merge small files of its lake table. `target_file_bytes` is
    the size of its data files; None = the lake table's own setting. `read_snapshots`: snapshots of its lake table that no commit removes,
    because open reads need them; the cluster does not know them. `kept_since`: no commit removes this snapshot or a later one,
    because reads that were opened since the assignment of a round need them; UNKNOWN_SNAPSHOT = no commit removes any; None = no round.
    `new_layout`: the layout of a new lake table if the options name none; None = the default. `dead_letters_per_hour`: how many records
    that the lake cannot hold may be put aside within an hour; None = a bucket stops before such a record.
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
    schema_id: int = 0
    refusal: str | None = None
    round_bytes: int | None = None
    snapshot_retention: SnapshotRetention | None = None
    auto_compaction: bool = False
    target_file_bytes: int | None = None
    read_snapshots: frozenset[int] = frozenset()
    kept_since: int | None = None
    new_layout: str | None = None
    dead_letters_per_hour: int | None = None

    def lake_schema(self) -> pa.Schema:
        """Returns the columns of its lake table: its own columns, then the system columns."""
        return pa.schema([*self.schema, *SYSTEM_COLUMN_FIELDS])

    def read_schema(self) -> pa.Schema:
        """Returns the columns of a batch of a split: those of the lake table, and for a primary-key table the change type after them."""
        lake = self.lake_schema()
        return lake if self.table_type is TableType.LOG else pa.schema([*lake, CHANGE_TYPE_FIELD])


def bucket_keys_of(table: TableInfo, partitions: Iterable[Partition]) -> list[BucketKey]:
    """Returns all buckets of these partitions; of a table without partition keys, all its buckets."""
    counts: dict[int | None, int] = {None: table.bucket_count}
    if table.partition_keys:
        counts = {partition.partition_id: partition.bucket_count or table.bucket_count for partition in partitions}
    return [BucketKey(partition_id, bucket_id) for partition_id, count in counts.items() for bucket_id in range(count)]


def with_other_buckets(table: TableInfo, partitions: Iterable[Partition]) -> Partition | None:
    """Returns a partition whose number of buckets is not that of its table; None if there is none."""
    return next((partition for partition in partitions if partition.bucket_count not in (None, table.bucket_count)), None)


@dataclass(frozen=True)
class BucketOffsets:
    """The range of records that a bucket's log holds now: `[log_start, log_end)`.

    `bytes_per_record` is their average size, which a plan uses for estimates; None = the cluster cannot tell, or there is no record.
    """

    log_start: int
    log_end: int
    bytes_per_record: float | None = None


@dataclass(frozen=True)
class TableBucket:
    """One bucket, with the id of its table."""

    table_id: int
    bucket: BucketKey
