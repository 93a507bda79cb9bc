"""The recorded lake around a replay: its records are not skipped during the commit, and are again if no commit was sent."""

from __future__ import annotations

from tiering.coordinator.decisions.dead_letters import with_replayed_again, without_replayed
from tiering.coordinator.decisions.records import LakeState
from tiering.lake.dead_letters.settled import SettledLetters
from tiering.model.tables import BucketKey


def test_a_record_that_is_skipped_during_a_replay_stays_skipped_after_it() -> None:
    before = LakeState(dead_letters={"0": (4, 7)}).with_skipped("0", 4, "a").with_skipped("0", 7, None).with_skipped("0", 9, "c")
    settled = SettledLetters({BucketKey(None, 0): {4, 7}})
    during = without_replayed(before, settled)
    assert (during.skipped, during.dead_letters) == ({"0": (9,)}, {"0": (4, 7)})
    assert with_replayed_again(during, before, settled) == before
    skipped = during.with_skipped("0", 12, "d").with_skipped("1", 3, None)
    assert with_replayed_again(skipped, before, settled) == before.with_skipped("0", 12, "d").with_skipped("1", 3, None)
