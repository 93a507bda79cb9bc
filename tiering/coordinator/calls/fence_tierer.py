"""`CALL sys.fence_tierer`: takes a tierer's tables away from it, and gives it no more.

Each of its rounds ends, and a round under a new epoch follows with another tierer: whatever the fenced one still reports, or asks to
commit, is refused. A commit that was granted before may have been sent, and nothing calls it back: as after any tierer that is lost then,
the next round looks at the lake, and goes on from the marker that it finds there. The processes that had the id at the call stay fenced,
also when the coordinator starts anew; one that starts anew under the id is another process, and works.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tiering import errors
from tiering.coordinator.calls.effects import CallParts, Pool, effect
from tiering.coordinator.decisions import round_lifecycle
from tiering.coordinator.decisions.change import TIERER_FENCED
from tiering.coordinator.decisions.records import EventRecord, Level
from tiering.coordinator.requests import Mutation
from tiering.model.call_results import FenceTiererResult


@dataclass(frozen=True)
class FenceTierer(Mutation[FenceTiererResult]):
    """Its arguments (docs/reference.md)."""

    procedure = "fence_tierer"
    result_class = FenceTiererResult
    free_words = ("reason",)
    tierer_id: str
    reason: str | None = None


@effect(FenceTierer, pool=Pool.STORE)
def fence_tierer(parts: CallParts, request: FenceTierer) -> FenceTiererResult:
    """Raises InvalidArgument for an id that no tierer has."""
    records = parts.table_records
    with records.changing():
        if (earlier := parts.operations.answer(request)) is not None:
            return earlier
        running = [record for record in records.running() if record.running is not None and record.running.tierer_id == request.tierer_id]
        if not running and not parts.tierers.is_known(request.tierer_id):
            raise errors.InvalidArgument(
                f"there is no tierer {request.tierer_id[:60]!r}",
                hint="SELECT tierer_id, state FROM sys.tierers lists those that there are.",
            )
        rounds = [record.running for record in running if record.running is not None]
        result = FenceTiererResult(request.tierer_id, len(running))
        if request.dry_run:
            return result
        # Before the tables are free: no heartbeat comes in between.
        processes = parts.tierers.fence(request.tierer_id, [row.incarnation for row in rounds if row.incarnation is not None])
        # A context each: it has the id of the round that follows.
        changes = [round_lifecycle.fence_tierer(records.context(request.caller), record, request.reason) for record in running]
        records.put(*changes, operations=parts.operations.done(request, None, result), events=[_event(parts, request, result, processes)])
        return result


def _event(parts: CallParts, request: FenceTierer, result: FenceTiererResult, processes: Sequence[str]) -> EventRecord:
    """It is also where a coordinator that starts reads who is fenced: stored with the effect, in one write."""
    because = f": {request.reason}" if request.reason else ""
    return EventRecord(
        occurred_at=parts.table_records.now().wall,
        level=Level.WARN,
        event_type=TIERER_FENCED,
        message=f"the tierer {request.tierer_id} was fenced{because}",
        principal=request.caller,
        details={"tierer_id": request.tierer_id, "tables_fenced": result.tables_fenced, "processes": list(processes)},
    )
