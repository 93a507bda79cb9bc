"""Options of tables on a Fluss cluster. Pure.

Fluss's own options are set with AlterTable. The coordinator keeps Lakeward's options, because Fluss refuses unknown ones.
"""

from __future__ import annotations

from collections.abc import Iterable

from tiering.cluster.fluss.table_json import LAKE_ENABLED, LAKE_FRESHNESS
from tiering.durations import check_freshness, parse_duration_ms
from tiering.errors import InvalidArgument
from tiering.lake.rules.upkeep.compaction_options import TARGET_FILE_SIZE, target_file_bytes_of
from tiering.lake.rules.upkeep.snapshot_options import SNAPSHOT_MAX_AGE, SNAPSHOT_MIN_COUNT, snapshot_retention_of
from tiering.lake_table_options import check_table_options, check_text
from tiering.name_matching import nearest_names
from tiering.round_bytes import ROUND_BYTES, round_bytes_of

LOCAL_SEGMENTS = "table.log.tiered.local-segments"
ALTERABLE = (LAKE_ENABLED, LAKE_FRESHNESS, LOCAL_SEGMENTS)
"""Options that Fluss 0.9.1 can alter. It refuses any other `table.` option, so such an option is refused here, with that reason."""
OWN = frozenset({ROUND_BYTES, SNAPSHOT_MAX_AGE, SNAPSHOT_MIN_COUNT, TARGET_FILE_SIZE})
"""Lakeward's options among those that begin with `table.`."""
FLUSS_PREFIX = "table."
KNOWN_OF_FLUSS = (
    *ALTERABLE,
    "table.auto-increment.cache-size",
    "table.auto-partition.enabled",
    "table.auto-partition.key",
    "table.auto-partition.num-precreate",
    "table.auto-partition.num-retention",
    "table.auto-partition.time-unit",
    "table.auto-partition.time-zone",
    "table.changelog.image",
    "table.datalake.auto-compaction",
    "table.datalake.auto-expire-snapshot",
    "table.datalake.format",
    "table.delete.behavior",
    "table.kv.format",
    "table.kv.format-version",
    "table.log.arrow.compression.type",
    "table.log.arrow.compression.zstd.level",
    "table.log.format",
    "table.log.ttl",
    "table.merge-engine",
    "table.merge-engine.versioned.ver-column",
    "table.replication.factor",
)
"""Options of a new table in Fluss 0.9.1. A later version has more: only Fluss decides what it accepts, and this list serves only for
hints.
"""


def is_of_fluss(name: str) -> bool:
    """Returns whether an option is Fluss's own."""
    return name.startswith(FLUSS_PREFIX) and name not in OWN


def nearest_known(names: Iterable[str]) -> str:
    """Returns a hint about those of `names` that Fluss 0.9.1 does not have; empty if it has all of them."""
    hints: list[str] = []
    for name in names:
        if is_of_fluss(name) and name not in KNOWN_OF_FLUSS:
            near = nearest_names(name, KNOWN_OF_FLUSS, 1)
            hints.append(f"Fluss 0.9.1 has no option {name[:60]!r}" + (f"; did you mean {near[0]}?" if near else "."))
    return " ".join(hints)


def check_option(name: str, value: str | None) -> None:
    """Raises InvalidArgument for an option that cannot be set on a Fluss cluster, or an invalid value; None = the default."""
    check_text(name, value or "")
    if not is_of_fluss(name):
        if value is not None:
            _check_own({name: value})
        return
    if name not in ALTERABLE:
        raise InvalidArgument(
            f"Fluss cannot alter the option {name!r} of an existing table",
            hint=f"Fluss 0.9.1 can alter only {', '.join(ALTERABLE)}; {', '.join(sorted(OWN))} are Lakeward's. "
            "Recreate the table with another value, or change the cluster's own setting.",
        )
    if value is None:
        return
    if name == LAKE_ENABLED and value.lower() not in ("true", "false"):
        raise InvalidArgument(f"the option {name!r} is {value[:60]!r}", hint="It may be: true, false.")
    if name == LAKE_FRESHNESS:
        check_freshness(parse_duration_ms(value, name))
    if name == LOCAL_SEGMENTS and not (value.isascii() and value.isdigit() and int(value) > 0):
        raise InvalidArgument(f"the option {name!r} is {value[:60]!r}", hint="It is a number of segments, 1 or more.")


def _check_own(option: dict[str, str]) -> None:
    """Raises InvalidArgument for an invalid value of one of Lakeward's options."""
    round_bytes_of(option)
    snapshot_retention_of(option, expires_by_default=False)
    target_file_bytes_of(option)
    if not OWN & option.keys():
        check_table_options(option)


def in_fluss_words(name: str, value: str) -> str:
    """Returns the value in the form that Fluss reads: its durations allow no ISO 8601, no fractions, and no blanks within some units."""
    return f"{parse_duration_ms(value, name)}ms" if name == LAKE_FRESHNESS else value.lower() if name == LAKE_ENABLED else value
