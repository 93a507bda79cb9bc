"""In which format a Fluss table's KV snapshots and its log hold rows: its options `table.kv.format` and `table.log.format`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

KV_FORMAT, KV_FORMAT_VERSION, LOG_FORMAT = "table.kv.format", "table.kv.format-version", "table.log.format"
_ARROW = "ARROW"
_KV_FORMAT_VERSIONS = ("", "1", "2")


class RowEncoding(StrEnum):
    """How a row is packed, as Fluss's options name it."""

    COMPACTED = "COMPACTED"
    INDEXED = "INDEXED"


def kv_encoding(properties: Mapping[str, str]) -> RowEncoding | None:
    """Of the rows in KV snapshots; None = in a way that this version does not know, so that the table is read from its log."""
    name = properties.get(KV_FORMAT, RowEncoding.COMPACTED).upper()
    is_known = name in tuple(RowEncoding) and properties.get(KV_FORMAT_VERSION, "") in _KV_FORMAT_VERSIONS
    return RowEncoding(name) if is_known else None


def log_encoding(properties: Mapping[str, str]) -> RowEncoding | None:
    """Of the rows in the log; None = they are in Arrow record batches, as Fluss has them by default."""
    name = properties.get(LOG_FORMAT, _ARROW).upper()
    return RowEncoding(name) if name in tuple(RowEncoding) else None


def unreadable_format(properties: Mapping[str, str], schema: Mapping[str, Any]) -> str | None:
    """Why rows of a table with these options and this schema, as Fluss describes it in JSON, cannot be read; None = they can."""
    name = properties.get(LOG_FORMAT, _ARROW).upper()
    if name != _ARROW and name not in tuple(RowEncoding):
        return f"its log is in the format {name[:60]!r} ({LOG_FORMAT}), which Lakeward does not read"
    if RowEncoding.INDEXED in (log_encoding(properties), kv_encoding(properties)) and _has_char(schema):
        return "it has a column of type CHAR and rows in the format INDEXED, which Lakeward does not read"
    return None


def _has_char(described: Any) -> bool:
    """Whether there is a CHAR anywhere: an INDEXED row has as many bytes of it as are declared, which Arrow's type does not say."""
    if isinstance(described, Mapping):
        return described.get("type") == "CHAR" or any(map(_has_char, described.values()))
    return isinstance(described, list) and any(map(_has_char, described))
