"""Who hears what a tierer and its rounds do: metrics and traces. Nothing here may fail or delay a round."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from tiering.model.rounds import Assignment
from tiering.round.steps.actions import RoundOutcome

_log = structlog.get_logger(__name__)


class TiererWatch:
    """Does nothing. Its methods are called from the tierer's loop and from the threads of rounds, and wait for nothing."""

    def heartbeat_answered(self) -> None:
        """The coordinator answered."""

    def heartbeat_failed(self) -> None:
        """It did not, or refused."""

    def round_started(self, assignment: Assignment) -> None:
        """A round runs."""

    def phase_done(self, assignment: Assignment, phase: str, spent_ms: int, elapsed_ms: int) -> None:
        """A piece of its plan, lease, read, write, commit or ack is done: begun `elapsed_ms` ago, of which `spent_ms` count for it."""

    def round_ended(self, assignment: Assignment, outcome: RoundOutcome, duration_ms: int) -> None:
        """It is over."""


class Watches(TiererWatch):
    """Several as one. What one of them raises is logged, and goes no further."""

    def __init__(self, watches: Sequence[TiererWatch]) -> None:
        self._watches = watches

    def heartbeat_answered(self) -> None:
        self._tell("heartbeat_answered")

    def heartbeat_failed(self) -> None:
        self._tell("heartbeat_failed")

    def round_started(self, assignment: Assignment) -> None:
        self._tell("round_started", assignment)

    def phase_done(self, assignment: Assignment, phase: str, spent_ms: int, elapsed_ms: int) -> None:
        self._tell("phase_done", assignment, phase, spent_ms, elapsed_ms)

    def round_ended(self, assignment: Assignment, outcome: RoundOutcome, duration_ms: int) -> None:
        self._tell("round_ended", assignment, outcome, duration_ms)

    def _tell(self, method: str, *arguments: object) -> None:
        for watch in self._watches:
            try:
                getattr(watch, method)(*arguments)
            except Exception:
                _log.exception("metrics or traces failed; the round goes on", call=method)
