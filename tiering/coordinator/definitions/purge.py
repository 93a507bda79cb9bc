"""Drops a table together with its lake table: DROP TABLE ... PURGE.

No commit may land after its lake table is gone. Where a lake finds a table by its folder, a late commit would land in a new lake table of
that name. So the statement is refused while a round of the table has a grant. It drops the source table first, which ends the rounds of the
table, and the lake table only if no round got a grant in between. A crash between the two leaves the lake table, which the same statement
with its idempotency key then drops.
"""

from __future__ import annotations

from collections.abc import Callable

from tiering.cluster.capabilities import service_mode_of
from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.decisions.records import TableRecord
from tiering.errors import InvalidArgument, LakeUnavailable
from tiering.lake.dead_letters.table import drop_dead_letter_table
from tiering.lake.maintenance import LakeMaintenance, TableRemoval, check_own_lake_table
from tiering.model.assignments import ServiceMode
from tiering.model.tables import TableInfo, TablePath

_KEEPING = "DROP TABLE without PURGE keeps the lake table. Drop that afterwards in the lake's own catalog."


def drop_with_lake_table(parts: CallParts, table: TableInfo, drop_source: Callable[[], None]) -> str:
    """Drops both tables, and returns in words what became of the lake table.

    Raises InvalidArgument and LakeUnavailable before anything is dropped; LakeUnavailable, ClusterUnavailable if the lake table stayed.
    """
    with parts.table_lock(table.table_id):
        _check_no_other_commits(parts, table)
        _lake_with_own_table(parts, table.path, table.table_id, table.lake_format)
        drop_source()
        return drop_lake_table_of(parts, table.path, table.table_id, table.lake_format)


def drop_lake_table_of(parts: CallParts, path: TablePath, table_id: int, lake_format: str) -> str:
    """Drops the lake table of a source table that is gone, and returns in words what became of it."""
    try:
        parts.discovery.run()  # ends the rounds of the table: none gets a grant from here on
        record = parts.table_records.all().get(table_id)
        if record is not None and record.unresolved_commit:
            return f", but a round began to commit meanwhile: its lake table {path} stays in the lake's catalog"
        lake = _lake_with_own_table(parts, path, table_id, lake_format)
        letters = lake is not None and drop_dead_letter_table(lake, path)  # first: a repeat after a crash looks for the lake table
        if lake is None or not lake.drop_table(path):
            return "; it had no lake table"
        return ", and its lake table with it" + (", and its dead letters" if letters else "")
    except LakeUnavailable as why:
        raise LakeUnavailable(
            f"{path} was dropped, but its lake table was not: {why.message}",
            hint=f"Repeat the statement with its idempotency key, or run `lakeward drop {path} --with-lake`.",
            table_path=path,
        ) from why


def dropped_table_record(parts: CallParts, path: TablePath) -> TableRecord | None:
    """Returns the record of the newest table of this name that is gone; None if it is forgotten."""
    parts.discovery.run()
    gone = [record for record in parts.table_records.all().values() if record.path == path and record.forget_deadline is not None]
    return max(gone, key=lambda record: record.table_id, default=None)


def _check_no_other_commits(parts: CallParts, table: TableInfo) -> None:
    record = parts.table_records.get(table.table_id)
    if service_mode_of(parts.cluster) is ServiceMode.SHARED:
        reason = "another tiering service of its cluster may still commit to its lake table"
    elif record is not None and record.unresolved_commit:
        reason = "one of its rounds may still commit to its lake table. Repeat the statement when the next round has ended"
    else:
        return
    raise InvalidArgument(f"{table.path} was not dropped: {reason}", hint=_KEEPING, table_path=table.path)


def _lake_with_own_table(parts: CallParts, path: TablePath, table_id: int, lake_format: str) -> TableRemoval | None:
    """Returns the lake if it has the lake table of this source table. Raises InvalidArgument if it has another one."""
    lake = parts.lakes.of(lake_format)
    if not isinstance(lake, TableRemoval) or not isinstance(lake, LakeMaintenance):
        raise InvalidArgument(f"{path} was not dropped: no table of the lake format {lake_format} can be dropped here", hint=_KEEPING)
    survey = lake.survey(path)
    if survey is None:
        return None
    check_own_lake_table(survey, parts.cluster.cluster_id, table_id)
    return lake
