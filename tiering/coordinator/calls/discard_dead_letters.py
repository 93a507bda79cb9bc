"""`CALL sys.discard_dead_letters` (docs/dead-letters.md)."""

from __future__ import annotations

from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.lake_repair.letter_settler import LetterSettler
from tiering.procedures.discard_dead_letters import DiscardDeadLetters, DiscardDeadLettersResult


def discard_dead_letters(parts: CallParts, request: DiscardDeadLetters) -> DiscardDeadLettersResult:
    """Settles the dead letters.

    Raises InvalidArgument, CannotReconcile, UnknownTable, LakeUnavailable, ClusterUnavailable, SchemaDrift, CommitOutcomeUnknown.
    """
    return LetterSettler(parts).discard(request)
