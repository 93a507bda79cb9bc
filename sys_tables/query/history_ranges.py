"""The part of a table of history that a scan has to read, from the conditions with which the store itself can narrow."""

from __future__ import annotations

from sys_tables.declare.scan import ScanRequest
from tiering.coordinator.interface import HistoryRange, TablePathOrNone
from tiering.model.reading.conditions import AllOf, AnyOf, Condition, Filter

_FIRST_ROWS = 100
"""Rows that a scan with a limit draws first if its conditions may refuse some."""

_ROWS = 1_000


def history_range(scan: ScanRequest, time: str, *fields: str, by_time: bool = True) -> HistoryRange:
    """The rows that a scan can want. `time`: the column that history is sorted by; `fields`: text columns stored under their own names."""
    since, until = scan.time_bounds(time)
    values = {name: value for name in fields if (value := _text(scan, name)) is not None}
    return HistoryRange(
        database_name=_text(scan, "database_name"),
        table_name=_text(scan, "table_name"),
        round_id=_text(scan, "round_id"),
        since=since,
        until=until,
        fields=values,
        paths=_paths(scan),
        by_time=by_time,
        page_rows=_first_page_rows(scan),
    )


def _paths(scan: ScanRequest) -> frozenset[TablePathOrNone] | None:
    """Returns the tables to which `(database_name = 'a' AND table_name = 't') OR ...` narrows a scan; None if nothing does."""
    for condition in scan.conditions:
        if isinstance(condition, AnyOf):
            named = [_path(part) for part in condition.parts]
            if None not in named:
                return frozenset(path for path in named if path is not None)
    return None


def _path(condition: Condition) -> TablePathOrNone | None:
    if not isinstance(condition, AllOf):
        return None
    names = ScanRequest(filters=tuple(part for part in condition.parts if isinstance(part, Filter)))
    database_name, table_name = _text(names, "database_name"), _text(names, "table_name")
    return None if database_name is None or table_name is None else (database_name, table_name)


def _first_page_rows(scan: ScanRequest) -> int:
    if scan.limit is None or scan.is_aggregated:
        return _ROWS
    rows = scan.limit if not scan.filters and not scan.conditions else max(scan.limit, _FIRST_ROWS)
    return min(max(rows, 1), _ROWS)


def _text(scan: ScanRequest, column: str) -> str | None:
    """The text that the column must have. One with a NUL, which no store keeps, is left to the scan's own filter."""
    value = scan.equals(column)
    return value if isinstance(value, str) and "\0" not in value else None
