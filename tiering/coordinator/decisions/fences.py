"""Fenced rounds: another round, process or service took over the table before the commit.

One fence is normal. It follows a lost tierer, a restart, or a late commit of an earlier round, and the next round resolves it.
Several fences without a successful round between them are a failure of the table. Such a failure is counted and displayed like any other,
and has a back-off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tiering.coordinator.decisions.change import Context
from tiering.coordinator.decisions.records import ErrorInfo, TableRecord
from tiering.errors import Fenced
from tiering.redaction.redact import outside_text

NOTHING_TO_DO = "Nothing to do: a new round follows."

ANOTHER_WRITER = (
    "Find the other writer of this lake table: sys.lake_commits and sys.tiering_rounds show its rounds, sys.tierers the processes. "
    "Stop a second coordinator or tiering service. Stop a tierer that was suspended and continues late (CALL sys.fence_tierer)."
)
TIERER_RESTARTS = (
    "The tierer's process ends and starts again before a round is over: read its log. Give each tierer a --tierer-id of its own."
)
TURN_LOST = (
    "Read the coordinator's log: its connection to the cluster's coordinator ends repeatedly, or the coordinator is restarted repeatedly."
)
STATE_LOST = (
    "The state store is repeatedly set back to a backup, or two coordinators have a store each: run one coordinator with one store."
)


@dataclass(frozen=True)
class Fence:
    """Why a round was fenced. `hint` helps if such fences repeat. `by_operator`: a user fenced it, so it is never a failure."""

    why: str
    hint: str = ANOTHER_WRITER
    phase: str | None = None
    by_operator: bool = False


@dataclass(frozen=True)
class FenceVerdict:
    """The effect of a fence on its table. `fences` counts the fences since the last successful round, including this one."""

    error: ErrorInfo
    fences: int
    is_failure: bool


def judge(ctx: Context, record: TableRecord, fence: Fence) -> FenceVerdict:
    """Returns the error of the fenced round. From the second fence on, the fence is a failure of the table."""
    fences = record.consecutive_fences + (0 if fence.by_operator else 1)
    error = ErrorInfo(Fenced.__name__, fence.why, fence.phase, NOTHING_TO_DO, retryable=True, time=ctx.now.wall)
    if fence.by_operator or fences == 1:
        return FenceVerdict(error, fences, is_failure=False)
    message = outside_text(f"{fences} rounds were fenced, with no successful round between them; the latest: {fence.why}")
    repeated = replace(error, message=message, hint=fence.hint)
    return FenceVerdict(repeated, fences, is_failure=True)
