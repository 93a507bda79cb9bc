"""`CALL sys.set_table_option`: sets an option of a table that is there, or takes it back to its default.

The cluster has the options, so the effect is there before the operation's row is stored. It is harmless to do twice: if the coordinator
dies between the two, a repeat does the same once more, with the same end.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tiering import errors
from tiering.cluster.capabilities import TableOptionSetting
from tiering.coordinator.calls.effects import CallParts, Pool, effect
from tiering.coordinator.decisions.records import EventRecord, Level
from tiering.coordinator.requests import Mutation
from tiering.lake_table_options import lake_table_properties
from tiering.model.tables import TableInfo, TablePath


@dataclass(frozen=True)
class SetOptionResult:
    """The option before and after; None = its default. `outcome`: set, unchanged, or would_set for a dry run."""

    path: TablePath
    name: str
    previous_value: str | None
    value: str | None
    outcome: str


@dataclass(frozen=True)
class SetTableOption(Mutation[SetOptionResult]):
    """Its arguments. `value` None = back to the default."""

    procedure = "set_table_option"
    result_class = SetOptionResult
    path: TablePath
    name: str
    value: str | None = None


@effect(SetTableOption, pool=Pool.REPAIR)
def set_table_option(parts: CallParts, request: SetTableOption) -> SetOptionResult:
    """Raises UnknownTable, UnknownDatabase, InvalidArgument, BadRequest, ClusterUnavailable, LakeUnavailable."""
    return parts.operations.in_turn(request.procedure, request, lambda: _set(parts, request))


def _set(parts: CallParts, request: SetTableOption) -> SetOptionResult:
    cluster, records, path = parts.cluster, parts.table_records, request.path
    if not isinstance(cluster, TableOptionSetting):
        raise errors.InvalidArgument(
            f"the cluster of {path} lets nobody else set the options of its tables", hint="Set it with the cluster's own tools."
        )
    before = cluster.table(path)
    after = cluster.set_table_option(path, request.name, request.value, dry_run=True)
    _check_lake_table(parts, request, before, after)
    previous, value = before.properties.get(request.name), after.properties.get(request.name)
    outcome = "unchanged" if value == previous else "would_set" if request.dry_run else "set"
    result = SetOptionResult(path, request.name, previous, value, outcome)
    if request.dry_run:
        return result
    cluster.set_table_option(path, request.name, request.value)
    with records.changing():
        events = [_event(request, records.now().wall)] if outcome == "set" else []
        records.put(operations=parts.operations.done(request, before.table_id, result), events=events)
    parts.discovery.run_quietly()  # freshness and the lake's switch count at once
    return result


def _check_lake_table(parts: CallParts, request: SetTableOption, before: TableInfo, after: TableInfo) -> None:
    """Raises InvalidArgument for an option that a lake table takes over when it is created, once there is one."""
    is_other_format = before.lake_format != after.lake_format
    if not is_other_format and lake_table_properties(before.properties) == lake_table_properties(after.properties):
        return
    if parts.lakes.of(before.lake_format).view(request.path) is None:
        return
    own_way = f"ALTER TABLE lake.{request.path} SET TBLPROPERTIES changes the lake table itself."
    raise errors.InvalidArgument(
        f"the option {request.name} of {request.path} cannot change any more: its lake table exists, and took it over when it was created",
        hint="Make a new table with that format, and load it." if is_other_format else own_way,
        table_path=request.path,
    )


def _event(request: SetTableOption, now: datetime) -> EventRecord:
    became = "is back to its default" if request.value is None else f"is {request.value!r}"
    return EventRecord(
        occurred_at=now,
        level=Level.INFO,
        event_type="TABLE_OPTION_SET",
        message=f"{request.name} {became}",
        principal=request.caller,
        database_name=request.path.database_name,
        table_name=request.path.table_name,
        round_id=None,
        details={"name": request.name, "value": request.value},
    )
