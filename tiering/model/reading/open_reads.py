"""A read of a data table between OpenRead and CloseRead."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tiering.model.reading.scans import ReadMoment

AGAIN = "Run the statement again. A DataFrame of Spark has to be created again."
"""Hint for errors after which a new read succeeds."""

READ_TTL = timedelta(minutes=5)
"""How long a read stays open after a renewal. Readers renew every minute, so some renewals may fail."""

UNRENEWED_TTL = timedelta(hours=1)
"""How long a read of the plain Spark source stays open by default, because no process renews or closes it."""

MAX_TTL = timedelta(hours=24)
"""Upper bound of the time for which a read may be opened. What a dead reader needs is kept that long."""


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
        """Returns OPEN, or EXPIRING if the reader has missed several renewals."""
        return "EXPIRING" if self.expires_at - now < READ_TTL / 3 else "OPEN"
