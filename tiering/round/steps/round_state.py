"""The state of a round, and the ways in which it ends. Plain values; the steps are in `steps_to_write` and `steps_to_commit`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tiering.errors import BucketStopped, Cancelled, Fenced, LakewardError
from tiering.lake.base import Committable
from tiering.lake.marker import Marker
from tiering.lake.rules.base_check import Base
from tiering.model.assignments import ServiceMode
from tiering.model.rounds import Assignment, Phase, RecordedLakeSnapshot, RoundState, RoundStats
from tiering.model.tables import TableInfo
from tiering.planning.check_log import Traces
from tiering.planning.plan_splits import Plan
from tiering.round.steps import actions as act


@dataclass(frozen=True)
class Round:
    """The state of a round. `sent` = number of commit requests sent; `phase` is the phase in which an error is reported.

    `snapshot_properties` come with the grant, and every snapshot of that grant carries them. `log_rereads` = how often the log may be read
    again, `traces` = the traces of its records. `leased` = how often snapshots were leased, `redone` = how often the splits were run again
    because the base had moved.
    """

    assignment: Assignment
    cluster_id: str
    phase: Phase = Phase.PLAN
    table: TableInfo | None = None
    base: Base | None = None
    recorded_by_cluster: RecordedLakeSnapshot | None = None
    plan: Plan | None = None
    log_rereads: int = 0
    traces: Traces = field(default_factory=dict)
    leased: int = 0
    lake_table_uuid: str | None = None
    stats: RoundStats = field(default_factory=RoundStats)
    committable: Committable | None = None
    marker: Marker | None = None
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    whole: bool = True
    stopped: BucketStopped | None = None
    """The error of a bucket that stops at a record, while the round commits the other work; `stopped_phase` is the phase in which it was
    found.
    """
    stopped_phase: Phase = Phase.WRITE
    sent: int = 0
    redone: int = 0
    commit_error: LakewardError | None = None
    failure: LakewardError | None = None
    snapshot_id: int | None = None
    passed_head: int | None = None
    mode: ServiceMode = ServiceMode.EXCLUSIVE


Step = tuple[Round, act.Action]


def failed(state: Round, error: LakewardError) -> Step:
    """Ends the round with an error. Its files are deleted only if no commit request was ever sent."""
    written = state.committable
    if not state.sent and state.failure is None and written is not None and (written.results or written.rewrites):
        return replace(state, failure=error), act.AbortFiles(table_of(state), written)
    return end_failed(state, error)


def end_failed(state: Round, error: LakewardError) -> Step:
    """Ends the round with an error, without deleting files."""
    states = {Fenced: RoundState.FENCED, Cancelled: RoundState.CANCELLED}
    ended = next((name for kind, name in states.items() if isinstance(error, kind)), RoundState.FAILED)
    return state, act.End(replace(outcome(state, ended), error=error, phase=state.phase))


def end_well(state: Round) -> Step:
    """Ends a round whose commit landed. Also reports a bucket that stops at a record."""
    ended = outcome(state, RoundState.SUCCEEDED if state.whole else RoundState.FORCE_FINISHED)
    return state, act.End(ended if state.stopped is None else replace(ended, error=state.stopped, phase=state.stopped_phase))


def outcome(state: Round, ended: RoundState) -> act.RoundOutcome:
    """Returns the outcome of a round that ends in state `ended`, without an error."""
    return act.RoundOutcome(ended, state.stats, state.snapshot_id, state.passed_head)


def table_of(state: Round) -> TableInfo:
    """Returns the table of a round that has read it."""
    assert state.table is not None
    return state.table


def base_of(state: Round) -> Base:
    """Returns the base of a round that has read it."""
    assert state.base is not None
    return state.base


def plan_of(state: Round) -> Plan:
    """Returns the plan of a round that has planned."""
    assert state.plan is not None
    return state.plan
