"""The coordinator's records of running rounds' splits: late reports never undo them, they are bounded, and they end with the round."""

from __future__ import annotations

import random
import tracemalloc
from dataclasses import replace
from itertools import pairwise

from tiering.coordinator.tierers.messages import SplitsReport
from tiering.coordinator.tierers.progress import RunningSplits
from tiering.model.splits import SplitPosition, SplitProgress, SplitState, TieringLogSplit
from tiering.model.tables import BucketKey, TablePath
from tiering.wire.model_codecs import split_from_pb, split_to_pb

PATH = TablePath("sales", "orders")
RUNNING = SplitPosition(SplitState.RUNNING, 0, "0@a", 50, 50)


def split(number: int = 0, position: SplitPosition = RUNNING) -> SplitProgress:
    return SplitProgress(TieringLogSplit(PATH, BucketKey(None, number), None, 0, 100, 100), position)


def report(*splits: SplitProgress, table: int = 1, round_id: str = "r1", run: int = 1, splits_told: int = 0) -> SplitsReport:
    return SplitsReport(table, round_id, run, splits_told, [(progress.split.bucket.bucket_id, progress) for progress in splits])


def test_reports_in_any_order_lead_to_the_same_and_never_back() -> None:
    positions = [replace(RUNNING, current_offset=offset, records=offset) for offset in (10, 40, 90)]
    positions += [SplitPosition(SplitState.FAILED, 0, "0@a", 95, 95), SplitPosition(SplitState.RUNNING, 1, "1@b", 5, 5)]
    last = SplitPosition(SplitState.DONE, 1, "1@b", 100, 100)
    shuffled = random.Random(3)
    for _ in range(50):
        splits, shown = RunningSplits(), []
        for position in [*shuffled.choices(positions, k=10), last, *shuffled.choices(positions, k=3)]:
            splits.take(report(split(position=position)))
            shown.append(splits.of_round(1, "r1")[0].position)
        for earlier, later in pairwise(shown):
            assert earlier.attempt <= later.attempt
            if earlier.attempt == later.attempt:
                assert earlier.then(later) == later
        assert shown[-1] == last


def test_another_run_begins_anew_and_an_older_one_changes_nothing() -> None:
    splits = RunningSplits()
    splits.take(report(split(0), split(1)))
    splits.take(report(split(0, SplitPosition()), run=2))
    assert [progress.position.state for progress in splits.of_round(1, "r1")] == [SplitState.QUEUED]
    assert splits.take(report(split(0), split(1), run=1, splits_told=2))
    assert [progress.position.state for progress in splits.of_round(1, "r1")] == [SplitState.QUEUED]


def test_missing_splits_are_asked_for_and_those_beyond_the_bound_are_not() -> None:
    splits = RunningSplits(limit=3)
    assert not splits.take(report(split(1), splits_told=2))
    assert splits.take(report(split(0), splits_told=1))
    assert splits.take(report(split(0), split(1), table=2, round_id="r2", splits_told=5))
    assert (len(splits), len(splits.of_round(2, "r2"))) == (3, 1)
    splits.take(report(split(1, replace(RUNNING, current_offset=70))))
    assert splits.of_round(1, "r1")[1].current_offset == 70


def test_a_round_that_is_over_is_forgotten() -> None:
    splits = RunningSplits()
    splits.take(report(split(0), split(1)))
    splits.take(report(split(0), table=2, round_id="r2"))
    assert splits.of_round(1, "r9") == ()
    splits.forget_ended({1: "r9", 2: "r2"}.get)
    assert (len(splits), splits.of_round(1, "r1"), len(splits.of_round(2, "r2"))) == (1, (), 1)
    splits.take(report(split(0), table=2, round_id="r3"))
    assert (len(splits), splits.of_round(2, "r2")) == (1, ())


def test_splits_of_many_rounds_take_little_memory() -> None:
    """The splits arrive as on the wire; 55 MB for a thousand rounds of a hundred splits."""
    splits = RunningSplits()
    tracemalloc.start()
    try:
        for table in range(200):
            path, position = TablePath("sales", f"t{table}"), replace(RUNNING, executor=f"{table % 20}@worker-{table % 20}")
            messages = [split_to_pb(number, split(number, replace(position, current_offset=1_000 + number))) for number in range(100)]
            numbered = [(message.number, split_from_pb(message, path)) for message in messages]
            splits.take(SplitsReport(table, f"r{table}", 1, 0, numbered))
            del messages, numbered
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(splits) == 20_000
    print(f"{used / 1e6:.1f} MB, {used / len(splits):.0f} bytes a split")
    assert used < 550 * len(splits)
