"""The options of a table, one line each. All checks, listings and pages of table options come from these lines. Pure.

Options whose names begin with `iceberg.` are in `tiering.lake.iceberg_options`. All values are text until `TableOption.of` parses them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum, StrEnum, auto
from typing import Any, Generic, TypeVar

from tiering.durations import LEAST_FRESHNESS_MS, format_duration, parse_duration_ms
from tiering.errors import InvalidArgument
from tiering.lake.iceberg_options import PREFIX, option_named
from tiering.lake.layouts import Layout
from tiering.lake.registry import format_names, has_format
from tiering.lake.schema.file_order import NONE, parse_partition, parse_sort
from tiering.model.tables import BUCKET_KEY, BUCKET_NUM, COMMENT, DEFAULT_FRESHNESS_MS, DEFAULT_LAKE_FORMAT, SnapshotRetention, TableInfo

T = TypeVar("T")
ChoiceT = TypeVar("ChoiceT", bound=StrEnum)

FOR_EVER = "for ever"
HIDDEN_VALUE = "***"
"""Shown in place of a value that may be a secret."""
LEAST_MAX_AGE_MS = 60_000
"""Lower bound of the age. With a shorter one, a statement that just began could lose the snapshot that it reads."""
MAX_MIN_COUNT = 100_000
MAX_DEAD_LETTERS_PER_HOUR = 10_000
"""Upper bound of the option. The marker of every later commit, and every assignment, names all records that were put aside."""

_PUBLIC_NAMES = (BUCKET_KEY, BUCKET_NUM, COMMENT)
LAKE_CATALOG_PROPERTY = re.compile(r"table\.datalake\.(iceberg|paimon|lance|hudi)\.")
"""Beginning of options that come from `datalake.<format>.<name>` in the configuration of a Fluss cluster (observed on 0.9.1)."""
_UNITS = {"": 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}
_SIZE = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,6})?)\s*([kmgt]?)(i?b|bytes?)?", re.ASCII)
"""Fluss's form of memory sizes (`64mb`, `1 gb`): units are powers of 1,024, and `mib` means the same as `mb`."""


class FlussSupport(Enum):
    """The place where a Fluss cluster has an option. `LAKEWARD`: Fluss refuses the option, and the coordinator stores it. `CUSTOM`: Fluss
    keeps it among the custom properties of a new table. `NEVER`: its tables cannot have the option, and `fluss_note` tells the reason.
    """

    UNKNOWN = auto()
    NEVER = auto()
    NEW_TABLES = auto()
    ALTERABLE = auto()
    LAKEWARD = auto()
    CUSTOM = auto()


class OnDropColumn(StrEnum):
    """The effect of dropping a source column on the column of the lake table."""

    KEEP = "keep"
    DROP = "drop"


class OnBadRecord(StrEnum):
    """The effect of a record that the lake cannot hold."""

    STOP = "stop"
    DEAD_LETTER = "dead-letter"


@dataclass(frozen=True)
class TableOption(Generic[T]):
    """One option. `parse` converts text and the option's name to the value, and raises InvalidArgument that names the option."""

    name: str
    default: str
    parse: Callable[[str, str], T]
    meaning: str
    on_fluss: FlussSupport = FlussSupport.UNKNOWN
    fluss_note: str = ""
    """A sentence on the option's effect or default on a Fluss cluster, where it differs."""
    only_before_lake_table: bool = False
    """Whether the option cannot change once the lake table exists."""
    if_absent: str | None = None
    """Value of a table without the option; None = the default. It differs if older versions did not store the option."""

    def __str__(self) -> str:
        return self.name

    def of(self, options: Mapping[str, str]) -> T:
        """Returns the value for a table with these options. Raises InvalidArgument that names the option."""
        return self.parse(options.get(self.name, self.if_absent or self.default), self.name)


def _boolean(text: str, name: str) -> bool:
    value = text.strip().lower()
    if value not in ("true", "false"):
        raise InvalidArgument(f"the option {name} is {text[:60]!r}; it must be true or false")
    return value == "true"


def _duration_ms(text: str, name: str) -> int:
    return parse_duration_ms(text, f"value of {name}")


def _positive_ms(text: str, name: str) -> int:
    if not (milliseconds := _duration_ms(text, name)):
        raise InvalidArgument(f"the option {name} must be longer than zero")
    return milliseconds


def _positive_ms_or_for_ever(text: str, name: str) -> int | None:
    return None if text == FOR_EVER else _positive_ms(text, name)


def _max_age_ms(text: str, name: str) -> int:
    milliseconds = _duration_ms(text, name)
    if milliseconds < LEAST_MAX_AGE_MS:
        shortest = f"The shortest age is {format_duration(LEAST_MAX_AGE_MS)}."
        raise InvalidArgument(f"the option {name} is {text[:60]!r}", hint=shortest)
    return milliseconds


def _min_count(text: str, name: str) -> int:
    return _count(text, name, "snapshots", MAX_MIN_COUNT)


def _dead_letters_per_hour(text: str, name: str) -> int:
    return _count(text, name, "records", MAX_DEAD_LETTERS_PER_HOUR)


def _count(text: str, name: str, counted_things: str, maximum: int) -> int:
    digits = text.strip()
    count = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else 0
    if not 1 <= count <= maximum:
        raise InvalidArgument(f"the option {name} is {digits[:60]!r}", hint=f"It is a number of {counted_things}, 1 to {maximum:,}.")
    return count


def _size(text: str) -> int:
    """Returns a size such as `64 mb` in bytes; 0 if the text is not a size."""
    match = _SIZE.fullmatch(text.strip().lower())
    return 0 if match is None else int(Decimal(match[1]) * _UNITS[match[2] + "b"])


def _round_bytes(text: str, name: str) -> int | None:
    if text.strip().lower() == NONE:
        return None
    if not 1 <= (size := _size(text)) <= 1 << 60:
        raise InvalidArgument(
            f"the option {name} is {text[:60]!r}, which is not a valid size",
            hint=f"Write a number and a unit: '64 mb', '1 gb', '500000'. Write {NONE!r} if only the freshness shall begin rounds.",
        )
    return size


def _file_bytes(text: str, name: str) -> int | None:
    if text.strip().lower() == NONE:
        return None
    if not 1 << 10 <= (size := _size(text)) <= 64 << 30:
        raise InvalidArgument(
            f"the option {name} is {text[:60]!r}",
            hint=f"Write a size from '1 kb' to '64 gb', such as '256 mb'; or {NONE!r} for the lake table's own size.",
        )
    return size


def _format(text: str, name: str) -> str:
    if not has_format(text):
        raise InvalidArgument(f"the option {name} is {text!r}", hint=f"Supported: {', '.join(format_names())}.")
    return text.lower()


def _layout(text: str, name: str) -> Layout:
    return _chosen(Layout, text, name)


def _on_bad_record(text: str, name: str) -> OnBadRecord:
    return _chosen(OnBadRecord, text, name)


def _on_drop_column(text: str, name: str) -> OnDropColumn:
    return _chosen(OnDropColumn, text, name)


def _chosen(choices: type[ChoiceT], text: str, name: str) -> ChoiceT:
    try:
        return choices(text.lower())
    except ValueError as error:
        raise InvalidArgument(f"the option {name} is {text[:60]!r}", hint=f"It may be: {', '.join(choices)}.") from error


_FLUSS_FILE_ORDER = "Tables of Fluss do not have it, because Fluss fixes the partitions and the order of its lake tables."

# fmt: off
ENABLED = TableOption(
    "table.datalake.enabled", "false", _boolean, on_fluss=FlussSupport.ALTERABLE,
    meaning="Whether the table is tiered into the lake. `lakeward ingest` sets it for the tables that it creates.",
)
FRESHNESS = TableOption(
    "table.datalake.freshness", format_duration(DEFAULT_FRESHNESS_MS), _duration_ms, on_fluss=FlussSupport.ALTERABLE,
    meaning="Maximum age of the table's lake copy, such as `30 s` or `5 min`.",
)
FORMAT = TableOption(
    "table.datalake.format", DEFAULT_LAKE_FORMAT, _format, on_fluss=FlussSupport.NEW_TABLES, only_before_lake_table=True,
    meaning="Format of the lake table.",
)
LAYOUT = TableOption(
    "table.datalake.layout", Layout.CLEAN.value, _layout, on_fluss=FlussSupport.CUSTOM,
    only_before_lake_table=True, if_absent=Layout.SYSTEM_COLUMNS.value,
    meaning="Layout of a new lake table: `system-columns` or `clean`. An existing lake table keeps its layout; tables of older versions "
    "have `system-columns`.",
    fluss_note="It is set when the table is created. The default is `system-columns` on Fluss 0.9 and `clean` from 1.0 on.",
)
ROUND_BYTES = TableOption(
    "table.datalake.round.bytes", NONE, _round_bytes, on_fluss=FlussSupport.LAKEWARD,
    meaning="A round begins before the freshness has passed once this much data waits, such as `256 mb`. `none`: only the freshness "
    "decides.",
    fluss_note="It has no effect where a shared Fluss assigns tables.",
)
AUTO_EXPIRE = TableOption(
    "table.datalake.auto-expire-snapshot", "true", _boolean, on_fluss=FlussSupport.NEW_TABLES,
    meaning="Whether snapshots of the lake table expire. The commits of rounds remove them.",
    fluss_note="On Fluss the default is false.",
)
SNAPSHOT_MAX_AGE = TableOption(
    "table.datalake.snapshot.max-age", "1 d", _max_age_ms, on_fluss=FlussSupport.LAKEWARD,
    meaning="Age at which a snapshot expires. Of the younger snapshots, one stays for each 96th part of the age (15 min of a day), for "
    "`TIMESTAMP AS OF`.",
)
SNAPSHOT_MIN_COUNT = TableOption(
    "table.datalake.snapshot.min-count", "10", _min_count, on_fluss=FlussSupport.LAKEWARD,
    meaning="Number of the newest snapshots that never expire.",
)
AUTO_COMPACTION = TableOption(
    "table.datalake.auto-compaction", "true", _boolean, on_fluss=FlussSupport.NEW_TABLES,
    meaning="Whether rounds merge small files of the lake table.",
    fluss_note="On Fluss the default is false.",
)
TARGET_FILE_SIZE = TableOption(
    "table.datalake.target-file-size", NONE, _file_bytes, on_fluss=FlussSupport.LAKEWARD,
    meaning="Size of the lake table's data files, such as `256 mb`: writers end a file at this size, and small files are merged up to it. "
    "`none`: the lake table's own property, or its format's default.",
)
ON_DROP_COLUMN = TableOption(
    "table.datalake.on-drop-column", OnDropColumn.KEEP.value, _on_drop_column,
    meaning="The effect of dropping a column on the lake table: `keep` (the column stays there, nullable, and is NULL in new rows) or "
    "`drop` (readers no longer see it).",
    on_fluss=FlussSupport.NEVER, fluss_note="Tables of Fluss do not have it, because Fluss 0.9.1 drops no columns.",
)
ON_BAD_RECORD = TableOption(
    "table.datalake.on-bad-record", OnBadRecord.STOP.value, _on_bad_record, on_fluss=FlussSupport.LAKEWARD,
    meaning="The effect of a record that the lake cannot hold: `stop` (its bucket stops before the record) or `dead-letter` (the record is "
    "put into the lake table `<table>__dead_letters`, and its bucket continues).",
)
DEAD_LETTERS_PER_HOUR = TableOption(
    "table.datalake.dead-letters-per-hour", "100", _dead_letters_per_hour, on_fluss=FlussSupport.LAKEWARD,
    meaning="Number of records of the table that are put aside within an hour. A bucket stops at the next one, as with `stop`.",
)
PARTITION = TableOption(
    "table.datalake.partition", NONE, parse_partition,
    meaning="Partition of a log table's lake table for readers, such as `day(ts), bucket(8, id)`: columns, and `years`, "
    "`months`, `days`, `hours`, `bucket(n, c)`, `truncate(width, c)` of columns.",
    on_fluss=FlussSupport.NEVER, fluss_note=_FLUSS_FILE_ORDER,
)
SORT = TableOption(
    "table.datalake.sort", NONE, parse_sort,
    meaning="Columns by which the rows within each new file of a log table's lake table are sorted, such as `customer, ts DESC`. "
    "With `none` they stay in the order of the log.",
    on_fluss=FlussSupport.NEVER, fluss_note=_FLUSS_FILE_ORDER,
)
LOG_TTL = TableOption(
    "table.log.ttl", FOR_EVER, _positive_ms_or_for_ever, on_fluss=FlussSupport.NEW_TABLES,
    meaning="Minimum time for which records stay in the log, such as `7 d`; records that the lake still needs stay longer. Fluss: 7 days.",
)
KV_SNAPSHOT_INTERVAL = TableOption(
    "table.kv.snapshot.interval", "10 min", _positive_ms,
    meaning="How often a KV snapshot is taken of each changed bucket of a primary-key table (Fluss's `kv.snapshot.interval`).",
)
# fmt: on

TABLE_OPTIONS: Mapping[str, TableOption[Any]] = {
    option.name: option
    for option in (
        ENABLED,
        FRESHNESS,
        FORMAT,
        LAYOUT,
        ROUND_BYTES,
        AUTO_EXPIRE,
        SNAPSHOT_MAX_AGE,
        SNAPSHOT_MIN_COUNT,
        AUTO_COMPACTION,
        TARGET_FILE_SIZE,
        ON_DROP_COLUMN,
        ON_BAD_RECORD,
        DEAD_LETTERS_PER_HOUR,
        PARTITION,
        SORT,
        LOG_TTL,
        KV_SNAPSHOT_INTERVAL,
    )
}
"""The options of a table of the embedded cluster, by name. `on_fluss` tells which of them a table of a Fluss cluster has."""


def with_options(table: TableInfo, options: Mapping[str, str], defaults: Mapping[str, str]) -> TableInfo:
    """Returns the table with these options and the values that follow from them. `defaults` replace the declared defaults.

    Raises InvalidArgument that names an option.
    """
    effective = {**defaults, **options}
    return replace(
        table,
        properties=options,
        lake_enabled=ENABLED.of(effective),
        lake_format=FORMAT.of(effective),
        freshness_ms=max(FRESHNESS.of(effective), LEAST_FRESHNESS_MS),
        round_bytes=ROUND_BYTES.of(effective),
        snapshot_retention=snapshot_retention(effective) if AUTO_EXPIRE.of(effective) else None,
        auto_compaction=AUTO_COMPACTION.of(effective),
        target_file_bytes=TARGET_FILE_SIZE.of(effective),
        dead_letters_per_hour=dead_letters_per_hour(effective),
    )


def dead_letters_per_hour(options: Mapping[str, str]) -> int | None:
    """Returns how many records of a table may be put aside within an hour; None if a bucket stops before such a record.

    Raises InvalidArgument that names the option.
    """
    limit = DEAD_LETTERS_PER_HOUR.of(options)
    return limit if ON_BAD_RECORD.of(options) is OnBadRecord.DEAD_LETTER else None


def snapshot_retention(options: Mapping[str, str]) -> SnapshotRetention:
    """Returns age and count of a table's options, also if its snapshots never expire. Raises InvalidArgument that names the option."""
    return SnapshotRetention(SNAPSHOT_MAX_AGE.of(options), SNAPSHOT_MIN_COUNT.of(options))


def public_options(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options of a table whose values every caller may see. Fluss's own options are numbers and choices, except for the
    properties of a lake catalog. Any other option that Lakeward does not know may be a secret.
    """
    return {name: value for name, value in options.items() if _is_public(name)}


def _is_public(name: str) -> bool:
    if name in _PUBLIC_NAMES or (name.startswith("table.") and not LAKE_CATALOG_PROPERTY.match(name)):
        return True
    return name.startswith(PREFIX) and option_named(name.removeprefix(PREFIX)) is not None


def new_layout_of(table: TableInfo) -> Layout:
    """Returns the layout with which a lake table of this table is created."""
    default = {} if table.new_layout is None else {LAYOUT.name: table.new_layout}
    return LAYOUT.of({**default, **table.properties})


def shown_options(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options of a table as every caller may see them: all names, and the values of public options."""
    return {**dict.fromkeys(options, HIDDEN_VALUE), **public_options(options)}
