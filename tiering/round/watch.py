"""Observers of a tierer and its rounds, for metrics and traces. They must never fail or delay a round."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from tiering.model.rounds import Assignment
from tiering.round.steps.actions import RoundOutcome

_log = structlog.get_logger(__name__)


class TiererWatch:
    """An observer that does nothing. Its methods are called from the tierer's loop and from the threads of rounds, and must not block."""

    def heartbeat_answered(self) -> None:
        """Called when the coordinator answered a heartbeat."""

    def heartbeat_failed(self) -> None:
        """Called when the coordinator did not answer a heartbeat, or refused it."""

    def round_started(self, assignment: Assignment) -> None:
        """Called when a round starts."""

    def phase_done(self, assignment: Assignment, phase: str, spent_ms: int, elapsed_ms: int) -> None:
        """Called when an action in a round's plan, lease, read, write, commit or ack is done. It began `elapsed_ms` ago; `spent_ms` of that
        count for `phase`.
        """

    def round_ended(self, assignment: Assignment, outcome: RoundOutcome, duration_ms: int) -> None:
        """Called when a round is over."""


class Watches(TiererWatch):
    """Forwards to several observers. An exception of an observer is logged and not raised."""

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
                _log.exception("metrics or traces failed; the round continues", call=method)
