"""The table options that define how long lake snapshots are kept. Pure.

Fluss has `table.datalake.auto-expire-snapshot` (default false); the other two options are Lakeward's. The embedded cluster expires
snapshots unless the table's option says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tiering.durations import format_duration, parse_duration_ms
from tiering.errors import InvalidArgument
from tiering.model.tables import SnapshotRetention, TableInfo
from tiering.model.upkeep import ExpiryOrder

AUTO_EXPIRE = "table.datalake.auto-expire-snapshot"
SNAPSHOT_MAX_AGE = "table.datalake.snapshot.max-age"
SNAPSHOT_MIN_COUNT = "table.datalake.snapshot.min-count"

DEFAULT_MAX_AGE_MS = 86_400_000
DEFAULT_MIN_COUNT = 10
DEFAULT_MAX_AGE = format_duration(DEFAULT_MAX_AGE_MS)

LEAST_MAX_AGE_MS = 60_000
"""Lower bound of the age. With a shorter one, a statement that just began could lose the snapshot that it reads."""

MAX_MIN_COUNT = 100_000


def snapshot_retention_of(properties: Mapping[str, str], *, expires_by_default: bool) -> SnapshotRetention | None:
    """Returns the retention of the table's options; None = its snapshots never expire. Raises InvalidArgument that names the option."""
    retention = optional_retention(properties)
    return retention if _expires(properties, expires_by_default) else None


def optional_retention(properties: Mapping[str, str]) -> SnapshotRetention:
    """Returns age and count of the table's options, also if its snapshots never expire. Raises InvalidArgument that names the option."""
    max_age_ms = DEFAULT_MAX_AGE_MS
    if (text := properties.get(SNAPSHOT_MAX_AGE)) is not None:
        max_age_ms = parse_duration_ms(text, f"value of {SNAPSHOT_MAX_AGE}")
    if max_age_ms < LEAST_MAX_AGE_MS:
        raise InvalidArgument(
            f"the option {SNAPSHOT_MAX_AGE} is {properties[SNAPSHOT_MAX_AGE][:60]!r}",
            hint=f"The shortest age is {format_duration(LEAST_MAX_AGE_MS)}.",
        )
    return SnapshotRetention(max_age_ms, _min_count(properties))


@dataclass(frozen=True)
class ExpiryRule:
    """The rule by which a commit removes snapshots. `thins`: within the maximum age only one of each slot stays (`snapshot_expiry`)."""

    retention: SnapshotRetention
    thins: bool = True


def expiry_rule(table: TableInfo, order: ExpiryOrder | None, now_ms: int) -> ExpiryRule | None:
    """Returns the rule for a commit to the table; None = it removes nothing. An order also applies to a table without automatic expiry.

    The table's options replace what the order leaves out. An age that a user orders is taken literally: no younger snapshot is removed.
    """
    if order is None:
        return None if table.snapshot_retention is None else ExpiryRule(table.snapshot_retention)
    usual = table.snapshot_retention or optional_retention(table.properties)
    min_count = usual.min_count if order.retain_last is None else order.retain_last
    if order.older_than is None:
        return ExpiryRule(SnapshotRetention(usual.max_age_ms, min_count), thins=table.snapshot_retention is not None)
    age_ms = max(0, now_ms - int(order.older_than.timestamp() * 1_000))
    return ExpiryRule(SnapshotRetention(age_ms, min_count), thins=False)


def _min_count(properties: Mapping[str, str]) -> int:
    text = properties.get(SNAPSHOT_MIN_COUNT, str(DEFAULT_MIN_COUNT)).strip()
    count = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if not 1 <= count <= MAX_MIN_COUNT:
        raise InvalidArgument(
            f"the option {SNAPSHOT_MIN_COUNT} is {text[:60]!r}", hint=f"It is a number of snapshots, 1 to {MAX_MIN_COUNT:,}."
        )
    return count


def _expires(properties: Mapping[str, str], default: bool) -> bool:
    value = properties.get(AUTO_EXPIRE, str(default)).strip().lower()
    if value not in ("true", "false"):
        raise InvalidArgument(f"the option {AUTO_EXPIRE} is {value[:60]!r}; it must be true or false")
    return value == "true"
