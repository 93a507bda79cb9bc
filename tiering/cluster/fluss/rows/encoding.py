"""The row formats of a Fluss table's KV snapshots and log, from its options `table.kv.format` and `table.log.format`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

KV_FORMAT, KV_FORMAT_VERSION, LOG_FORMAT = "table.kv.format", "table.kv.format-version", "table.log.format"
_ARROW = "ARROW"
_KV_FORMAT_VERSIONS = ("", "1", "2")


class RowEncoding(StrEnum):
    """A row format, as Fluss's options name it."""

    COMPACTED = "COMPACTED"
    INDEXED = "INDEXED"


def kv_encoding(properties: Mapping[str, str]) -> RowEncoding | None:
    """Returns the format of rows in KV snapshots; None = an unknown format, so that the table is read from its log."""
    name = properties.get(KV_FORMAT, RowEncoding.COMPACTED).upper()
    is_known = name in tuple(RowEncoding) and properties.get(KV_FORMAT_VERSION, "") in _KV_FORMAT_VERSIONS
    return RowEncoding(name) if is_known else None


def log_encoding(properties: Mapping[str, str]) -> RowEncoding | None:
    """Returns the format of rows in the log; None = Arrow record batches, which are Fluss's default."""
    name = properties.get(LOG_FORMAT, _ARROW).upper()
    return RowEncoding(name) if name in tuple(RowEncoding) else None


def unreadable_format(properties: Mapping[str, str], schema: Mapping[str, Any]) -> str | None:
    """Returns why rows of a table with these options and this schema (Fluss's JSON) cannot be read; None = they can."""
    name = properties.get(LOG_FORMAT, _ARROW).upper()
    if name != _ARROW and name not in tuple(RowEncoding):
        return f"its log is in the format {name[:60]!r} ({LOG_FORMAT}), which Lakeward cannot read"
    if RowEncoding.INDEXED in (log_encoding(properties), kv_encoding(properties)) and _has_char(schema):
        return "it has a column of type CHAR and rows in the format INDEXED, which Lakeward cannot read"
    return None


def _has_char(described: Any) -> bool:
    """Returns whether the schema contains a CHAR: an INDEXED row has its declared number of bytes, which Arrow's type does not contain."""
    if isinstance(described, Mapping):
        return described.get("type") == "CHAR" or any(map(_has_char, described.values()))
    return isinstance(described, list) and any(map(_has_char, described))
