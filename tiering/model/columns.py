"""Fields of a dataclass that are columns of a table in SQL: their comments and their Arrow types."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

import pyarrow as pa

INT = pa.int32()
"""For `column(..., arrow_type=INT)`: an INT in SQL; an int is a BIGINT otherwise."""

SCALARS: Mapping[object, pa.DataType] = MappingProxyType(
    {
        str: pa.string(),
        int: pa.int64(),
        float: pa.float64(),
        bool: pa.bool_(),
        datetime: pa.timestamp("us", tz="UTC"),
    }
)
"""The Arrow type of a field's Python type, unless its column names another one."""

COMMENT = "comment"
ARROW_TYPE = "arrow_type"
"""Keys in the metadata of a dataclass field."""


def column(comment: str, *, arrow_type: pa.DataType | None = None) -> Any:
    """A dataclass field that is a column; `arrow_type` where the annotation does not determine it."""
    return dataclasses.field(metadata={COMMENT: comment, ARROW_TYPE: arrow_type})
