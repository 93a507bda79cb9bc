"""Rounds that are fenced: another round, process or service took the table before their commit.

One fence is normal. It follows a tierer that was lost, a restart, or a late commit of an earlier round, and the next round mends it.
Several without a round between them that went well are a failure of the table: it is counted and shown as any other, with a back-off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tiering.coordinator.decisions.change import Context
from tiering.coordinator.decisions.records import ErrorInfo, TableRecord
from tiering.errors import Fenced
from tiering.redaction.redact import outside_text

NOTHING_TO_DO = "Nothing to do: a new round follows."

ANOTHER_WRITER = (
    "Find what else writes to this lake table: sys.lake_commits and sys.tiering_rounds name the rounds, sys.tierers the processes. "
    "Stop a second coordinator or tiering service, and a tierer that hangs and goes on late (CALL sys.fence_tierer)."
)
TIERER_RESTARTS = (
    "Its process ends and starts again before a round is over: read the log of this tierer. Each tierer needs a --tierer-id of its own."
)
TURN_LOST = (
    "Look at the coordinator's log: its connection to the cluster's coordinator ends again and again, or it is started again and again."
)
STATE_LOST = (
    "The state store is set back to a backup again and again, or two coordinators have a store each: run one coordinator with one store."
)


@dataclass(frozen=True)
class Fence:
    """Why a round was fenced. `hint` is for fences that repeat; `by_operator`: a person did it on purpose, so it is never a failure."""

    why: str
    hint: str = ANOTHER_WRITER
    phase: str | None = None
    by_operator: bool = False


@dataclass(frozen=True)
class FenceVerdict:
    """What a fence means for its table. `fences`: how many there were since a round last went well, this one included."""

    error: ErrorInfo
    fences: int
    is_failure: bool


def judge(ctx: Context, record: TableRecord, fence: Fence) -> FenceVerdict:
    """The error of the fenced round, and whether it is a failure of the table: from the second fence on."""
    fences = record.consecutive_fences + (0 if fence.by_operator else 1)
    error = ErrorInfo(Fenced.__name__, fence.why, fence.phase, NOTHING_TO_DO, retryable=True, time=ctx.now.wall)
    if fence.by_operator or fences == 1:
        return FenceVerdict(error, fences, is_failure=False)
    message = outside_text(f"{fences} rounds were fenced, and none between them went well; the latest: {fence.why}")
    repeated = replace(error, message=message, hint=fence.hint)
    return FenceVerdict(repeated, fences, is_failure=True)
