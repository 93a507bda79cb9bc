"""Table options: the `table.datalake.*` options and `table.log.ttl` of Fluss, and options of the embedded cluster.

An unknown `table.*` or `iceberg.*` option is refused, never ignored (`tiering.lake_table_options`). Options with another first word are
stored unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tiering.durations import LEAST_FRESHNESS_MS, check_freshness, format_duration, parse_duration_ms
from tiering.errors import InvalidArgument
from tiering.lake.layouts import LAYOUT_OPTION, Layout, configured_layout
from tiering.lake.registry import format_names, has_format
from tiering.lake.rules.upkeep.compaction_options import AUTO_COMPACTION, LAKES_OWN, TARGET_FILE_SIZE, target_file_bytes_of
from tiering.lake.rules.upkeep.snapshot_options import (
    AUTO_EXPIRE,
    DEFAULT_MAX_AGE,
    DEFAULT_MIN_COUNT,
    SNAPSHOT_MAX_AGE,
    SNAPSHOT_MIN_COUNT,
    snapshot_retention_of,
)
from tiering.lake_table_options import LAKE_TABLE_OPTIONS, PREFIX, check_table_options, check_text, option_named
from tiering.model.tables import DEFAULT_FRESHNESS_MS, DEFAULT_LAKE_FORMAT, SnapshotRetention
from tiering.name_matching import nearest_names
from tiering.round_bytes import NO_LIMIT, ROUND_BYTES, round_bytes_of

LAKE_ENABLED = "table.datalake.enabled"
"""Whether the table is tiered into the lake. `lakeward ingest` sets it for the tables that it creates."""
LAKE_FRESHNESS = "table.datalake.freshness"
"""Maximum age of the table's lake copy, such as `30 s` or `5 min`."""
LAKE_FORMAT = "table.datalake.format"
"""Format of the lake table."""
LAKE_LAYOUT = LAYOUT_OPTION
"""Layout of a new lake table: `system-columns` or `clean`. An existing lake table keeps its layout; tables of older versions have
`system-columns`.
"""
LAKE_ROUND_BYTES = ROUND_BYTES
"""A round begins before the freshness has passed once this much data waits, such as `256 mb`. `none`: only the freshness decides."""
LAKE_AUTO_EXPIRE = AUTO_EXPIRE
"""Whether snapshots of the lake table expire. The commits of rounds remove them."""
LAKE_SNAPSHOT_MAX_AGE = SNAPSHOT_MAX_AGE
"""Age at which a snapshot expires. Of the younger snapshots, one stays for each 96th part of the age (15 min of a day), for `TIMESTAMP AS
OF`.
"""
LAKE_SNAPSHOT_MIN_COUNT = SNAPSHOT_MIN_COUNT
"""Number of the newest snapshots that never expire."""
LAKE_AUTO_COMPACTION = AUTO_COMPACTION
"""Whether rounds merge small files of the lake table."""
LAKE_TARGET_FILE_SIZE = TARGET_FILE_SIZE
"""Size of the lake table's data files, such as `256 mb`: writers end a file at this size, and small files are merged up to it. `none`: the
lake table's own property, or its format's default.
"""
LOG_TTL = "table.log.ttl"
"""Minimum time for which records stay in the log, such as `7 d`; records that the lake still needs stay longer. Fluss: 7 days."""
KV_SNAPSHOT_INTERVAL = "table.kv.snapshot.interval"
"""How often a KV snapshot is taken of each changed bucket of a primary-key table (Fluss's `kv.snapshot.interval`)."""
DEFAULT_KV_SNAPSHOT_INTERVAL_MS = 600_000
FOR_EVER = "for ever"
DEFAULTS = {
    LAKE_ENABLED: "false",
    LAKE_FRESHNESS: format_duration(DEFAULT_FRESHNESS_MS),
    LAKE_FORMAT: DEFAULT_LAKE_FORMAT,
    LAKE_LAYOUT: Layout.CLEAN.value,
    LAKE_ROUND_BYTES: NO_LIMIT,
    LAKE_AUTO_EXPIRE: "true",
    LAKE_SNAPSHOT_MAX_AGE: DEFAULT_MAX_AGE,
    LAKE_SNAPSHOT_MIN_COUNT: str(DEFAULT_MIN_COUNT),
    LAKE_AUTO_COMPACTION: "true",
    LAKE_TARGET_FILE_SIZE: LAKES_OWN,
    LOG_TTL: FOR_EVER,
    KV_SNAPSHOT_INTERVAL: format_duration(DEFAULT_KV_SNAPSHOT_INTERVAL_MS),
}
KNOWN_OPTIONS = tuple(DEFAULTS)
MAX_OPTION_LENGTH = 2_000
"""Maximum length of a name or a value in characters; every listing of tables contains the options."""
MAX_OPTIONS = 200
"""Maximum number of options, so that a table's description always fits in a message."""


@dataclass(frozen=True)
class LakeOptions:
    """The options of a table that concern its lake copy."""

    enabled: bool = False
    freshness_ms: int = DEFAULT_FRESHNESS_MS
    format: str = DEFAULT_LAKE_FORMAT
    round_bytes: int | None = None
    snapshot_retention: SnapshotRetention | None = None
    auto_compaction: bool = True
    target_file_bytes: int | None = None


@dataclass(frozen=True)
class MaintenanceOptions:
    """The options of a table that concern its maintenance. With `log_ttl_ms` None its log is kept for ever."""

    log_ttl_ms: int | None = None
    kv_snapshot_interval_ms: int = DEFAULT_KV_SNAPSHOT_INTERVAL_MS


def with_layout(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the options of a new table, which always name its layout: tables without a layout are from a version that had only one."""
    return {LAKE_LAYOUT: DEFAULTS[LAKE_LAYOUT], **properties}


def check_new_options(properties: Mapping[str, str]) -> None:
    """Raises InvalidArgument naming an option that a new table cannot have."""
    parse_lake_options(properties)
    check_new_freshness(properties)
    parse_maintenance_options(properties)
    check_table_options(properties)


def check_new_freshness(properties: Mapping[str, str]) -> None:
    """Raises InvalidArgument for a freshness that cannot be set any more, although tables of older versions may have it."""
    if (milliseconds := _positive_ms(properties, LAKE_FRESHNESS)) is not None:
        check_freshness(milliseconds)


def parse_maintenance_options(properties: Mapping[str, str]) -> MaintenanceOptions:
    """Parses the maintenance options. Raises InvalidArgument naming the option."""
    interval_ms = _positive_ms(properties, KV_SNAPSHOT_INTERVAL)
    ttl_ms = None if properties.get(LOG_TTL) == FOR_EVER else _positive_ms(properties, LOG_TTL)
    return MaintenanceOptions(ttl_ms, interval_ms or DEFAULT_KV_SNAPSHOT_INTERVAL_MS)


def parse_lake_options(properties: Mapping[str, str]) -> LakeOptions:
    """Parses the lake options. Raises InvalidArgument naming the option."""
    if len(properties) > MAX_OPTIONS:
        raise InvalidArgument(f"a table may have at most {MAX_OPTIONS} options; this one has {len(properties)}")
    for name, value in properties.items():
        check_option_name(name)
        if len(value) > MAX_OPTION_LENGTH:
            raise InvalidArgument(f"the option {name!r} is longer than {MAX_OPTION_LENGTH} characters")
    configured_layout(properties)
    return LakeOptions(
        enabled=_boolean(LAKE_ENABLED, properties.get(LAKE_ENABLED, DEFAULTS[LAKE_ENABLED])),
        freshness_ms=max(_positive_ms(properties, LAKE_FRESHNESS) or DEFAULT_FRESHNESS_MS, LEAST_FRESHNESS_MS),
        format=_format(properties.get(LAKE_FORMAT, DEFAULTS[LAKE_FORMAT])),
        round_bytes=round_bytes_of(properties),
        snapshot_retention=snapshot_retention_of(properties, expires_by_default=True),
        auto_compaction=_boolean(LAKE_AUTO_COMPACTION, properties.get(LAKE_AUTO_COMPACTION, DEFAULTS[LAKE_AUTO_COMPACTION])),
        target_file_bytes=target_file_bytes_of(properties),
    )


def check_option_name(name: str) -> None:
    """Raises InvalidArgument for a name that no option may have."""
    if not name or len(name) > MAX_OPTION_LENGTH:
        raise InvalidArgument(f"the option {name[:60]!r} is empty or longer than {MAX_OPTION_LENGTH} characters")
    if name.startswith("table.") and name not in KNOWN_OPTIONS:
        raise InvalidArgument(f"unknown table option {name!r}", hint=f"Known options: {', '.join(KNOWN_OPTIONS)}.")


def check_documented_option(name: str) -> None:
    """Raises InvalidArgument for a name that is not in docs/options.md, with the nearest documented names."""
    check_option_name(name)
    check_text(name, "")
    if name in KNOWN_OPTIONS:
        return
    if name.startswith(PREFIX):
        if option_named(name.removeprefix(PREFIX)) is None:
            check_table_options({name: ""})  # names the allowed options
        return
    documented = [*KNOWN_OPTIONS, *(PREFIX + option for option in LAKE_TABLE_OPTIONS)]
    near = nearest_names(name, documented, 3, cutoff=0.5)
    hint = f"The nearest names are {', '.join(near)}." if near else "docs/options.md lists all options."
    raise InvalidArgument(f"there is no table option {name[:60]!r}", hint=hint)


def _boolean(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise InvalidArgument(f"the option {name} is {value!r}; it must be true or false")
    return value.lower() == "true"


def _positive_ms(properties: Mapping[str, str], name: str) -> int | None:
    if name not in properties:
        return None
    milliseconds = parse_duration_ms(properties[name], f"value of {name}")
    if milliseconds == 0:
        raise InvalidArgument(f"the option {name} must be longer than zero")
    return milliseconds


def _format(value: str) -> str:
    if not has_format(value):
        raise InvalidArgument(f"the option {LAKE_FORMAT} is {value!r}", hint=f"Supported: {', '.join(format_names())}.")
    return value.lower()
