"""One bad table slows no other: 1,000 tables, of which 50 are poisoned in ten ways, on a simulated clock."""

from __future__ import annotations

import pytest

from support.worlds.poisoned_tables import FRESHNESS_SECONDS, POISONS, PoisonedTables, percentile

TABLES, POISONED = 1_000, 50
TIERERS, SLOTS = 4, 2
"""Healthy tables need 3.2 slots of the eight; as many tables hang for long as there are slots beside those."""
SECONDS = 5 * 60.0


def story(tables: int, poisoned: int, tierers: int, slots: int) -> PoisonedTables:
    poisoned_tables = PoisonedTables(tables, poisoned, tierers, slots)
    poisoned_tables.run(SECONDS)
    poisoned_tables.world.coordinator.close()
    return poisoned_tables


def late(tables: PoisonedTables) -> float:
    """Seconds by which the p99 of the others' freshness is behind their promise."""
    return percentile(tables.peaks, 0.99) - FRESHNESS_SECONDS


def test_the_others_keep_their_promise() -> None:
    tables = story(TABLES, POISONED, TIERERS, SLOTS)
    assert {poison.name for poison in POISONS} == tables.attempts.keys()
    assert len(tables.peaks) > 1.4 * (TABLES - POISONED)
    assert late(tables) <= 0, percentile(tables.peaks, 0.99)
    records = tables.world.coordinator.table_records.all()
    assert {record.table_id for record in records.values() if record.consecutive_failures} == tables.poisons.keys()


def test_where_hanging_rounds_and_retries_take_all_slots_they_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the story above could not fail."""
    few = {"tables": 200, "poisoned": 20, "tierers": 1, "slots": 3}
    assert late(story(**few)) <= 0
    monkeypatch.setattr("support.worlds.poisoned_tables.HANGING_AFTER_MS", 3_600_000)
    monkeypatch.setattr("tiering.coordinator.decisions.retries.may_retry", lambda *_: True)
    assert late(story(**few)) > 10
