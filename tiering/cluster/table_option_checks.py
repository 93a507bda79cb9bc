"""Checks of the options of a table of the embedded cluster. The options are in `tiering.lake.table_options`.

An unknown `table.*` or `iceberg.*` option is refused, never ignored. Options with another first word are stored unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import pyarrow as pa

from tiering.durations import check_freshness
from tiering.errors import InvalidArgument
from tiering.lake.iceberg_options import LAKE_TABLE_OPTIONS, PREFIX, check_table_options, check_text, option_named
from tiering.lake.layouts import Layout
from tiering.lake.schema.file_order import PartitionEntry, SortEntry, check_partition, check_sort, entries_text
from tiering.lake.table_options import FRESHNESS, LAYOUT, PARTITION, SORT, TABLE_OPTIONS, new_layout_of, with_options
from tiering.model.schema.field_ids import field_id
from tiering.model.tables import DEFAULT_LAKE_FORMAT, TableInfo, TableType
from tiering.name_matching import nearest_names

MAX_OPTION_LENGTH = 2_000
"""Maximum length of a name or a value in characters; every listing of tables contains the options."""
MAX_OPTIONS = 200
"""Maximum number of options, so that a table's description always fits in a message."""


def with_layout(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the options of a new table, which always name its layout: tables without a layout are from a version that had only one."""
    return {LAYOUT.name: LAYOUT.default, **properties}


def check_new_options(properties: Mapping[str, str]) -> None:
    """Raises InvalidArgument naming an option that a new table cannot have."""
    check_options(properties)
    check_new_freshness(properties)
    check_table_options(properties)


def check_new_freshness(properties: Mapping[str, str]) -> None:
    """Raises InvalidArgument for a freshness that cannot be set any more, although tables of older versions may have it."""
    check_freshness(_freshness_ms(properties))


def _freshness_ms(properties: Mapping[str, str]) -> int:
    if not (milliseconds := FRESHNESS.of(properties)):
        raise InvalidArgument(f"the option {FRESHNESS} must be longer than zero")
    return milliseconds


def check_options(properties: Mapping[str, str]) -> None:
    """Raises InvalidArgument naming an option with a name that no table has, or with a value that is not valid."""
    _check_sizes(properties)
    for name in properties.keys() & TABLE_OPTIONS.keys():
        TABLE_OPTIONS[name].of(properties)
    _freshness_ms(properties)


def check_file_order(table: TableInfo) -> None:
    """Raises InvalidArgument if the files of this table's lake table cannot have the partition or the sort of its options."""
    partition, sort = PARTITION.of(table.properties), SORT.of(table.properties)
    for name in [name for name, entries in ((PARTITION.name, partition), (SORT.name, sort)) if entries]:
        if table.table_type is not TableType.LOG:
            raise _no_file_order(name, f"{table.path} is a primary-key table, whose lake files are placed by its buckets")
        if table.lake_format != DEFAULT_LAKE_FORMAT:
            raise _no_file_order(name, f"{table.path} has the lake format {table.lake_format}; only {DEFAULT_LAKE_FORMAT} has it")
        if new_layout_of(table) is not Layout.CLEAN:
            reason = (
                f"{table.path} has the layout {Layout.SYSTEM_COLUMNS}, in which Fluss fixes the partition by bucket and the order by offset"
            )
            raise _no_file_order(name, reason)
    check_partition(table, partition, PARTITION.name)
    check_sort(table, sort, SORT.name)


def followed_file_order(before: TableInfo, after: pa.Schema, changed_options: Collection[str]) -> dict[str, str]:
    """Returns the texts of the options for partition and sort after a change of the table's columns to `after`: they name the same columns.
    Options that the same request changes are left out.

    Raises InvalidArgument for a dropped column that an option names.
    """
    names = {field_id(field): field.name for field in after}
    texts: dict[str, str] = {}
    for option in (option for option in (PARTITION, SORT) if option.name not in changed_options):
        entries: list[PartitionEntry | SortEntry] = []
        for entry in option.of(before.properties):
            name = names.get(field_id(before.schema.field(entry.column)))
            if name is None:
                raise InvalidArgument(
                    f"the column {entry.column!r} of {before.path} cannot be dropped: the option {option} names it",
                    hint=f"Change the option {option} first.",
                    table_path=before.path,
                    column=entry.column,
                )
            entries.append(replace(entry, column=name))
        if tuple(entries) != option.of(before.properties):
            texts[option.name] = entries_text(entries)
    return texts


def _no_file_order(name: str, reason: str) -> InvalidArgument:
    return InvalidArgument(f"the option {name} is not possible: {reason}", hint=f"Leave {name} out.")


def described(table: TableInfo, properties: Mapping[str, str]) -> TableInfo:
    """Returns the table with these options and the values that follow from them. Raises InvalidArgument naming an option."""
    _check_sizes(properties)
    return with_options(table, properties, {})


def _check_sizes(properties: Mapping[str, str]) -> None:
    if len(properties) > MAX_OPTIONS:
        raise InvalidArgument(f"a table may have at most {MAX_OPTIONS} options; this one has {len(properties)}")
    for name, value in properties.items():
        check_option_name(name)
        if len(value) > MAX_OPTION_LENGTH:
            raise InvalidArgument(f"the option {name!r} is longer than {MAX_OPTION_LENGTH} characters")


def check_option_name(name: str) -> None:
    """Raises InvalidArgument for a name that no option may have."""
    if not name or len(name) > MAX_OPTION_LENGTH:
        raise InvalidArgument(f"the option {name[:60]!r} is empty or longer than {MAX_OPTION_LENGTH} characters")
    if name.startswith("table.") and name not in TABLE_OPTIONS:
        raise InvalidArgument(f"unknown table option {name!r}", hint=f"Known options: {', '.join(TABLE_OPTIONS)}.")


def check_documented_option(name: str) -> None:
    """Raises InvalidArgument for a name that is not in docs/options.md, with the nearest documented names."""
    check_option_name(name)
    check_text(name, "")
    if name in TABLE_OPTIONS:
        return
    if name.startswith(PREFIX):
        if option_named(name.removeprefix(PREFIX)) is None:
            check_table_options({name: ""})  # names the allowed options
        return
    documented = [*TABLE_OPTIONS, *(PREFIX + option for option in LAKE_TABLE_OPTIONS)]
    near = nearest_names(name, documented, 3, cutoff=0.5)
    hint = f"The nearest names are {', '.join(near)}." if near else "docs/options.md lists all options."
    raise InvalidArgument(f"there is no table option {name[:60]!r}", hint=hint)
