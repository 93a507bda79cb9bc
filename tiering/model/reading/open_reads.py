"""A read of a data table between OpenRead and CloseRead."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tiering.model.reading.scans import ReadMoment

READ_TTL = timedelta(minutes=5)
"""How long a read stays open without a renewal. A reader renews after a third of it, so a dead reader keeps nothing for long."""


@dataclass(frozen=True)
class OpenRead:
    """A read whose moment is fixed. What it needs is kept until `expires_at`."""

    read_id: str
    moment: ReadMoment
    principal: str
    """The identity whose privileges allow the read; empty if the service does not authenticate callers."""
    engine: str
    """The program that reads, such as `spark`."""
    application_id: str
    opened_at: datetime
    renewed_at: datetime
    """When the read was opened or last renewed."""
    expires_at: datetime

    def state(self, now: datetime) -> str:
        """Returns OPEN, or EXPIRING if the reader has missed a renewal."""
        return "EXPIRING" if self.expires_at - now < READ_TTL / 3 else "OPEN"
