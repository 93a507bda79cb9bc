"""`CALL sys.set_table_option`: sets an option of an existing table, or resets it to its default.

The cluster stores the options, so the effect exists before the operation's row is stored. It is idempotent: if the coordinator dies between
the two, a repeat does the same again.
"""

from __future__ import annotations

from collections.abc import Callable

from tiering import errors
from tiering.cluster.capabilities import TableOptionSetting
from tiering.coordinator.call_support.lake_table_options import check_lake_table
from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.call_support.record_change import call_event
from tiering.model.tables import TableInfo, TablePath
from tiering.procedures.base import Mutation, ResultT
from tiering.procedures.set_table_option import SetTableOption, SetTableOptionResult


def set_table_option(parts: CallParts, request: SetTableOption) -> SetTableOptionResult:
    """Sets the option. Raises UnknownTable, UnknownDatabase, InvalidArgument, BadRequest, ClusterUnavailable, LakeUnavailable."""
    path, name = request.path, request.name

    def answer(before: TableInfo, after: TableInfo) -> SetTableOptionResult:
        previous, value = before.properties.get(name), after.properties.get(name)
        outcome = "unchanged" if value == previous else "would_set" if request.dry_run else "set"
        return SetTableOptionResult(path, name, previous, value, outcome)

    return set_option(parts, request, path, name, request.value, answer)


def set_option(
    parts: CallParts,
    request: Mutation[ResultT],
    path: TablePath,
    name: str,
    value: str | None,
    answer: Callable[[TableInfo, TableInfo], ResultT],
) -> ResultT:
    """Sets one option for any kind of request. `answer` makes the result from the table before and after.

    All such requests take turns, so that the checked and returned previous value is the one that is replaced. Raises like
    `set_table_option`.
    """

    def work() -> ResultT:
        cluster, records = parts.cluster, parts.table_records
        if not isinstance(cluster, TableOptionSetting):
            raise errors.InvalidArgument(
                f"the cluster of {path} does not let Lakeward set table options", hint="Set it with the cluster's own tools."
            )
        before = cluster.table(path)
        after = cluster.set_table_option(path, name, value, dry_run=True)
        check_lake_table(parts, before, after)
        result = answer(before, after)
        if request.dry_run:
            return result
        cluster.set_table_option(path, name, value)
        with records.changing():
            changes = before.properties.get(name) != after.properties.get(name)
            message = f"{name} is back to its default" if value is None else f"{name} is {value!r}"
            event = call_event(parts, request, "TABLE_OPTION_SET", message, {"name": name, "value": value}, path=path)
            records.put(operations=parts.operations.done(request, before.table_id, result), events=[event] if changes else [])
        parts.discovery.run_quietly()  # so that a new freshness or an enabled lake has its effect at once
        return result

    return parts.operations.in_turn(SetTableOption.procedure, request, work)
