"""The limit of records that are put aside within an hour: it counts in the lake's markers, and survives restarts and lost answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.background import tick
from support.lake_kinds.dead_letters import PUT_ASIDE, letters, tiered
from support.lake_kinds.kinds import LAKE_KINDS
from support.lake_kinds.poisoned import POISON, Poisoned, refuse_poison
from tiering.lake.table_options import DEAD_LETTERS_PER_HOUR
from tiering.model.rounds import RoundState


@pytest.fixture(autouse=True)
def _lakes_refuse_poison(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_poison(monkeypatch)


def limited(folder: Path, limit: int, buckets: int = 1) -> Poisoned:
    return Poisoned(folder, LAKE_KINDS[1], has_key=False, buckets=buckets, options={**PUT_ASIDE, DEAD_LETTERS_PER_HOUR.name: str(limit)})


def bad(first: int, count: int) -> list[tuple[int, str]]:
    return [(number, POISON) for number in range(first, first + count)]


def test_a_bucket_stops_at_the_first_record_beyond_the_limit_until_the_hour_is_over(tmp_path: Path) -> None:
    poisoned = limited(tmp_path, 2)
    poisoned.write(*bad(100, 2), (1, "row 1"), *bad(200, 2), (2, "row 2"))
    outcome = tiered(poisoned)
    assert outcome.error.ids["offset"] == "3"
    assert "'table.datalake.dead-letters-per-hour'" in outcome.error.message
    hint = outcome.error.hint
    assert "sys.dead_letters" in hint
    assert "CALL sys.set_table_option('sales.orders', 'table.datalake.dead-letters-per-hour', '1000')" in hint
    assert "'table.datalake.on-bad-record'" not in hint, "it is set already"
    assert (poisoned.in_lake(), len(letters(poisoned))) == ({1: "row 1"}, 2)
    poisoned.world.restart()
    assert poisoned.world.tier(poisoned.table).state is RoundState.FAILED, "the hour is not over, also for a new coordinator"
    poisoned.world.clock.advance(3_600)
    tick(poisoned.world.coordinator)
    assert tiered(poisoned).error is None
    assert (poisoned.in_lake(), len(letters(poisoned))) == ({1: "row 1", 2: "row 2"}, 4)
    poisoned.world.close()


def test_all_buckets_of_a_round_share_the_limit(tmp_path: Path) -> None:
    poisoned = limited(tmp_path, 3, buckets=4)
    poisoned.write(*((number, "good") for number in range(40)), *bad(100, 16), *((number, "good") for number in range(200, 240)))
    assert tiered(poisoned).error.error_class == "BucketStopped"
    assert len(letters(poisoned)) == 3
    assert poisoned.world.record(poisoned.table).lake.dead_letters_in_hour == 3
    poisoned.world.clock.advance(3_600)
    tick(poisoned.world.coordinator)
    tiered(poisoned)
    assert len(letters(poisoned)) == 6
    poisoned.world.close()


def test_a_record_whose_ack_was_lost_counts_as_soon_as_the_lake_is_read(tmp_path: Path) -> None:
    poisoned = limited(tmp_path, 2)
    poisoned.write((1, "row 1"), *bad(100, 2))
    poisoned.world.transport.lose_acks = True
    poisoned.world.due()
    poisoned.world.begin(poisoned.table).runner.run()
    poisoned.world.transport.lose_acks = False
    poisoned.world.restart()
    poisoned.write(*bad(200, 1))
    poisoned.world.clock.advance(600)
    tick(poisoned.world.coordinator)
    for _ in range(3):
        poisoned.world.tier(poisoned.table)
    assert len(letters(poisoned)) == 2
    assert poisoned.world.record(poisoned.table).lake.dead_letters == {"0": (1, 2)}
    [event] = [event for event in poisoned.world.store.events() if event.event_type == "DEAD_LETTERS"]
    marker = poisoned.world.view(poisoned.table).marker
    assert (event.level, event.details["records"], event.details["marker_round_id"]) == ("WARN", 2, marker.round_id)
    poisoned.world.close()
