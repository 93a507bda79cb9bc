"""Declares fields of a dataclass that are columns of a SQL table, with their comments and their Arrow types."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

import pyarrow as pa

INT = pa.int32()
"""For `column(..., arrow_type=INT)`. The column is then an INT in SQL; an int without it is a BIGINT."""

SCALARS: Mapping[object, pa.DataType] = MappingProxyType(
    {
        str: pa.string(),
        int: pa.int64(),
        float: pa.float64(),
        bool: pa.bool_(),
        datetime: pa.timestamp("us", tz="UTC"),
    }
)
"""The Arrow type for a field's Python type. A column can name another Arrow type."""

COMMENT = "comment"
ARROW_TYPE = "arrow_type"
"""`COMMENT` and `ARROW_TYPE` are keys in the metadata of a dataclass field."""


def column(comment: str, *, arrow_type: pa.DataType | None = None) -> Any:
    """Returns a dataclass field that is a column. `arrow_type` is needed where the annotation does not determine the type."""
    return dataclasses.field(metadata={COMMENT: comment, ARROW_TYPE: arrow_type})
