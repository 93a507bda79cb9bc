"""Values of system tables as texts and links of a page. Unknown is an empty cell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request

from tiering.durations import short_duration
from tiering.procedures.prove_table import counts_text
from tiering.redaction.visible_text import visible

ROUND_COLUMNS = frozenset({"round_id", "base_round_id", "last_round_id"})
LISTS = {"tierer_id": ("tierers", "tierer"), "lease_id": ("leases", "lease")}
"""Columns whose values a list can be filtered by: the list, and its filter."""
_PLAIN = re.compile(r"(?!\.{1,2}$)[\w.\-]{1,200}")
"""Names that can be a part of an address as they are. A service may return any text."""
MAX_CHARACTERS = 10_000
"""Longest text of a cell. The result of a CALL may have a text of many MiB, such as the archive of a proof."""
_SIZE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def shown(value: Any, column: str = "") -> str:
    """Returns a value as text: durations and sizes with units, as the suffix of the column's name says."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case datetime():
            return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        case int() if column.endswith("_ms"):
            return short_duration(value)
        case int() if column.endswith("_bytes"):
            return size(value)
        case int() if column.endswith("_id"):
            return str(value)
        case int():
            return f"{value:,}"
        case float() if column == "fraction_completed":
            return f"{value:.0%}"
        case Mapping():
            return ", ".join(f"{shown(key)}: {shown(item)}" for key, item in value.items())
        case list() if all(isinstance(item, tuple) and len(item) == 2 for item in value):  # a map, as Arrow returns it
            return ", ".join(f"{shown(key)}: {shown(item)}" for key, item in value)
        case list() if column == "readers":
            return visible(counts_text(value))
        case list():
            return ", ".join(shown(item) for item in value)
    text = str(value)
    return visible(text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]} ... ({len(text):,} characters)")


def size(size_bytes: int) -> str:
    """Returns a number of bytes with a binary unit."""
    amount = float(size_bytes)
    for unit in _SIZE_UNITS[:-1]:
        if abs(amount) < 1_024:
            return f"{amount:,.0f} {unit}" if unit == "B" else f"{amount:,.1f} {unit}"
        amount /= 1_024
    return f"{amount:,.1f} {_SIZE_UNITS[-1]}"


def is_time(value: Any) -> bool:
    """Returns whether a page shows the value as a time."""
    return isinstance(value, datetime)


def is_number(value: Any) -> bool:
    """Returns whether a page aligns the value to the right."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def label(column: str) -> str:
    """Returns the name of a column as words: `last_tiered_time` is `last tiered`."""
    for suffix in ("_time", "_ms", "_bytes"):
        if column.endswith(suffix) and column != suffix[1:]:
            column = column.removesuffix(suffix)
            break
    return column.replace("_", " ")


def link_of(request: Request, row: Mapping[str, Any], column: str) -> str | None:
    """Returns the address of the page about the value of a cell; None if there is no such page."""
    value = row[column]
    if not isinstance(value, str) or not _PLAIN.fullmatch(value):
        return None
    if column in ROUND_COLUMNS:
        return str(request.url_for("round", round_id=value))
    if column in LISTS:
        name, parameter = LISTS[column]
        return str(request.url_for(name).include_query_params(**{parameter: value}))
    database = row.get("database_name")
    if column == "table_name" and isinstance(database, str) and _PLAIN.fullmatch(database):
        return str(request.url_for("table", database_name=database, table_name=value))
    return None
