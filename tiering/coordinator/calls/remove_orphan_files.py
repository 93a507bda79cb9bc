"""`CALL sys.remove_orphan_files`: sweeps one lake table now, with an age that the user gives (DESIGN 6, 7i).

As in every sweep, the ledger of rounds and reachability decide which files may be deleted. The age only protects more files.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from tiering import errors
from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.call_support.record_change import lake_table
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.lake_repair.background_sweeps import DEAD_ROUNDS_MS, EXPIRED_MS
from tiering.coordinator.lake_repair.sweeper import Sweeper, SweepLimits, SweptFiles
from tiering.durations import format_duration
from tiering.lake.rules.sweep import Verdict
from tiering.model.tables import TablePath
from tiering.procedures.remove_orphan_files import RemoveOrphanFiles, RemoveOrphanFilesResult
from tiering.procedures.sweep_lake import SweepLake

LISTED_FILES = 1_000
"""Upper bound of files that an answer names. It counts all of them."""

NO_ORPHANS = frozenset({Verdict.LIVE.value, Verdict.NOT_OURS.value})
"""Verdicts about files that are not orphans of Lakeward. They are omitted from an answer."""


def remove_orphan_files(parts: CallParts, request: RemoveOrphanFiles) -> RemoveOrphanFilesResult:
    """Removes the files.

    Raises UnknownTable, LakeDisabled, InvalidArgument, LakeTableReplaced, LakeUnavailable, ClusterUnavailable.
    """
    if (earlier := parts.operations.answer(request)) is not None:
        return earlier  # even if the table was dropped since
    dead_rounds_ms = _checked_age_ms(request.older_than, parts.table_records.now().wall)
    _, record = lake_table(parts, request.path)
    turn = f"{RemoveOrphanFiles.procedure}/{record.table_id}"
    return parts.operations.in_turn(turn, request, lambda: _remove(parts, request, record, dead_rounds_ms))


def _remove(parts: CallParts, request: RemoveOrphanFiles, record: TableRecord, dead_rounds_ms: int) -> RemoveOrphanFilesResult:
    sweep = SweepLake(record.path, dead_rounds_ms, request.dry_run, caller=request.caller)
    expired_ms = EXPIRED_MS if request.older_than is None else dead_rounds_ms
    sweeper = Sweeper(parts.table_records, parts.lakes, parts.candidates, parts.cluster.cluster_id, parts.read_snapshots)
    result = _answer(record.path, sweeper.swept_files(sweep, record, SweepLimits(expired_older_than_ms=expired_ms)))
    with parts.table_records.changing():
        parts.table_records.put(operations=parts.operations.done(request, record.table_id, result))
    return result


def _checked_age_ms(older_than: datetime | None, now: datetime) -> int:
    """Returns the smallest age of a file that may be deleted. Raises InvalidArgument for a time in the future or within the guard."""
    if older_than is None:
        return DEAD_ROUNDS_MS
    guard = format_duration(EXPIRED_MS)
    if older_than > now:
        raise errors.InvalidArgument(
            f"the argument 'older_than' is {older_than.isoformat()}, which is in the future", hint=f"Give a time at least {guard} ago."
        )
    if older_than > now - timedelta(milliseconds=EXPIRED_MS):
        raise errors.InvalidArgument(
            f"the argument 'older_than' is {older_than.isoformat()}, which is less than {guard} ago: a query that began before then may "
            "still read such files",
            hint=f"Give a time at least {guard} ago, or leave 'older_than' out.",
        )
    return int((now - older_than) / timedelta(milliseconds=1))


def _answer(path: TablePath, swept: SweptFiles) -> RemoveOrphanFilesResult:
    listed = swept.removed[:LISTED_FILES]
    return RemoveOrphanFilesResult(
        path=path,
        removed=len(swept.removed),
        removed_bytes=sum(file.size_bytes for file in swept.removed),
        locations=tuple(file.location for file in listed),
        sizes=tuple(file.size_bytes for file in listed),
        kept={verdict: number for verdict, number in sorted(swept.kept.items()) if verdict not in NO_ORPHANS},
    )
