"""Records of tierer processes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class TiererRecord:
    """A tierer process, as its heartbeats describe it. It is not stored: heartbeats restore it after a restart.

    `superseded`: a newer process uses its id, and up to this many of its own late heartbeats are still expected. `took_over`: it has taken
    over the rounds of earlier processes with its id.
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
    """A user took it out of service: it gets no table."""
    rounds: int = 0
    """Rounds that ended since this coordinator first heard from it."""

    @property
    def key(self) -> tuple[str, str]:
        """Id and incarnation. Another process may have the same id."""
        return self.tierer_id, self.incarnation
