"""`CALL sys.set_table_option`: sets an option of a table that is there, or takes it back to its default.

The cluster has the options, so the effect is there before the operation's row is stored. It is harmless to do twice: if the coordinator
dies between the two, a repeat does the same once more, with the same end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from tiering import errors
from tiering.cluster.capabilities import TableOptionSetting
from tiering.coordinator.calls.effects import CallParts, Pool, effect
from tiering.coordinator.decisions.records import EventRecord, Level
from tiering.coordinator.requests import Mutation, ResultT
from tiering.lake_table_options import lake_table_properties
from tiering.model.call_results import SetOptionResult
from tiering.model.tables import TableInfo, TablePath


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
    path, name = request.path, request.name

    def answer(before: TableInfo, after: TableInfo) -> SetOptionResult:
        previous, value = before.properties.get(name), after.properties.get(name)
        outcome = "unchanged" if value == previous else "would_set" if request.dry_run else "set"
        return SetOptionResult(path, name, previous, value, outcome)

    return set_option(parts, request, path, name, request.value, answer)


def set_option(
    parts: CallParts,
    request: Mutation[ResultT],
    path: TablePath,
    name: str,
    value: str | None,
    answer: Callable[[TableInfo, TableInfo], ResultT],
) -> ResultT:
    """Sets one option for any request that does; `answer` makes the result from the table before and after.

    All such requests take turns, so that what is checked and shown as the value before is what gets replaced. Raises as `set_table_option`.
    """
    return parts.operations.in_turn(SetTableOption.procedure, request, lambda: _set(parts, request, path, name, value, answer))


def _set(
    parts: CallParts,
    request: Mutation[ResultT],
    path: TablePath,
    name: str,
    value: str | None,
    answer: Callable[[TableInfo, TableInfo], ResultT],
) -> ResultT:
    cluster, records = parts.cluster, parts.table_records
    if not isinstance(cluster, TableOptionSetting):
        raise errors.InvalidArgument(
            f"the cluster of {path} lets nobody else set the options of its tables", hint="Set it with the cluster's own tools."
        )
    before = cluster.table(path)
    after = cluster.set_table_option(path, name, value, dry_run=True)
    _check_lake_table(parts, name, before, after)
    result = answer(before, after)
    if request.dry_run:
        return result
    cluster.set_table_option(path, name, value)
    with records.changing():
        changes = before.properties.get(name) != after.properties.get(name)
        events = [_event(request.caller, path, name, value, records.now().wall)] if changes else []
        records.put(operations=parts.operations.done(request, before.table_id, result), events=events)
    parts.discovery.run_quietly()  # freshness and the lake's switch count at once
    return result


def _check_lake_table(parts: CallParts, name: str, before: TableInfo, after: TableInfo) -> None:
    """Raises InvalidArgument for an option that a lake table takes over when it is created, once there is one."""
    is_other_format = before.lake_format != after.lake_format
    if not is_other_format and lake_table_properties(before.properties) == lake_table_properties(after.properties):
        return
    if parts.lakes.of(before.lake_format).view(before.path) is None:
        return
    own_way = f"ALTER TABLE lake.{before.path} SET TBLPROPERTIES changes the lake table itself."
    raise errors.InvalidArgument(
        f"the option {name} of {before.path} cannot change any more: its lake table exists, and took it over when it was created",
        hint="Make a new table with that format, and load it." if is_other_format else own_way,
        table_path=before.path,
    )


def _event(caller: str, path: TablePath, name: str, value: str | None, now: datetime) -> EventRecord:
    became = "is back to its default" if value is None else f"is {value!r}"
    return EventRecord(
        occurred_at=now,
        level=Level.INFO,
        event_type="TABLE_OPTION_SET",
        message=f"{name} {became}",
        principal=caller,
        database_name=path.database_name,
        table_name=path.table_name,
        round_id=None,
        details={"name": name, "value": value},
    )
