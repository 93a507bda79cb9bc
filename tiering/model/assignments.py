"""What a cluster that says whose turn it is with a table, such as Apache Fluss, is told and answers (LakeTieringHeartbeat).

An assignment is named by table id, coordinator epoch and tiering epoch. These numbers alone prove nothing: Fluss counts its epochs from 0
again after a restart, so that another service's later assignment may have the same. They are trusted within one **session** alone, which
ends when the connection breaks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import TablePath


class ServiceMode(StrEnum):
    """How a deployment lives with its cluster. Beside another tiering service the rules of `tiering.lake.rules.shared_base` decide."""

    EXCLUSIVE = "exclusive"
    """No other service tiers the cluster's tables: a tiering snapshot that is not ours is an error."""
    SHARED = "shared"
    """Another service may tier them, too; the cluster says whose turn it is, and does not fence who comes late."""


@dataclass(frozen=True, order=True)
class AssignmentRef:
    """Names an assignment, within its session."""

    table_id: int
    coordinator_epoch: int
    tiering_epoch: int


@dataclass(frozen=True)
class AssignmentReport:
    """One heartbeat: what becomes of the assignments that the cluster knows of, and whether it may add one."""

    renewed: Sequence[AssignmentRef] = ()
    finished: Sequence[AssignmentRef] = ()
    failed: Sequence[AssignmentRef] = ()
    wants_table: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to say."""
        return not (self.renewed or self.finished or self.failed or self.wants_table)


class Judgement(StrEnum):
    """What the cluster makes of one assignment that a report names."""

    ACCEPTED = "accepted"
    GONE = "gone"
    """The table is not assigned to us under these epochs (any more)."""
    UNDECIDED = "undecided"
    """The cluster could not do it now: tell it again."""


@dataclass(frozen=True)
class JudgedAssignment:
    """An assignment of a report with the cluster's word on it. `reason` is the cluster's own, empty if it accepted."""

    ref: AssignmentRef
    judgement: Judgement
    reason: str = ""


@dataclass(frozen=True)
class NewAssignment:
    """A table that the cluster assigns."""

    ref: AssignmentRef
    path: TablePath


@dataclass(frozen=True)
class AssignmentAnswer:
    """The cluster's answer. What it left out of its answer is in no list."""

    renewed: Sequence[JudgedAssignment] = ()
    finished: Sequence[JudgedAssignment] = ()
    failed: Sequence[JudgedAssignment] = ()
    assigned: NewAssignment | None = field(default=None)


@dataclass(frozen=True)
class ServiceStatus:
    """How the tiering of a table stands that is another service's turn. `source`: a value of `status_source`."""

    source: str
    lake_snapshot: RecordedLakeSnapshot | None
