"""The recorded lake around a replay, whose records are skipped again if no commit was sent; and the lake that a marker tells of."""

from __future__ import annotations

from datetime import UTC, datetime

from tiering.coordinator.decisions.dead_letters import with_marked_records, with_replayed_again, without_replayed
from tiering.coordinator.decisions.records import LakeState, TableRecord
from tiering.coordinator.status.dead_letter_rows import dead_letter_rows
from tiering.lake.dead_letters.settled import SettledLetters
from tiering.lake.marker import LaterChange
from tiering.model.tables import BucketKey

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_record_that_is_skipped_during_a_replay_stays_skipped_after_it() -> None:
    before = LakeState(dead_letters={"0": (4, 7)}).with_skipped("0", 4, "a").with_skipped("0", 7, None).with_skipped("0", 9, "c")
    settled = SettledLetters({BucketKey(None, 0): {4, 7}})
    during = without_replayed(before, settled)
    assert (during.skipped, during.dead_letters) == ({"0": (9,)}, {"0": (4, 7)})
    assert with_replayed_again(during, before, settled) == before
    skipped = during.with_skipped("0", 12, "d").with_skipped("1", 3, None)
    assert with_replayed_again(skipped, before, settled) == before.with_skipped("0", 12, "d").with_skipped("1", 3, None)


def test_a_superseded_record_is_skipped_as_long_as_the_marker_names_it() -> None:
    skipped, superseded = {"0": {4: None, 7: None}}, {"0": {4: LaterChange(9, "+U", 5)}}
    marked = with_marked_records(LakeState(), skipped, {}, superseded, NOW)
    assert (marked.skipped, marked.superseded) == ({"0": (4,)}, superseded), "also in a store that is new"
    record = TableRecord(1, "sales", "orders", "PRIMARY_KEY", "paimon", 1000, "definition", None, NOW, lake=marked)
    assert [(row.offset, row.status) for row in dead_letter_rows(record, None)] == [(4, "superseded")]
    assert with_marked_records(marked, {}, {}, {}, NOW) == LakeState()
