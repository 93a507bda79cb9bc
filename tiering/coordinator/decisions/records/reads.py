"""The needs of open reads, as the store has them for the coordinator that takes over."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from tiering.coordinator.decisions.records.text_offsets import TextOffsets
from tiering.model.reading.open_reads import MAX_TTL, READ_TTL


@dataclass(frozen=True)
class ReadHold:
    """The lake snapshot and the log records that reads of one table need until a time.

    It is stored before the ticket of such a read is issued. Only a coordinator that takes over changes it (`inherited_at`).
    """

    hold_id: str
    table_id: int
    lake_snapshot_id: int | None
    """None: the reads need no lake snapshot."""
    log: TextOffsets
    """Per bucket the first log record that the reads need. Buckets of which they need no record are left out."""
    until: datetime
    first_until: datetime | None = None
    """The end before a coordinator that took over extended it; None: it was never extended."""

    def covers(self, lake_snapshot_id: int | None, log: TextOffsets, until: datetime) -> bool:
        """Returns whether it keeps this snapshot, and the log from these offsets on, up to this time."""
        keeps_log = all(bucket in self.log and self.log[bucket] <= start for bucket, start in log.items())
        return keeps_log and lake_snapshot_id in (None, self.lake_snapshot_id) and self.until >= until

    def inherited_at(self, now: datetime) -> ReadHold:
        """Returns the hold as the coordinator that takes over at `now` keeps it.

        Readers could not renew while no coordinator ran. So a hold that ended meanwhile, or that ends soon, is extended: its readers have
        READ_TTL to renew. A coordinator deletes holds that end while it runs, so dead readers are not among them for long. A hold that was
        extended before is extended again only if it has ended, so that coordinators that restart often do not keep it. What ended MAX_TTL
        ago, before all extensions, is not extended.
        """
        first_until = self.first_until or self.until
        is_short = self.until < now + READ_TTL if self.first_until is None else self.until <= now
        if not is_short or now - first_until >= MAX_TTL:
            return self
        return replace(self, until=now + READ_TTL, first_until=first_until)
