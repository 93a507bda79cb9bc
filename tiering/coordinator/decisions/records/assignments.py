"""What the cluster and other tiering services say about a table."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tiering.coordinator.decisions.records.text_offsets import TextOffsets


class AssignmentEnd(StrEnum):
    """What the cluster is told of an assignment that is over here."""

    FINISHED = "finished"
    FAILED = "failed"


@dataclass(frozen=True)
class AssignmentRecord:
    """The cluster's word that it is this deployment's turn with a table; only from clusters that assign (`tiering.cluster.assignments`).

    `end`: over here, and the cluster is to be told; None = still ours. `certain` False: its session is over, so that the same epochs may be
    another service's by now; it is kept for a commit with an unknown outcome alone, and begins no round.
    """

    coordinator_epoch: int
    tiering_epoch: int
    session: str
    assigned_since: datetime
    end: AssignmentEnd | None = None
    certain: bool = True


@dataclass(frozen=True)
class ElsewhereRecord:
    """What is known of a lake table that another service tiered further than we know. `source`: the value of `status_source`."""

    source: str
    lake_snapshot_id: int
    offsets: TextOffsets
    noticed_time: datetime
