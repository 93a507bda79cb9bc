"""`TableStatus` as `PbTableTieringStatus` and back: field by field of the same name."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from tiering.model.status import TableStatus
from tiering.model.tables import TablePath
from tiering.rpc.v1 import common_pb2
from tiering.rpc.v1.status_pb2 import PbTableTieringStatus

_ELSEWHERE = ("database_name", "table_name", "observed_time")
"""Carried by the path and by the response."""

_NAMES = tuple(field.name for field in fields(TableStatus) if field.name not in _ELSEWHERE)
_TIMES = frozenset(name for name in _NAMES if name.endswith("_time") or name in ("status_since", "freshness_deadline", "paused_until"))


def to_pb(status: TableStatus) -> PbTableTieringStatus:
    """None = the field is absent."""
    path = common_pb2.PbTablePath(database_name=status.database_name, table_name=status.table_name)
    message = PbTableTieringStatus(table_path=path)
    for name in _NAMES:
        value = getattr(status, name)
        if value is None:
            continue
        if isinstance(value, datetime):
            getattr(message, name).FromDatetime(value)
        else:
            setattr(message, name, value)
    return message


def from_pb(message: PbTableTieringStatus, observed_time: datetime) -> TableStatus:
    """Absent = None. Fields that an older coordinator does not know are absent or empty."""
    values: dict[str, Any] = {name: _value(message, name) for name in _NAMES}
    path = TablePath(message.table_path.database_name, message.table_path.table_name)
    return TableStatus(database_name=path.database_name, table_name=path.table_name, observed_time=observed_time, **values)


def _value(message: PbTableTieringStatus, name: str) -> Any:
    if name in _TIMES:
        return getattr(message, name).ToDatetime(tzinfo=UTC) if message.HasField(name) else None  # type: ignore[arg-type]
    field = PbTableTieringStatus.DESCRIPTOR.fields_by_name[name]
    if field.has_presence and not message.HasField(name):  # type: ignore[arg-type]
        return None
    return getattr(message, name)
