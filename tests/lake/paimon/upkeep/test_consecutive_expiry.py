"""Which snapshots expire where ids stay consecutive: over whole ranges of histories nothing goes that must stay."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tiering.lake.rules.upkeep.consecutive_expiry import MAX_SNAPSHOTS, UNBOUNDED_MS, ConsecutiveHistory, oldest_kept
from tiering.model.tables import UNKNOWN_SNAPSHOT, SnapshotRetention

HOUR = 3_600_000
DAY = 24 * HOUR
NOW = 1_700_000_000_000
RETENTION = SnapshotRetention(DAY, 10)


def history(count: int, step_ms: int, **more: object) -> ConsecutiveHistory:
    times = [NOW - (count - number) * step_ms for number in range(1, count + 1)]
    return ConsecutiveHistory(**{"oldest": 1, "committed_ms": times, "tiered": count, **more})  # type: ignore[arg-type]


def test_without_a_bound_a_snapshot_stays_until_the_next_one_is_older_than_the_maximum_age() -> None:
    """A query as of any time within the maximum age sees the table's state at that time."""
    table = history(100, HOUR, is_bounded=False)
    kept = oldest_kept(table, RETENTION, NOW)
    assert table.committed_ms[kept - 1] <= NOW - DAY < table.committed_ms[kept]


def test_a_commit_every_10_s_leaves_a_bounded_number_of_snapshots() -> None:
    assert 8_640 - oldest_kept(history(8_640, 10_000), RETENTION, NOW, limit=10_000) + 1 == MAX_SNAPSHOTS
    fast = history(20_000, 1_000)
    assert 20_000 - oldest_kept(fast, RETENTION, NOW, limit=30_000) <= UNBOUNDED_MS // 1_000 + 1


def test_a_user_who_names_an_age_gets_it() -> None:
    assert oldest_kept(history(8_640, 10_000, is_bounded=False), RETENTION, NOW, limit=10_000) == 1
    assert oldest_kept(history(30, HOUR, user_max_age_ms=48 * HOUR), RETENTION, NOW) == 1
    assert oldest_kept(history(30, DAY, user_min_count=25), RETENTION, NOW) == 6


def test_snapshots_since_the_assignment_of_the_round_stay_for_reads_that_were_opened_since() -> None:
    assert oldest_kept(history(60, DAY), RETENTION, NOW) == 51
    assert oldest_kept(history(60, DAY, kept_since=40), RETENTION, NOW) == 40
    assert oldest_kept(history(60, DAY, kept_since=UNKNOWN_SNAPSHOT), RETENTION, NOW) == 1


def test_very_many_snapshots_expire_in_pieces() -> None:
    assert oldest_kept(history(50_000, 60_000), RETENTION, NOW) == 1_001


@settings(max_examples=100)
@given(
    count=st.integers(1, 60),
    step_ms=st.integers(1, 3 * HOUR),
    behind=st.integers(0, 20),
    reserved=st.lists(st.integers(0, 70), max_size=3),
    min_count=st.integers(1, 80),
    user_min_count=st.integers(0, 80),
)
def test_what_must_stay_stays(count: int, step_ms: int, behind: int, reserved: list[int], min_count: int, user_min_count: int) -> None:
    tiered = max(1, count - behind)
    table = history(count, step_ms, tiered=tiered, reserved=reserved, user_min_count=user_min_count)
    kept = oldest_kept(table, SnapshotRetention(DAY, min_count), NOW)
    assert 1 <= kept <= tiered
    assert kept <= max(1, min([tiered, *reserved]))
    assert count - kept + 1 >= min(count, max(min_count, user_min_count))
    for number in range(1, kept):
        assert table.committed_ms[number] <= NOW - DAY
