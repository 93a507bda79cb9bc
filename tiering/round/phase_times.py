"""Adds up how long the parts of a round take (`PhaseTimes`)."""

from __future__ import annotations

from collections import Counter

from tiering.model.rounds import PhaseTimes
from tiering.round.steps import actions as act

_PARTS: dict[type[act.Action], str] = {
    act.ReadTable: "plan_ms",
    act.ReadLake: "plan_ms",
    act.ReadLog: "plan_ms",
    act.EnsureLakeTable: "plan_ms",
    act.RecordPlan: "plan_ms",
    act.LeaseSnapshots: "lease_ms",
    act.AbortFiles: "write_ms",
    act.BeginCommit: "commit_ms",
    act.CommitLake: "commit_ms",
    act.Ack: "ack_ms",
}


class PhaseTimer:
    """Of one round."""

    def __init__(self) -> None:
        self._spent: Counter[str] = Counter()

    def add(self, action: act.Action, event: act.Event, spent_ms: int, *, sent: bool) -> None:
        """Counts an action that took `spent_ms` and was answered by `event`.

        `sent`: a commit request went out before, so that a look at the lake is for its outcome. Work on splits that failed as a whole
        counts as writing.
        """
        if isinstance(action, act.RunSplits):
            read_ms = round(spent_ms * event.work.read_share) if isinstance(event, act.SplitsRun) else 0
            self._spent.update(read_ms=read_ms, write_ms=spent_ms - read_ms)
        elif sent and isinstance(action, act.ReadLake):
            self._spent["commit_ms"] += spent_ms
        elif (part := _PARTS.get(type(action))) is not None:
            self._spent[part] += spent_ms

    def times(self) -> PhaseTimes:
        """What was counted so far."""
        return PhaseTimes(**self._spent)
