"""What the coordinator remembers: one frozen record a table, and the rows it leaves behind (rounds, ledger, events).

Records live here and not in `memory`, because decisions are functions from records to records: `memory` keeps them, and imports
this package. `tables` has the record of a table, and the other modules what it is made of and what stands beside it.

Offsets are kept by the text of their bucket (`text_offsets`). Fields named `*_time` are wall times, `*_deadline` and `*_since` steady
ones (see `moment`); all aware, UTC. None = unknown.
"""

from tiering.coordinator.decisions.records.assignments import AssignmentEnd, AssignmentRecord, ElsewhereRecord
from tiering.coordinator.decisions.records.errors import ErrorInfo, ErrorRecord, Way, WayOut
from tiering.coordinator.decisions.records.history import CommitState, EventRecord, LakeCommitRecord, Level, RoundRecord, Trigger
from tiering.coordinator.decisions.records.operations import OperationRecord, QueuedCall
from tiering.coordinator.decisions.records.tables import LakeKnowledge, Pause, TableRecord
from tiering.coordinator.decisions.records.text_offsets import TextOffsets, from_text, to_text
from tiering.coordinator.decisions.records.tierers import TiererRecord
from tiering.coordinator.decisions.records.upkeep import (
    BeforeUpkeep,
    EndedUpkeep,
    UpkeepOutcome,
    UpkeepPause,
    UpkeepRecord,
    UpkeepRequest,
)

__all__ = [
    "AssignmentEnd",
    "AssignmentRecord",
    "BeforeUpkeep",
    "CommitState",
    "ElsewhereRecord",
    "EndedUpkeep",
    "ErrorInfo",
    "ErrorRecord",
    "EventRecord",
    "LakeCommitRecord",
    "LakeKnowledge",
    "Level",
    "OperationRecord",
    "Pause",
    "QueuedCall",
    "RoundRecord",
    "TableRecord",
    "TextOffsets",
    "TiererRecord",
    "Trigger",
    "UpkeepOutcome",
    "UpkeepPause",
    "UpkeepRecord",
    "UpkeepRequest",
    "Way",
    "WayOut",
    "from_text",
    "to_text",
]
