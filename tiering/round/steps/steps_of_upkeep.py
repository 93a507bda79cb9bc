"""The steps of an upkeep round between base check and fence: it rewrites files of the lake table and adds no rows. Pure (DESIGN 7, Upkeep).

Its marker has the offsets of the base. If the table needs a replay, or the cluster has a wrong record of the lake table, the round ends
EMPTY: a tiering round has to come first.
"""

from __future__ import annotations

from dataclasses import replace

from tiering.errors import DataCorrupt
from tiering.lake.base import Committable
from tiering.lake.maintenance import UpkeepPlan
from tiering.lake.marker import Marker
from tiering.lake.proof.bucket_proof import advanced
from tiering.model.rounds import Phase, RoundState
from tiering.model.upkeep import UpkeepOrder, UpkeepStats
from tiering.round.steps import actions as act
from tiering.round.steps.round_state import Round, Step, base_of, failed, outcome, table_of
from tiering.round.steps.steps_to_commit import begin_commit


def plan_recorded(state: Round) -> Step:
    """Requests the upkeep plan from the lake."""
    view = base_of(state).view
    assert view is not None  # EnsureLakeTable has returned it
    return replace(state, phase=Phase.MAINTENANCE), act.PlanUpkeep(table_of(state), view, order_of(state))


def upkeep_planned(state: Round, plan: UpkeepPlan) -> Step:
    """Starts the rewrites. Without rewrites the round commits only the other requested work, or ends EMPTY."""
    order = order_of(state)
    stats = UpkeepStats(bytes_left=plan.bytes_left if order.rewrite else None)
    state = replace(state, stats=replace(state.stats, upkeep=stats, splits=len(plan.tasks)))
    if plan.tasks:
        return state, act.RewriteFiles(table_of(state), plan.tasks)
    if not order.manifests and order.expiry is None:
        return state, act.End(outcome(state, RoundState.EMPTY))
    return _commit(state, act.FilesRewritten())


def files_rewritten(state: Round, event: act.FilesRewritten) -> Step:
    """Requests the grant for the completed rewrites."""
    state = replace(state, committable=Committable(state.assignment.round_id, (), event.rewrites, order_of(state)))
    is_damage = isinstance(event.error, DataCorrupt) and bool(event.rewrites)  # a damaged file must not block the other buckets
    if event.error is not None and not is_damage:
        return failed(state, event.error)
    return _commit(state, event)


def _commit(state: Round, event: act.FilesRewritten) -> Step:
    upkeep = state.stats.upkeep or UpkeepStats()
    left = None if upkeep.bytes_left is None else upkeep.bytes_left + event.bytes_left
    state = replace(
        state,
        marker=_marker_of(state),
        committable=Committable(state.assignment.round_id, (), event.rewrites, order_of(state)),
        stats=replace(state.stats, upkeep=replace(upkeep, bytes_left=left)),
        whole=event.bytes_left == 0,
    )
    return begin_commit(state)


def _marker_of(state: Round) -> Marker:
    """Returns the marker of the base with this round's id and epoch. If another service moved a bucket's end since, the bucket's trace is
    left out.
    """
    base, round_id = base_of(state), state.assignment.round_id
    marker, view = base.marker, base.view
    assert marker is not None
    assert view is not None
    ranges = dict(base.ranges)
    return replace(
        marker,
        round_id=round_id,
        tiering_epoch=state.assignment.tiering_epoch,
        base_round_id=marker.round_id,
        buckets=ranges,
        traces={bucket: trace for bucket, trace in marker.traces.items() if ranges.get(bucket) == marker.buckets.get(bucket)},
        proofs=advanced(view.proofs, ranges, ranges, (), round_id),
    )


def order_of(state: Round) -> UpkeepOrder:
    """Returns the upkeep that the assignment requests."""
    assert state.assignment.upkeep is not None
    return state.assignment.upkeep
