"""Who hears what a tierer and its rounds do: metrics and traces. Nothing here may fail or delay a round."""

from __future__ import annotations

from tiering.model.rounds import Assignment
from tiering.round.steps.actions import RoundOutcome


class TiererWatch:
    """Does nothing. Its methods are called from the tierer's loop and from the threads of rounds."""

    def heartbeat_answered(self) -> None:
        """The coordinator answered."""

    def heartbeat_failed(self) -> None:
        """It did not, or refused."""

    def round_started(self, assignment: Assignment) -> None:
        """A round runs."""

    def round_ended(self, assignment: Assignment, outcome: RoundOutcome, duration_ms: int) -> None:
        """It is over."""
