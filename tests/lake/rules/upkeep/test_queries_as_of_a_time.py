"""A query as of a time after expiry reads a state at most one slot older within the maximum age. Before that age it reads such a state or
fails."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table.snapshots import SnapshotLogEntry

from tiering.lake.iceberg.commit.upkeep import _log_without
from tiering.lake.rules.upkeep.snapshot_expiry import SLOTS, TableHistory, TableReference, TableSnapshot, expired_snapshots
from tiering.model.tables import SnapshotRetention

MINUTE = 60_000
MAX_AGE = 24 * 60 * MINUTE
SLOT = MAX_AGE // SLOTS
PAUSES = st.sampled_from([10_000, MINUTE, 20 * MINUTE, 5 * 60 * MINUTE, 30 * 60 * MINUTE])


def entry(snapshot: TableSnapshot) -> SnapshotLogEntry:
    return SnapshotLogEntry.model_validate({"snapshot-id": snapshot.snapshot_id, "timestamp-ms": snapshot.committed_ms})


def after_rounds(pauses: Sequence[int], tagged: set[int], min_count: int) -> tuple[list[int], list[int]]:
    """Times of all commits, and of those in the log of heads after each round expired what may go."""
    kept: list[TableSnapshot] = []
    log: list[SnapshotLogEntry] = []
    times, now = list[int](), 1_700_000_000_000
    for number, pause in enumerate(pauses, start=1):
        now += pause
        if kept:
            references = [TableReference(snapshot.snapshot_id, is_branch=False) for snapshot in kept if snapshot.snapshot_id in tagged]
            newest = kept[-1].snapshot_id
            history = TableHistory(kept, newest, newest, references)
            removed = set(expired_snapshots(history, SnapshotRetention(MAX_AGE, min_count), now))
            log = _log_without(removed, log, now - MAX_AGE)
            kept = [snapshot for snapshot in kept if snapshot.snapshot_id not in removed]
        kept.append(TableSnapshot(number, number - 1 or None, number, now, is_of_round=True))
        log.append(entry(kept[-1]))
        times.append(now)
    return times, [row.timestamp_ms for row in log]


def newest_until(times: Sequence[int], moment: int) -> int | None:
    place = bisect_right(times, moment)
    return times[place - 1] if place else None


@given(
    pauses=st.lists(PAUSES, min_size=2, max_size=60),
    tagged=st.sets(st.integers(1, 60), max_size=4),
    min_count=st.integers(1, 3),
    back=st.integers(0, 3 * MAX_AGE),
)
def test_a_query_reads_the_state_of_its_slot_or_nothing(pauses: Sequence[int], tagged: set[int], min_count: int, back: int) -> None:
    commits, log = after_rounds(pauses, tagged, min_count)
    moment = commits[-1] - back
    answer, oldest = newest_until(log, moment), newest_until(commits, moment - SLOT)
    if answer is None:
        assert moment < commits[0] or back > MAX_AGE or (commits[-1] - commits[0] <= MAX_AGE and oldest is None)
    elif oldest is not None:
        assert answer >= oldest


def test_the_head_before_a_long_pause_answers_for_the_pause() -> None:
    pauses = [10_000] * 30 + [3 * MAX_AGE] + [10_000] * 30
    commits, log = after_rounds(pauses, set(), 10)
    assert newest_until(log, commits[-1] - MAX_AGE // 2) == commits[29]


def test_a_tag_beyond_the_maximum_age_does_not_answer_for_what_came_after_it() -> None:
    commits, log = after_rounds([60 * MINUTE] * 100, {5}, 10)
    assert newest_until(log, commits[50]) is None
