"""Options of tables on a Fluss cluster. Pure.

Fluss's own options are set with AlterTable. The coordinator keeps Lakeward's options, because Fluss refuses unknown ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tiering.durations import check_freshness
from tiering.errors import InvalidArgument
from tiering.lake.iceberg_options import check_table_options, check_text
from tiering.lake.table_options import ENABLED, FRESHNESS, TABLE_OPTIONS, FlussSupport
from tiering.name_matching import nearest_names
from tiering.rpc.fluss import fluss_pb2 as pb

_SET, _DELETE = 0, 1
"""`op_type` of an option in AlterTable."""
LOCAL_SEGMENTS = "table.log.tiered.local-segments"
ALTERABLE = (*(option.name for option in TABLE_OPTIONS.values() if option.on_fluss is FlussSupport.ALTERABLE), LOCAL_SEGMENTS)
"""Options that Fluss 0.9.1 can alter. It refuses any other `table.` option, so such an option is refused here, with that reason."""
CUSTOM = frozenset(option.name for option in TABLE_OPTIONS.values() if option.on_fluss is FlussSupport.CUSTOM)
"""Options that Fluss keeps among the custom properties of a new table."""
OWN = CUSTOM | {option.name for option in TABLE_OPTIONS.values() if option.on_fluss is FlussSupport.LAKEWARD}
"""Lakeward's options among those that begin with `table.`."""
FLUSS_PREFIX = "table."
KNOWN_OF_FLUSS = (
    *ALTERABLE,
    *(option.name for option in TABLE_OPTIONS.values() if option.on_fluss is FlussSupport.NEW_TABLES),
    "table.auto-increment.cache-size",
    "table.auto-partition.enabled",
    "table.auto-partition.key",
    "table.auto-partition.num-precreate",
    "table.auto-partition.num-retention",
    "table.auto-partition.time-unit",
    "table.auto-partition.time-zone",
    "table.changelog.image",
    "table.delete.behavior",
    "table.kv.format",
    "table.kv.format-version",
    "table.log.arrow.compression.type",
    "table.log.arrow.compression.zstd.level",
    "table.log.format",
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
            advice = f". {note.strip()}" if (note := _note(name)) else f"; did you mean {near[0]}?" if near else "."
            hints.append(f"Fluss 0.9.1 has no option {name[:60]!r}{advice}")
    return " ".join(hints)


def check_option(name: str, value: str | None) -> None:
    """Raises InvalidArgument for an option that cannot be set on a Fluss cluster, or an invalid value; None = the default."""
    check_text(name, value or "")
    if name in CUSTOM:
        raise InvalidArgument(
            f"the option {name!r} of a table of a Fluss cluster cannot be changed",
            hint="It is set when the table is created, among its options.",
        )
    if not is_of_fluss(name):
        if value is not None:
            check_own({name: value})
            check_table_options({name: value})
        return
    if name not in ALTERABLE:
        raise InvalidArgument(
            f"Fluss cannot alter the option {name!r} of an existing table",
            hint=f"{_note(name)}Fluss 0.9.1 can alter only {', '.join(ALTERABLE)}; {', '.join(sorted(OWN - CUSTOM))} are Lakeward's. "
            "Recreate the table with another value, or change the cluster's own setting.",
        )
    if value is None:
        return
    if name in TABLE_OPTIONS:
        TABLE_OPTIONS[name].of({name: value})
    if name == FRESHNESS.name:
        check_freshness(FRESHNESS.of({name: value}))
    if name == LOCAL_SEGMENTS and not (value.isascii() and value.isdigit() and int(value) > 0):
        raise InvalidArgument(f"the option {name!r} is {value[:60]!r}", hint="It is a number of segments, 1 or more.")


def _note(name: str) -> str:
    """Returns the reason why no table of a Fluss cluster has this option of Lakeward; empty if there is none."""
    option = TABLE_OPTIONS.get(name)
    return f"{option.fluss_note} " if option is not None and option.on_fluss is FlussSupport.NEVER else ""


def check_own(options: Mapping[str, str]) -> None:
    """Raises InvalidArgument for an invalid value of one of Lakeward's options, whose values Fluss does not check."""
    for name in sorted(OWN & options.keys()):
        TABLE_OPTIONS[name].of(options)


def option_change(name: str, value: str | None) -> pb.PbAlterConfig:
    """Returns the part of an AlterTable request that sets an option, or resets it to Fluss's default with None."""
    if value is None:
        return pb.PbAlterConfig(config_key=name, op_type=_DELETE)
    return pb.PbAlterConfig(config_key=name, config_value=in_fluss_words(name, value), op_type=_SET)


def in_fluss_words(name: str, value: str) -> str:
    """Returns the value in the form that Fluss reads: its durations allow no ISO 8601, no fractions, and no blanks within some units."""
    if name == FRESHNESS.name:
        return f"{FRESHNESS.of({name: value})}ms"
    return value.lower() if name == ENABLED.name else value
