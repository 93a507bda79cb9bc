"""Checks of the options of a table of the embedded cluster. The options are in `tiering.lake.table_options`.

An unknown `table.*` or `iceberg.*` option is refused, never ignored. Options with another first word are stored unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping

from tiering.durations import check_freshness
from tiering.errors import InvalidArgument
from tiering.lake.iceberg_options import LAKE_TABLE_OPTIONS, PREFIX, check_table_options, check_text, option_named
from tiering.lake.table_options import FRESHNESS, LAYOUT, TABLE_OPTIONS, with_options
from tiering.model.tables import TableInfo
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
