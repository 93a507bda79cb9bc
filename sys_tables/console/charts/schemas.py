"""The columns of a table in source and lake, side by side. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tiering.model.sql_types import split_at_commas
from tiering.model.tables import SYSTEM_COLUMNS

_NOT_NULL = " NOT NULL"
_COLUMN = re.compile(r"(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>[^` ]+)) (?P<type>.+)", re.DOTALL)


@dataclass(frozen=True)
class ColumnPair:
    """A column with its types in source and lake, None where it does not exist, and the difference in words; empty for none."""

    name: str
    source_type: str | None
    lake_type: str | None
    difference: str


def column_pairs(source_schema: str, lake_schema: str) -> list[ColumnPair]:
    """Returns the columns of two column lists (`sql_types.column_list`): first those of the source, then those that only the lake has."""
    source, lake = column_types(source_schema), column_types(lake_schema)
    return [ColumnPair(name, source.get(name), lake.get(name), _difference(name, source, lake)) for name in {**source, **lake}]


def _difference(name: str, source: Mapping[str, str], lake: Mapping[str, str]) -> str:
    if name not in lake:
        return "not in the lake yet"
    if name not in source:
        return "a column that Lakeward adds" if name in SYSTEM_COLUMNS else "only in the lake"
    source_type, lake_type = (types[name].removesuffix(_NOT_NULL) for types in (source, lake))
    return "" if source_type == lake_type else "another type"


def column_types(schema: str) -> dict[str, str]:
    """Returns the type of each column of a column list, by the name of the column without backquotes."""
    columns = [_COLUMN.fullmatch(text.strip()) for text in split_at_commas(schema, "<(", ">)")]
    return {(column["quoted"] or column["plain"]).replace("``", "`"): column["type"] for column in columns if column is not None}
