"""Pure decisions about the record of an upkeep round that ended."""

from __future__ import annotations

from dataclasses import fields, replace

from tiering import errors
from tiering.coordinator.decisions.change import Context
from tiering.coordinator.decisions.records import EndedUpkeep, ErrorInfo, RoundRecord, UpkeepOutcome, UpkeepRecord, UpkeepRequest
from tiering.coordinator.decisions.upkeep import schedule
from tiering.model.upkeep import UpkeepStats

MAX_TRIES = 20
"""Upper bound of rounds of a request whose work is repeatedly dropped, or repeatedly loses its tierer."""

MAX_GIVEN_WAY = 20
"""Rounds in a row that gave way to tiering after which a request ends: some 13 hours, as the rest between them grows to an hour."""

KEPT_ENDED = 20
"""Number of ended requests that a table's record keeps, for callers that wait for them."""


def after_round(
    ctx: Context, upkeep: UpkeepRecord, ended: RoundRecord, outcome: UpkeepOutcome, *, may_have_committed: bool, gave_way: bool
) -> UpkeepRecord:
    """Returns the upkeep record after an upkeep round ended. `gave_way`: the coordinator ended the round for tiering."""
    upkeep_stats = UpkeepStats() if ended.stats is None or ended.stats.upkeep is None else ended.stats.upkeep
    upkeep = replace(
        upkeep,
        before=None,
        turn_deadline=None,
        last_time=ctx.now.wall,
        commit_time=ctx.now.wall if may_have_committed else upkeep.commit_time,
        last_round_id=ended.round_id,
        last_outcome=outcome,
        last_error=ended.error,
        bytes_left=upkeep_stats.bytes_left if outcome is UpkeepOutcome.SUCCEEDED else upkeep.bytes_left,
        manifests_left=upkeep_stats.manifests_after if _merged_manifests(ended, upkeep_stats) else upkeep.manifests_left,
    )
    upkeep = schedule.next_time(ctx, upkeep, ended, outcome, gave_way=gave_way)
    request = upkeep.request(ended.upkeep_request)
    if request is None:
        return upkeep
    total = replace(request, rounds=request.rounds + 1, stats=total_stats(request.stats, upkeep_stats) if request.rounds else upkeep_stats)
    repeats = outcome is UpkeepOutcome.DROPPED or _lost_its_tierer(ended.error)
    again = upkeep.given_way < MAX_GIVEN_WAY if gave_way else repeats and total.rounds < MAX_TRIES
    if again or (outcome is UpkeepOutcome.SUCCEEDED and total.order.rewrite and upkeep_stats.bytes_left):
        return upkeep.with_request(total)
    end = EndedUpkeep(request.request_id, outcome, ctx.now.wall, ended.round_id, total.rounds, total.stats, ended.error)
    if outcome is UpkeepOutcome.EMPTY and total.rounds > 1:
        end = replace(end, outcome=UpkeepOutcome.SUCCEEDED)
    return end_request(upkeep, request, end)


def _merged_manifests(ended: RoundRecord, upkeep_stats: UpkeepStats) -> bool:
    return ended.upkeep is not None and ended.upkeep.manifests and upkeep_stats.manifests_after is not None


def _lost_its_tierer(error: ErrorInfo | None) -> bool:
    return error is not None and error.error_class in (errors.TiererStopped.__name__, errors.TiererLost.__name__, errors.Fenced.__name__)


def end_request(upkeep: UpkeepRecord, waiting: UpkeepRequest, end: EndedUpkeep) -> UpkeepRecord:
    """Returns the record with `end` instead of the open request."""
    requests = tuple(request for request in upkeep.requests if request.request_id != waiting.request_id)
    return replace(upkeep, requests=requests, ended=(*upkeep.ended, end)[-KEPT_ENDED:])


def total_stats(earlier: UpkeepStats, later: UpkeepStats) -> UpkeepStats:
    """Adds the statistics of two rounds. The manifests are those before the first and after the second round.

    The remaining bytes are those of the second round.
    """
    not_summed = {"manifests_before", "manifests_after", "bytes_left"}
    sums = {
        field.name: getattr(earlier, field.name) + getattr(later, field.name)
        for field in fields(UpkeepStats)
        if field.name not in not_summed
    }
    before = later.manifests_before if earlier.manifests_before is None else earlier.manifests_before
    after = earlier.manifests_after if later.manifests_after is None else later.manifests_after
    return UpkeepStats(**sums, manifests_before=before, manifests_after=after, bytes_left=later.bytes_left)
