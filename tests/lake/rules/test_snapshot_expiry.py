"""Which snapshots expire: over whole ranges of histories nothing goes that must stay, and what stays is bounded."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from support.worlds.memory_coordinator import table_info
from tiering.lake.rules.upkeep.snapshot_expiry import (
    KEPT_BY_USER,
    NEWEST,
    REMOVED_AT_ONCE,
    SLOTS,
    UNKNOWN_HEAD,
    UNREFERENCED_MAX_AGE_MS,
    ExpiryRule,
    TableHistory,
    TableReference,
    TableSnapshot,
    expired_snapshots,
    expiry_rule,
    kept_snapshots,
)
from tiering.lake.table_options import SNAPSHOT_MAX_AGE, SNAPSHOT_MIN_COUNT
from tiering.model.tables import UNKNOWN_SNAPSHOT, SnapshotRetention
from tiering.model.upkeep import ExpiryOrder

HOUR = 3_600_000
DAY = 24 * HOUR
NOW = 1_700_000_000_000
RETENTION = SnapshotRetention(DAY, 10)


def rounds(count: int, step_ms: int, newest_ms: int = NOW) -> list[TableSnapshot]:
    """Snapshots 1 to `count` of rounds, one each `step_ms`."""
    return [TableSnapshot(n, n - 1 or None, n, newest_ms - (count - n) * step_ms, is_of_round=True) for n in range(1, count + 1)]


def history(snapshots: list[TableSnapshot], **more: object) -> TableHistory:
    newest = snapshots[-1].snapshot_id
    return TableHistory(**{"snapshots": snapshots, "head": newest, "tiered": newest, **more})  # type: ignore[arg-type]


def left(table: TableHistory, retention: SnapshotRetention = RETENTION, now_ms: int = NOW, **more: int) -> set[int]:
    gone = set[int]()
    while removed := expired_snapshots(table, retention, now_ms, **more):  # type: ignore[arg-type]
        gone.update(removed)
        table = replace(table, snapshots=[row for row in table.snapshots if row.snapshot_id not in gone])
    return {row.snapshot_id for row in table.snapshots}


def test_a_day_of_rounds_each_10_s_leaves_a_snapshot_of_each_quarter_of_an_hour() -> None:
    table = history(rounds(20_000, 10_000))
    kept = left(table)
    assert set(range(19_991, 20_001)) <= kept
    assert len(kept) <= RETENTION.min_count + SLOTS + 1
    times = sorted(row.committed_ms for row in table.snapshots if row.snapshot_id in kept)
    assert max(after - before for before, after in pairwise(times)) <= DAY // SLOTS + 10_000
    assert NOW - times[0] > DAY - 2 * DAY // SLOTS


def test_the_same_snapshots_stay_whether_expiry_runs_with_each_commit_or_once() -> None:
    whole = rounds(1_500, 60_000)
    kept: list[TableSnapshot] = []
    for row in whole:
        kept.append(row)
        gone = set(expired_snapshots(history(kept), RETENTION, row.committed_ms))
        assert len(gone) <= 2
        kept = [other for other in kept if other.snapshot_id not in gone]
    within = {row.snapshot_id for row in whole if row.committed_ms >= whole[-1].committed_ms - DAY}
    assert {row.snapshot_id for row in kept} & within == left(history(whole)) & within


def test_one_commit_removes_a_bounded_number_the_oldest_first() -> None:
    assert expired_snapshots(history(rounds(50_000, 10_000)), RETENTION, NOW) == list(range(1, 25_001))
    assert len(expired_snapshots(history(rounds(1_500, 10_000)), RETENTION, NOW)) == REMOVED_AT_ONCE


def test_a_table_of_50_000_snapshots_is_healed_by_a_few_commits() -> None:
    snapshots, commits = rounds(50_000, 10_000), 0
    while removed := set(expired_snapshots(history(snapshots), RETENTION, NOW)):
        snapshots = [snapshot for snapshot in snapshots if snapshot.snapshot_id not in removed]
        commits += 1
    assert commits == 7
    assert len(snapshots) < 120


def test_without_thinning_only_the_age_counts() -> None:
    assert left(history(rounds(100, HOUR)), thins=False) == set(range(75, 101))  # 75 was the head a day ago


def test_an_idle_table_keeps_the_newest() -> None:
    assert left(history(rounds(30, 10_000, NOW - 30 * DAY))) == set(range(21, 31))


def test_foreign_commits_since_the_newest_tiering_commit_stay_whatever_their_number() -> None:
    table = history(rounds(500, 1_000, NOW - 9 * DAY), tiered=100, references=())
    assert left(table) == set(range(100, 501))


def test_the_head_of_a_table_that_was_rolled_back_stays() -> None:
    table = history(rounds(200, 1_000, NOW - 9 * DAY), head=3)
    assert left(table) == {3, *range(191, 201)}


def test_user_settings_keep_more_and_never_less() -> None:
    table = history(rounds(2_000, 60_000))
    assert left(replace(table, user_max_age_ms=2 * HOUR)) >= set(range(1_880, 2_001))
    assert left(replace(table, main_max_age_ms=2 * HOUR)) >= set(range(1_880, 2_001))
    assert left(replace(table, user_min_count=500)) >= set(range(1_501, 2_001))
    assert left(replace(table, main_min_count=500)) >= set(range(1_501, 2_001))
    assert left(replace(table, user_max_age_ms=1, user_min_count=1)) == left(table)


def test_what_a_tag_names_stays_and_a_branch_keeps_what_its_retention_says() -> None:
    table = history(rounds(200, HOUR))
    tagged = replace(table, references=[TableReference(3, is_branch=False), TableReference(9, is_branch=True, max_age_ms=1, min_count=4)])
    assert left(tagged) - left(table) == {3, 6, 7, 8, 9}
    aged = replace(table, references=[TableReference(160, is_branch=True, max_age_ms=50 * HOUR)])
    assert left(aged) >= set(range(150, 161))
    by_default = replace(table, references=[TableReference(160, is_branch=True)])
    assert left(by_default) >= set(range(80, 161))


def test_a_snapshot_that_was_never_on_main_waits_for_days() -> None:
    staged = TableSnapshot(1_000, 1, 2, NOW - 3 * DAY)
    table = history([*rounds(3, 1_000, NOW - 4 * DAY), staged, *rounds(3, 1_000)], head=3, tiered=3)
    assert 1_000 in left(table, SnapshotRetention(HOUR, 1))
    assert 1_000 not in left(table, SnapshotRetention(HOUR, 1), NOW + UNREFERENCED_MAX_AGE_MS)


def test_snapshots_behind_a_cut_chain_of_parents_are_still_those_of_the_main_branch() -> None:
    """A foreign commit on main has no mark of a round: the table's log of heads names it."""
    orphan, head_a_day_ago = TableSnapshot(5, 4, 5, NOW - 2 * DAY), TableSnapshot(6, 5, 6, NOW - 2 * DAY + HOUR)
    table = history(
        [
            orphan,
            head_a_day_ago,
            *[
                replace(row, snapshot_id=row.snapshot_id + 10, sequence_number=row.sequence_number + 10, parent_id=None)
                for row in rounds(20, 1_000)
            ],
        ]
    )
    assert 5 in left(table)
    assert {5, 6} & left(replace(table, former_heads={5, 6})) == {6}


def test_nothing_goes_of_a_table_whose_head_or_tiering_commit_is_unknown() -> None:
    assert left(history(rounds(100, DAY), tiered=1_000)) == set(range(1, 101))
    assert left(history(rounds(100, DAY), head=1_000)) == set(range(1, 101))
    assert left(history(rounds(100, DAY), kept_since=UNKNOWN_SNAPSHOT)) == set(range(1, 101))


def test_snapshots_since_the_assignment_of_the_round_stay_for_reads_that_were_opened_since() -> None:
    table = history(rounds(100, 1_000), kept_since=40)
    assert left(replace(table, kept_since=None)) == left(replace(table, kept_since=100)) != set(range(1, 101))
    assert set(range(40, 101)) <= left(table)
    assert set(range(1, 40)) - left(table)


SNAPSHOTS = st.lists(st.tuples(st.integers(0, 3 * DAY), st.booleans(), st.booleans()), min_size=1, max_size=60)
OPTIONAL = st.one_of(st.none(), st.integers(0, 4 * DAY))
REFERENCES = st.lists(st.tuples(st.integers(0, 59), st.booleans(), OPTIONAL, st.one_of(st.none(), st.integers(1, 9))), max_size=4)


@settings(max_examples=300, deadline=None)
@given(
    SNAPSHOTS,
    REFERENCES,
    st.integers(0, 59),
    st.integers(0, 59),
    st.integers(1, 3 * DAY),
    st.integers(1, 20),
    OPTIONAL,
    st.integers(1, 30),
    st.data(),
)
def test_over_all_histories_nothing_goes_that_must_stay(
    drawn: list[tuple[int, bool, bool]],
    references: list[tuple[int, bool, int | None, int | None]],
    tiered: int,
    head: int,
    max_age_ms: int,
    min_count: int,
    user_max_age_ms: int | None,
    limit: int,
    data: st.DataObject,
) -> None:
    ages = sorted((age for age, _, _ in drawn), reverse=True)
    snapshots = [
        TableSnapshot(n, n - 1 if has_parent and n else None, n, NOW - ages[n], is_of_round)
        for n, (_, is_of_round, has_parent) in enumerate(drawn)
    ]
    count = len(snapshots)
    tiered, head = min(tiered, count - 1), max(min(head, count - 1), min(tiered, count - 1))
    named = [TableReference(min(number, count - 1), branch, age, least) for number, branch, age, least in references]
    former = data.draw(st.sets(st.integers(0, count - 1)))
    read = data.draw(st.sets(st.integers(0, count - 1)))
    table = TableHistory(snapshots, head, tiered, named, former, read, user_max_age_ms)
    retention = SnapshotRetention(max_age_ms, min_count)
    gone = expired_snapshots(table, retention, NOW, limit=limit)
    assert len(gone) <= max(limit, len(table.snapshots) // 2)
    assert gone == sorted(gone)
    lost = set(gone)
    assert not lost & read
    assert not lost & {head, tiered, *(reference.snapshot_id for reference in named)}
    assert all(number < tiered for number in lost)
    main = on_main(table)
    assert not lost & set(main[-min_count:])
    for row in (row for row in snapshots if row.snapshot_id in lost):
        age = NOW - row.committed_ms
        assert row.snapshot_id in main or age > UNREFERENCED_MAX_AGE_MS
        assert user_max_age_ms is None or age > user_max_age_ms
        slot_ms = max(max_age_ms // SLOTS, 1)
        later = [snapshots[other].committed_ms // slot_ms for other in main if other > row.snapshot_id]
        assert age > max_age_ms or row.committed_ms // slot_ms in later


def on_main(table: TableHistory) -> list[int]:
    """Ids that are or were on the main branch, oldest first; in these tests ids are positions."""
    line, current = set[int](), table.head
    while current is not None and current not in line:
        line.add(current)
        current = table.snapshots[current].parent_id  # type: ignore[assignment]
    marked = {row.snapshot_id for row in table.snapshots if row.is_of_round}
    return sorted(line | marked | set(table.former_heads))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, DAY), min_size=1, max_size=400), st.integers(60_000, DAY), st.integers(1, 20))
def test_what_stays_of_the_main_branch_is_bounded(ages: list[int], max_age_ms: int, min_count: int) -> None:
    snapshots = [TableSnapshot(n, None, n, NOW - age, is_of_round=True) for n, age in enumerate(sorted(ages, reverse=True))]
    assert len(left(history(snapshots), SnapshotRetention(max_age_ms, min_count))) <= min_count + SLOTS + 3


def test_an_order_is_taken_literally_and_its_gaps_are_filled_by_the_options() -> None:
    now = datetime.fromtimestamp(NOW / 1_000, UTC)
    options = {SNAPSHOT_MAX_AGE.name: "2 h", SNAPSHOT_MIN_COUNT.name: "7"}
    off, on = table_info("d.t", properties=options), table_info("d.t", snapshot_retention=SnapshotRetention(HOUR, 3))
    assert expiry_rule(off, None, NOW) is None, "no option asks for it"
    assert expiry_rule(on, None, NOW) == ExpiryRule(SnapshotRetention(HOUR, 3))
    assert expiry_rule(off, ExpiryOrder(), NOW) == ExpiryRule(SnapshotRetention(2 * HOUR, 7), thins=False)
    assert expiry_rule(on, ExpiryOrder(retain_last=1), NOW) == ExpiryRule(SnapshotRetention(HOUR, 1))
    ordered = expiry_rule(on, ExpiryOrder(older_than=now - timedelta(minutes=5)), NOW)
    assert ordered == ExpiryRule(SnapshotRetention(300_000, 3), thins=False), "no younger snapshot is thinned out"
    assert expiry_rule(on, ExpiryOrder(older_than=now + timedelta(days=1)), NOW) == ExpiryRule(SnapshotRetention(0, 3), thins=False)


def test_each_snapshot_that_stays_has_a_reason() -> None:
    snapshots = rounds(30, HOUR)
    references = [TableReference(3, is_branch=False, name="audit"), TableReference(6, True, 1, 2, "dev")]
    table = replace(history(snapshots, references=references), user_min_count=12)
    reasons = kept_snapshots(table, SnapshotRetention(5 * HOUR, 2), NOW)
    assert {number: reasons[number] for number in (3, 5, 6, 28, 30)} == {
        3: "the tag 'audit'",
        5: "the branch 'dev'",
        6: "the branch 'dev'",
        28: KEPT_BY_USER,
        30: NEWEST,
    }
    assert set(reasons) == {3, 5, 6, *range(19, 31)}
    assert set(kept_snapshots(replace(table, tiered=99), RETENTION, NOW).values()) == {UNKNOWN_HEAD}
