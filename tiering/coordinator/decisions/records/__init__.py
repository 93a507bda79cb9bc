"""The coordinator's records: one frozen record per table, and the rows that a table adds to the store (rounds, ledger, events).

Records are here and not in `memory`, because decisions are functions from records to records. `memory` stores them and imports this
package. `tables` has the records of tables and of tierers. The other modules have its parts, and the records beside it.

The keys of stored offsets are the texts of buckets (`text_offsets`). Fields named `*_time` are wall times. Fields named `*_deadline` and
`*_since` are steady times (`moment`). All times have a time zone, UTC. None means unknown.
"""

from tiering.coordinator.decisions.records.errors import ErrorInfo, ErrorRecord, RepairKind, RepairOption
from tiering.coordinator.decisions.records.history import CommitState, EventRecord, LakeCommitRecord, Level, RoundRecord, Trigger
from tiering.coordinator.decisions.records.reads import ReadHold
from tiering.coordinator.decisions.records.tables import (
    AssignmentEnd,
    AssignmentRecord,
    LakeState,
    OperationRecord,
    OtherServiceRecord,
    Pause,
    QueuedCall,
    TableRecord,
    TiererRecord,
)
from tiering.coordinator.decisions.records.text_offsets import TextOffsets, from_text, to_text
from tiering.coordinator.decisions.records.upkeep import (
    BeforeUpkeep,
    EndedUpkeep,
    UpkeepOutcome,
    UpkeepPause,
    UpkeepRecord,
    UpkeepRequest,
)
