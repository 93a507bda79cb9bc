"""Processes that tier."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class TiererRecord:
    """A process that tiers, as its heartbeats describe it. Not stored: heartbeats bring it back after a restart.

    `superseded`: another process was met under its id; of its own heartbeats so many may still be late ones. `took_over`: it has
    taken over what earlier processes of its id ran. `warned_of_age`: the log says already that it is of an older version.
    """

    tierer_id: str
    incarnation: str
    sequence: int
    started_at_ms: int
    host: str
    application_id: str
    version: str
    slots: int
    heartbeat_time: datetime
    lost_deadline: datetime
    stopped: bool = False
    superseded: int = 0
    took_over: bool = False
    fenced: bool = False
    """Somebody took it out of service: it gets no table."""
    warned_of_age: bool = False
    rounds: int = 0
    """Rounds that it ended since it was met."""

    @property
    def key(self) -> tuple[str, str]:
        """Id and incarnation: another process may have the same id."""
        return self.tierer_id, self.incarnation
