"""`CALL sys.replay_dead_letters` (docs/dead-letters.md)."""

from __future__ import annotations

from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.lake_repair.letter_settler import LetterSettler
from tiering.procedures.replay_dead_letters import ReplayDeadLetters, ReplayDeadLettersResult


def replay_dead_letters(parts: CallParts, request: ReplayDeadLetters) -> ReplayDeadLettersResult:
    """Settles the dead letters.

    Raises InvalidArgument, CannotReconcile, UnknownTable, LakeUnavailable, ClusterUnavailable, SchemaDrift, CommitOutcomeUnknown.
    """
    return LetterSettler(parts).replay(request)
