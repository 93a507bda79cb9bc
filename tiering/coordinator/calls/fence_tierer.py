"""`CALL sys.fence_tierer`: takes all tables away from a tierer, and assigns no table to it any more.

Each of its rounds ends, and another tierer gets a round under a new epoch. Later reports and commit requests of the fenced tierer are
refused. A commit that was granted before may have been sent, and cannot be recalled. As after a lost tierer, the next round reads the lake
and continues from the marker that it finds. Processes that have the id at the call stay fenced, even after a restart of the coordinator. A
process that starts later with the same id is another process, and works.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiering import errors
from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.call_support.record_change import call_event
from tiering.coordinator.decisions import round_lifecycle
from tiering.coordinator.decisions.change import TIERER_FENCED
from tiering.coordinator.decisions.records import EventRecord, Level
from tiering.procedures.fence_tierer import FenceTierer, FenceTiererResult


def fence_tierer(parts: CallParts, request: FenceTierer) -> FenceTiererResult:
    """Fences the tierer. Raises InvalidArgument for an id that no tierer has."""
    records = parts.table_records
    with records.changing():
        if (earlier := parts.operations.answer(request)) is not None:
            return earlier
        running = [record for record in records.running() if record.running is not None and record.running.tierer_id == request.tierer_id]
        if not running and all(tierer.tierer_id != request.tierer_id for tierer in parts.tierers.all()):
            raise errors.InvalidArgument(
                f"there is no tierer {request.tierer_id[:60]!r}",
                hint="SELECT tierer_id, state FROM sys.tierers lists the tierers.",
            )
        rounds = [record.running for record in running if record.running is not None]
        result = FenceTiererResult(request.tierer_id, len(running))
        if request.dry_run:
            return result
        # Before the tables are free, so that no heartbeat gets one of them in between.
        processes = parts.tierers.fence(request.tierer_id, [row.incarnation for row in rounds if row.incarnation is not None])
        # A context per table, because it has the id of the round that follows.
        changes = [round_lifecycle.fence_tierer(records.context(request.caller), record, request.reason) for record in running]
        records.put(*changes, operations=parts.operations.done(request, None, result), events=[_event(parts, request, result, processes)])
        return result


def _event(parts: CallParts, request: FenceTierer, result: FenceTiererResult, processes: Sequence[str]) -> EventRecord:
    """Returns the event. It is stored in one write with the effect, and a starting coordinator reads from it who is fenced."""
    message = f"the tierer {request.tierer_id} was fenced" + (f": {request.reason}" if request.reason else "")
    details = {"tierer_id": request.tierer_id, "tables_fenced": result.tables_fenced, "processes": list(processes)}
    return call_event(parts, request, TIERER_FENCED, message, details, level=Level.WARN)
