"""Records of what the cluster and other tiering services report about a table."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tiering.coordinator.decisions.records.text_offsets import TextOffsets


class AssignmentEnd(StrEnum):
    """The end of an assignment that is reported to the cluster."""

    FINISHED = "finished"
    FAILED = "failed"


@dataclass(frozen=True)
class AssignmentRecord:
    """An assignment of the table to this deployment by the cluster. Only clusters that assign tables have it (`cluster.assignments`).

    `end`: the assignment is over here, and the cluster must be told; None while the table is still assigned. `certain` is False once the
    session of the assignment is over: another service may now have the same epochs. Such a record is kept only for a commit with an unknown
    outcome, and starts no round.
    """

    coordinator_epoch: int
    tiering_epoch: int
    session: str
    assigned_since: datetime
    end: AssignmentEnd | None = None
    certain: bool = True


@dataclass(frozen=True)
class ElsewhereRecord:
    """A snapshot of another service that is newer than what the coordinator has recorded. `source` is the value of `status_source`."""

    source: str
    lake_snapshot_id: int
    offsets: TextOffsets
    noticed_time: datetime
