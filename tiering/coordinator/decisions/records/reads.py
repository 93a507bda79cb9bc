"""The needs of open reads, as the store has them for the coordinator that takes over."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tiering.coordinator.decisions.records.text_offsets import TextOffsets


@dataclass(frozen=True)
class ReadHold:
    """The lake snapshot and the log records that reads of one table need until a time.

    It is stored before the ticket of such a read is issued, and it never changes.
    """

    hold_id: str
    table_id: int
    lake_snapshot_id: int | None
    """None: the reads need no lake snapshot."""
    log: TextOffsets
    """Per bucket the first log record that the reads need. Buckets of which they need no record are left out."""
    until: datetime

    def covers(self, lake_snapshot_id: int | None, log: TextOffsets, until: datetime) -> bool:
        """Returns whether it keeps this snapshot, and the log from these offsets on, up to this time."""
        keeps_log = all(bucket in self.log and self.log[bucket] <= start for bucket, start in log.items())
        return keeps_log and lake_snapshot_id in (None, self.lake_snapshot_id) and self.until >= until
