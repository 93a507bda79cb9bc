"""The steps of one round as a pure state machine: (state, event) -> (state, action). DESIGN 6.

   read table -> read lake [base check] -> [ack if the lake is ahead of the records] -> read log [plan]
     -> the log seems cut or replaced while leaders may be moving: read log again
     -> nothing new: EMPTY; beside another service, if its record or a late request of ours has to be overtaken: a commit without rows
     -> [lease KV snapshots; one does not exist any more: read log again]
     -> ensure lake table -> record plan -> run splits [prefix] -> [stopped early: read traces] -> [log table: merge small files]
     -> fence -> [dead letters: append them to their own table] -> commit -> read lake [resolve]
          -> our commit landed: ack -> SUCCEEDED
          -> another round's commit landed: FENCED
          -> neither: base check again, with the same marker -> send the commit again, on the new head
     -> not sent, because rows to delete have moved: run splits again, to the same offsets -> commit

An upkeep round adds no rows. Its steps between base check and fence differ (`steps_of_upkeep`):

   [base check] -> ensure lake table -> record plan -> plan upkeep -> nothing to do: EMPTY
     -> rewrite files -> fence -> commit with the same offsets -> as above

Before a commit request was sent, a failure deletes the round's own files. After that nothing is deleted, and every error only means that
the lake has to be read again. `tiering.round.runner` carries out the actions.
"""

from __future__ import annotations

from dataclasses import replace

from tiering.errors import Cancelled, CommitOutcomeUnknown, LakewardError
from tiering.model.assignments import ServiceMode
from tiering.model.rounds import Assignment
from tiering.round.steps import actions as act
from tiering.round.steps import steps_of_upkeep, steps_to_commit, steps_to_write
from tiering.round.steps.round_state import Round, Step, base_of, end_failed, end_well, failed, table_of

__all__ = ["Round", "start", "step"]


def start(assignment: Assignment, cluster_id: str, mode: ServiceMode = ServiceMode.EXCLUSIVE, log_rereads: int = 0) -> Step:
    """Returns the first step of a round. `log_rereads`: how often the log may be read again before a cut or replaced log is believed."""
    return Round(assignment, cluster_id, mode=mode, log_rereads=log_rereads), act.ReadTable()


def step(state: Round, event: act.Event) -> Step:
    """Returns the step after `event`. An error that a rule raises ends the round like a failed action."""
    try:
        return _dispatch(state, event)
    except LakewardError as error:
        return failed(state, error)


def _dispatch(state: Round, event: act.Event) -> Step:
    match event:
        case act.TableRead(table):
            return steps_to_write.table_read(state, table)
        case act.LakeRead():
            return steps_to_commit.commit_resolved(state, event) if state.sent else steps_to_write.base_read(state, event)
        case act.Acked():
            return end_well(state) if state.sent else steps_to_write.adopted(state)
        case act.LogRead():
            return steps_to_write.log_read(state, event)
        case act.TracesRead(traces):
            return steps_to_commit.traces_read(state, traces)
        case act.SnapshotsLeased():
            return steps_to_write.snapshots_leased(state, event)
        case act.LakeEnsured(view):
            return steps_to_write.lake_ensured(state, view)
        case act.PlanRecorded():
            return steps_of_upkeep.plan_recorded(state) if state.assignment.upkeep else steps_to_write.plan_recorded(state)
        case act.SplitsRun():
            return steps_to_commit.splits_run(state, event)
        case act.FilesMerged(rewrites):
            return steps_to_commit.files_merged(state, rewrites)
        case act.UpkeepPlanned(plan):
            return steps_of_upkeep.upkeep_planned(state, plan)
        case act.FilesRewritten():
            return steps_of_upkeep.files_rewritten(state, event)
        case act.CommitGranted(properties):
            return steps_to_commit.commit_granted(replace(state, snapshot_properties=properties))
        case act.RecordsPutAside():
            return steps_to_commit.send_commit(state, base_of(state))
        case act.CommitSent():
            return state, act.ReadLake(table_of(state))
        case act.FilesAborted():
            return end_failed(state, state.failure or Cancelled("the round was aborted"))
        case act.ActionFailed(action, error):
            return _action_failed(state, action, error)


def _action_failed(state: Round, action: act.Action, error: LakewardError) -> Step:
    """Returns the step after an action that raised. Before the commit was sent the round ends; afterwards the lake is read again."""
    match action:
        case act.CommitLake() if isinstance(error, CommitOutcomeUnknown):
            return replace(state, commit_error=error), act.ReadLake(table_of(state))
        case act.CommitLake():
            return steps_to_commit.commit_not_sent(state, error)
        case act.Ack() if state.sent:  # the commit is in the lake; the coordinator learns of it from the finished report
            return end_well(state)
        case act.RunSplits():
            return failed(state, steps_to_commit.error_of_reading(error))
        case act.ReadTraces() if not isinstance(error, Cancelled):  # the rest of the round's work is worth more than these traces
            return steps_to_commit.merge_files(state)
        case act.MergeFiles() if not isinstance(error, Cancelled):
            return steps_to_commit.begin_commit(state)
        case act.ReadLake() if state.sent:
            return end_failed(state, steps_to_commit.unknown(state, f"the lake could not be read again: {error.message}"))
        case _:
            return failed(state, error)
