"""Adds up the durations of the parts of a round (`PhaseTimes`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tiering.model.rounds import PhaseTimes
from tiering.round.steps import actions as act

_PARTS: dict[type[act.Action], str] = {
    act.ReadTable: "plan",
    act.ReadLake: "plan",
    act.ReadLog: "plan",
    act.ReadTraces: "read",
    act.EnsureLakeTable: "plan",
    act.RecordPlan: "plan",
    act.LeaseSnapshots: "lease",
    act.MergeFiles: "write",
    act.PlanUpkeep: "plan",
    act.RewriteFiles: "write",
    act.AbortFiles: "write",
    act.BeginCommit: "commit",
    act.PutRecordsAside: "commit",
    act.CommitLake: "commit",
    act.Ack: "ack",
}


class PhaseTimer:
    """The accumulated durations of one round."""

    def __init__(self) -> None:
        self._spent: Counter[str] = Counter()

    def add(self, action: act.Action, event: act.Event, spent_ms: int, *, sent: bool) -> Mapping[str, int]:
        """Counts an action that took `spent_ms` and was answered by `event`. Returns the counted milliseconds by part (`plan`, `read`,
        ...).

        `sent`: a commit request was sent before, so reading the lake serves to find its outcome and counts as `commit`. Work on splits that
        failed as a whole counts as `write`.
        """
        counted: dict[str, int] = {}
        if isinstance(action, act.RunSplits):
            read_ms = round(spent_ms * event.work.read_share) if isinstance(event, act.SplitsRun) else 0
            counted = {"read": read_ms, "write": spent_ms - read_ms}
        elif sent and isinstance(action, act.ReadLake):
            counted = {"commit": spent_ms}
        elif (part := _PARTS.get(type(action))) is not None:
            counted = {part: spent_ms}
        self._spent.update(counted)
        return counted

    def times(self) -> PhaseTimes:
        """Returns the durations counted so far."""
        return PhaseTimes(**{f"{part}_ms": spent_ms for part, spent_ms in self._spent.items()})
