"""Pure decisions about what is remembered of an upkeep round once it ended."""

from __future__ import annotations

from dataclasses import fields, replace

from tiering import errors
from tiering.coordinator.decisions.change import Context
from tiering.coordinator.decisions.records import EndedUpkeep, ErrorInfo, RoundRecord, UpkeepOutcome, UpkeepRecord, UpkeepRequest
from tiering.coordinator.decisions.upkeep import schedule
from tiering.model.upkeep import UpkeepStats

MAX_TRIES = 20
"""Rounds after which a request whose work is dropped again and again, or loses its tierer, ends."""

MAX_GIVEN_WAY = 20
"""Rounds in a row that gave way to tiering after which a request ends: some 13 hours, as the rest between them grows to an hour."""

KEPT_ENDED = 20
"""Requests of one table whose end is remembered, for callers that wait for it."""


def after_round(
    ctx: Context, upkeep: UpkeepRecord, ended: RoundRecord, outcome: UpkeepOutcome, *, may_have_committed: bool, gave_way: bool
) -> UpkeepRecord:
    """What is remembered once an upkeep round ended. `gave_way`: the coordinator ended it, for tiering."""
    did = UpkeepStats() if ended.stats is None or ended.stats.upkeep is None else ended.stats.upkeep
    upkeep = replace(
        upkeep,
        before=None,
        turn_deadline=None,
        last_time=ctx.now.wall,
        commit_time=ctx.now.wall if may_have_committed else upkeep.commit_time,
        last_round_id=ended.round_id,
        last_outcome=outcome,
        last_error=ended.error,
        bytes_left=did.bytes_left if outcome is UpkeepOutcome.SUCCEEDED else upkeep.bytes_left,
        manifests_left=did.manifests_after if _merged_manifests(ended, did) else upkeep.manifests_left,
    )
    upkeep = schedule.next_time(ctx, upkeep, ended, outcome, gave_way=gave_way)
    request = upkeep.request(ended.upkeep_request)
    if request is None:
        return upkeep
    total = replace(request, rounds=request.rounds + 1, stats=total_stats(request.stats, did) if request.rounds else did)
    repeats = outcome is UpkeepOutcome.DROPPED or _lost_its_tierer(ended.error)
    again = upkeep.given_way < MAX_GIVEN_WAY if gave_way else repeats and total.rounds < MAX_TRIES
    if again or (outcome is UpkeepOutcome.SUCCEEDED and total.order.rewrite and did.bytes_left):
        return upkeep.with_request(total)
    end = EndedUpkeep(request.request_id, outcome, ctx.now.wall, ended.round_id, total.rounds, total.stats, ended.error)
    if outcome is UpkeepOutcome.EMPTY and total.rounds > 1:
        end = replace(end, outcome=UpkeepOutcome.SUCCEEDED)
    return end_request(upkeep, request, end)


def _merged_manifests(ended: RoundRecord, did: UpkeepStats) -> bool:
    return ended.upkeep is not None and ended.upkeep.manifests and did.manifests_after is not None


def _lost_its_tierer(error: ErrorInfo | None) -> bool:
    return error is not None and error.error_class in (errors.TiererStopped.__name__, errors.TiererLost.__name__, errors.Fenced.__name__)


def end_request(upkeep: UpkeepRecord, waiting: UpkeepRequest, end: EndedUpkeep) -> UpkeepRecord:
    """The record with `end` in the place of a request."""
    requests = tuple(request for request in upkeep.requests if request.request_id != waiting.request_id)
    return replace(upkeep, requests=requests, ended=(*upkeep.ended, end)[-KEPT_ENDED:])


def total_stats(earlier: UpkeepStats, later: UpkeepStats) -> UpkeepStats:
    """The sums of two rounds. Manifests are those before the first and after the second one; what is left is that of the second one."""
    kept = {"manifests_before", "manifests_after", "bytes_left"}
    sums = {
        field.name: getattr(earlier, field.name) + getattr(later, field.name) for field in fields(UpkeepStats) if field.name not in kept
    }
    before = later.manifests_before if earlier.manifests_before is None else earlier.manifests_before
    after = earlier.manifests_after if later.manifests_after is None else later.manifests_after
    return UpkeepStats(**sums, manifests_before=before, manifests_after=after, bytes_left=later.bytes_left)
