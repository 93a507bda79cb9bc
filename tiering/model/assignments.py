"""The messages to and from a cluster that decides which tiering service gets a table, such as Apache Fluss (LakeTieringHeartbeat).

A table id, a coordinator epoch and a tiering epoch together name an assignment. These numbers alone prove nothing: Fluss counts its epochs
from 0 again after a restart, so a later assignment of another service may have the same numbers. So they are only trusted within one
**session**, which ends when the connection breaks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import TablePath


class ServiceMode(StrEnum):
    """Whether a cluster has other tiering services. If so, the rules of `tiering.lake.rules.shared_base` check each lake table."""

    EXCLUSIVE = "exclusive"
    """No other service tiers the cluster's tables. A tiering snapshot of another service is an error."""
    SHARED = "shared"
    """Another service may tier the same tables. The cluster decides which service gets a table, and does not fence a late one."""


@dataclass(frozen=True, order=True)
class AssignmentRef:
    """The numbers that name an assignment within its session."""

    table_id: int
    coordinator_epoch: int
    tiering_epoch: int


@dataclass(frozen=True)
class LakeTotals:
    """Records and bytes of the data files of a whole lake table; None = unknown."""

    records: int | None
    size_bytes: int | None


@dataclass(frozen=True)
class AssignmentReport:
    """The content of one heartbeat: the state of each assignment that the cluster knows of, and whether the service asks for a table.

    `lake_totals` are those of the lake tables of `finished` assignments after the round.
    """

    renewed: Sequence[AssignmentRef] = ()
    finished: Sequence[AssignmentRef] = ()
    failed: Sequence[AssignmentRef] = ()
    wants_table: bool = False
    lake_totals: Mapping[AssignmentRef, LakeTotals] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Returns whether the report has no content, so that it need not be sent."""
        return not (self.renewed or self.finished or self.failed or self.wants_table)


class Judgement(StrEnum):
    """The cluster's answer to one assignment of a report."""

    ACCEPTED = "accepted"
    GONE = "gone"
    """The table is not, or no longer, assigned to this service under these epochs."""
    UNDECIDED = "undecided"
    """The cluster could not decide now. The next heartbeat reports the assignment again."""


@dataclass(frozen=True)
class JudgedAssignment:
    """An assignment of a report with the cluster's judgement. `reason` is the cluster's own text; it is empty if the cluster accepted."""

    ref: AssignmentRef
    judgement: Judgement
    reason: str = ""


@dataclass(frozen=True)
class NewAssignment:
    """A table that the cluster assigns to this service."""

    ref: AssignmentRef
    path: TablePath


@dataclass(frozen=True)
class AssignmentAnswer:
    """The cluster's answer to a heartbeat. An assignment that the answer does not name is in none of the lists."""

    renewed: Sequence[JudgedAssignment] = ()
    finished: Sequence[JudgedAssignment] = ()
    failed: Sequence[JudgedAssignment] = ()
    assigned: NewAssignment | None = field(default=None)


@dataclass(frozen=True)
class ServiceStatus:
    """The tiering of a table that another service tiers at present. `source` is a value of the column `status_source`."""

    source: str
    lake_snapshot: RecordedLakeSnapshot | None
