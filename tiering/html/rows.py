"""Rows that a notebook shows as an HTML table: IPython and Jupyter call the method `_repr_html_` of a value. All texts are escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TypeVar
from xml.etree.ElementTree import tostring

from tiering.html.elements import table

RowT = TypeVar("RowT")
SHOWN_ROWS = 100
"""Most rows of a table in a notebook. The list has all rows."""


class HtmlRows(list[RowT]):
    """A list of rows, each a mapping or a dataclass. A notebook shows the first ones as a table, without the columns that have no value."""

    def _repr_html_(self) -> str:
        rows = [_values(row) for row in self[:SHOWN_ROWS]]
        columns = [name for name in (rows[0] if rows else ()) if any(row.get(name) is not None for row in rows)]
        count = f"{len(self):,} row{'' if len(self) == 1 else 's'}"
        caption = count if len(rows) == len(self) else f"The first {SHOWN_ROWS} of {count}"
        return _html(caption, columns, ([_text(row.get(name)) for name in columns] for row in rows))


class HtmlFields:
    """A dataclass that a notebook shows as a table of its fields, without those that have no value."""

    def _repr_html_(self) -> str:
        values = ((name, value) for name, value in _values(self).items() if value is not None)
        return _html(type(self).__name__, ("field", "value"), ((name, _text(value)) for name, value in values))


def _values(row: object) -> Mapping[str, object]:
    return row if isinstance(row, Mapping) else vars(row)


def _text(value: object) -> str:
    match value:
        case None:
            return ""
        case datetime():
            utc = value.astimezone(UTC) if value.tzinfo is not None else value
            return f"{utc:%Y-%m-%d %H:%M:%S} UTC"
    return str(value)


def _html(caption: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    return tostring(table(caption, list(columns), [list(row) for row in rows]), encoding="unicode", method="html")
