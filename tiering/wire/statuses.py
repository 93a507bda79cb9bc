"""`TableStatus` as `PbTableTieringStatus` and back: field by field of the same name.

The message's first six fields are those of Fluss's proposal, which has times as milliseconds; the other times are timestamps.
"""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from tiering.instants import from_milliseconds, to_milliseconds
from tiering.model.status import TableStatus
from tiering.model.tables import TablePath
from tiering.rpc.v1.status_pb2 import ListTieringStatusesResponse, PbTableTieringStatus
from tiering.wire.common import path_from_pb, path_to_pb, time_from_pb, time_to_pb

ELSEWHERE = ("database_name", "table_name", "observed_time")
"""Fields that the message's path and the response carry."""

_FIELDS = tuple(field.name for field in fields(TableStatus) if field.name not in ELSEWHERE)
_TIME_FIELDS = frozenset(field.name for field in fields(TableStatus) if str(field.type).startswith("datetime"))
_NULLABLE_FIELDS = frozenset(field.name for field in fields(TableStatus) if str(field.type).endswith("| None"))
_MESSAGE_FIELDS = PbTableTieringStatus.DESCRIPTOR.fields_by_name
_MS_FIELDS = frozenset(name for name in _TIME_FIELDS.intersection(_FIELDS) if _MESSAGE_FIELDS[name].type == FieldDescriptor.TYPE_INT64)


def status_to_pb(status: TableStatus) -> PbTableTieringStatus:
    """The status as a message. A field that is None is absent; any other is set, also where it is 0."""
    message = PbTableTieringStatus(table_path=path_to_pb(TablePath(status.database_name, status.table_name)))
    for name in _FIELDS:
        value = getattr(status, name)
        if value is None:
            continue
        if name in _MS_FIELDS:
            setattr(message, name, to_milliseconds(value))
        elif isinstance(value, datetime):
            getattr(message, name).CopyFrom(time_to_pb(value))
        else:
            setattr(message, name, value)
    return message


def status_from_pb(message: PbTableTieringStatus, observed_time: datetime) -> TableStatus:
    """The status of a message. An absent field is None, or 0 or empty where a status always has a value: an older service leaves
    those out. Raises ValueError or OverflowError for a time that Python has not."""
    values: dict[str, Any] = {name: _value(message, name) for name in _FIELDS}
    path = path_from_pb(message.table_path)
    return TableStatus(database_name=path.database_name, table_name=path.table_name, observed_time=observed_time, **values)


def statuses_from_pb(page: ListTieringStatusesResponse) -> list[TableStatus]:
    """The statuses of one page. Raises ValueError or OverflowError for a time that Python has not."""
    observed_time = time_from_pb(page.observed_time)
    return [status_from_pb(message, observed_time) for message in page.tiering_statuses]


def _value(message: PbTableTieringStatus, name: str) -> Any:
    if name in _NULLABLE_FIELDS and not message.HasField(name):  # type: ignore[arg-type]
        return None
    value = getattr(message, name)
    if name in _MS_FIELDS:
        return from_milliseconds(value)
    return time_from_pb(value) if name in _TIME_FIELDS else value
