"""Events between a round's base and its commit: foreign commits, late requests, a table that is changed or dropped."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException

from support.worlds.coordinator_world import START, HandClock
from tiering.errors import CommitOutcomeUnknown, Fenced, LakeRolledBack, LakeTableReplaced, LakewardError, RoundFailed, SchemaDrift
from tiering.lake.iceberg.lake import IcebergLake
from tiering.lake.iceberg.reading.view import TAG
from tiering.lake.iceberg.writing.data_files import decode_files
from tiering.lake.rules.base_check import Base, CommitOutcome, check_base, check_same_base, resolve_commit
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey

B0, B1 = BucketKey(None, 0), BucketKey(None, 1)


def dense(stops: dict[BucketKey, int]) -> list[tuple[int, int]]:
    return sorted((key.bucket_id, offset) for key, stop in stops.items() for offset in range(stop))


# --- foreign commits between


def test_a_foreign_append_makes_the_commit_be_built_again_on_the_new_head(kit: Any) -> None:
    table = kit.table()
    base = check_base(kit.tier(table, "r1", {B0: 10}), kit.known(table))
    prepared = kit.prepare(table, "r2", {B0: 20}, view=base.view)
    kit.user_appends(table)
    with pytest.raises(CommitOutcomeUnknown):
        prepared.commit()
    assert resolve_commit(kit.view(table), "r2", base).outcome is CommitOutcome.NOT_FOUND
    again = check_same_base(base, kit.view(table), kit.known(table))
    assert prepared.commit(again.view) == kit.view(table).head
    assert kit.offsets_in_lake(table) == sorted([*dense({B0: 20}), (0, 900)])
    after = kit.view(table)
    assert after.tiered == after.head
    assert after.snapshots[after.head].parent_id == again.view.head


def test_a_foreign_append_before_the_first_round_is_not_taken_for_ours(kit: Any) -> None:
    table = kit.table()
    base = kit.lake.ensure_table(table)
    prepared = kit.prepare(table, "r1", {B0: 20}, view=base)
    kit.user_appends(table)
    with pytest.raises(CommitOutcomeUnknown):
        prepared.commit()
    with pytest.raises(LakewardError) as caught:
        check_same_base(Base(base, None, False), kit.view(table), kit.known(table))
    assert caught.value.error_class == "UntrackedLakeTable"


def test_two_attempts_of_one_round_share_no_metadata_file(kit: Any) -> None:
    table = kit.table()
    kit.tier(table, "r0", {B0: 1})
    prepared = kit.prepare(table, "r1", {B0: 10})
    kit.user_appends(table)
    before = set(kit.folder.rglob("*.avro"))
    with pytest.raises(CommitOutcomeUnknown):
        prepared.commit()
    first = set(kit.folder.rglob("*.avro")) - before
    prepared.commit(kit.view(table))
    second = set(kit.folder.rglob("*.avro")) - before - first
    assert len(first) == len(second) == 2
    assert all(path.exists() for path in first)


def test_a_late_request_of_an_earlier_attempt_cannot_land_beside_the_second(kit: Any, observed: Any) -> None:
    table = kit.table()
    base = kit.tier(table, "r1", {B0: 10})
    prepared = kit.prepare(table, "r2", {B0: 20}, view=base)
    lost = prepared.with_catalog(lambda catalog: observed(catalog, TimeoutError(), lands=False))
    with pytest.raises(CommitOutcomeUnknown):
        lost.commit()
    prepared.commit()
    with pytest.raises(CommitFailedException):
        prepared.factory.catalog.commit_table(*lost.factory.catalog.requests[0])
    assert kit.offsets_in_lake(table) == dense({B0: 20})


@pytest.mark.parametrize("retries", ["0", "10"])
def test_commit_retry_properties_of_the_table_do_not_matter(kit: Any, observed: Any, retries: str) -> None:
    table = kit.table()
    kit.tier(table, "r1", {B0: 10})
    with kit.catalog().load_table(str(table.path)).transaction() as change:
        change.set_properties({"commit.retry.num-retries": retries, "commit.retry.min-wait-ms": "1"})
    late = kit.prepare(table, "late", {B0: 20}, view=kit.view(table)).with_catalog(observed)
    kit.tier(table, "early", {B0: 15})
    manifests = set(kit.folder.rglob("*.avro"))
    with pytest.raises(CommitOutcomeUnknown):
        late.commit()
    assert len(late.factory.catalog.requests) == 1
    assert len(set(kit.folder.rglob("*.avro")) - manifests) == 2
    assert kit.offsets_in_lake(table) == dense({B0: 15})


# --- the table changed under the round


def test_a_table_that_was_dropped_and_made_anew_takes_no_files_of_the_old_one(kit: Any) -> None:
    table = kit.table()
    base = kit.tier(table, "r1", {B0: 10})
    prepared = kit.prepare(table, "r2", {B0: 20}, view=base)
    kit.catalog().drop_table(str(table.path))
    with pytest.raises(CommitOutcomeUnknown):
        prepared.commit()
    assert kit.lake.view(table.path) is None
    fresh = kit.lake.ensure_table(table)
    with pytest.raises(CommitOutcomeUnknown):
        prepared.commit()
    assert kit.view(table).head is None
    with pytest.raises(LakeTableReplaced):
        check_base(fresh, kit.known(table, base))
    with pytest.raises(LakeTableReplaced):
        prepared.commit(fresh)


def test_a_first_round_does_not_land_in_a_table_that_was_made_anew(kit: Any) -> None:
    """Both tables are empty: only the uuid tells them apart."""
    table = kit.table()
    prepared = kit.prepare(table, "r1", {B0: 10})
    kit.catalog().drop_table(str(table.path))
    kit.lake.ensure_table(table)
    with pytest.raises(CommitOutcomeUnknown):
        prepared.commit()
    assert kit.view(table).head is None


def test_a_rollback_between_base_and_commit_is_not_built_upon(kit: Any) -> None:
    """The tag is where it was: only the head tells."""
    table = kit.table()
    first = kit.tier(table, "r1", {B0: 10})
    base = kit.tier(table, "r2", {B0: 20})
    prepared = kit.prepare(table, "r3", {B0: 30}, view=base)
    kit.catalog().load_table(str(table.path)).manage_snapshots().rollback_to_snapshot(first.head).commit()
    with pytest.raises(CommitOutcomeUnknown):
        prepared.commit()
    assert kit.view(table).head == first.head
    with pytest.raises(LakeRolledBack):
        check_same_base(Base(base, base.marker, False), kit.view(table), kit.known(table))


def test_a_tag_moved_between_base_and_commit_is_not_moved_on(kit: Any) -> None:
    """The head is where it was: only the tag tells."""
    table = kit.table()
    first = kit.tier(table, "r1", {B0: 10})
    base = kit.tier(table, "r2", {B0: 20})
    prepared = kit.prepare(table, "r3", {B0: 30}, view=base)
    iceberg = kit.catalog().load_table(str(table.path))
    iceberg.manage_snapshots().remove_tag(TAG).create_tag(first.tiered, TAG).commit()
    with pytest.raises(CommitOutcomeUnknown):
        prepared.commit()
    assert kit.view(table).head == base.head


def test_a_changed_partition_spec_stops_the_commit_before_it_is_sent(kit: Any) -> None:
    table = kit.table()
    base = kit.tier(table, "r1", {B0: 10})
    prepared = kit.prepare(table, "r2", {B0: 20}, view=base)
    with kit.catalog().load_table(str(table.path)).update_spec() as change:
        change.add_identity("name")
    with pytest.raises(SchemaDrift):
        prepared.commit(kit.view(table))
    assert kit.view(table).tiered == base.tiered


def test_files_that_a_clean_up_deleted_stop_the_commit(kit: Any) -> None:
    table = kit.table()
    prepared = kit.prepare(table, "r1", {B0: 10, B1: 10})
    path = decode_files(prepared.committable.results[1].payload).files[0].file_path
    Path(path.removeprefix("file://")).unlink()
    with pytest.raises(RoundFailed, match="missing or changed") as caught:
        prepared.commit()
    assert caught.value.error_class == "DataFilesMissing"
    assert kit.view(table).head is None


def test_files_that_an_expiry_took_after_a_roll_back_are_not_named_again(kit: Any, observed: Any) -> None:
    """The answer of a commit was lost, a user rolled the table back and expired it, and its files were deleted. A search of the model found
    it."""
    table = kit.table()
    base = check_base(kit.tier(table, "r1", {B0: 10}), kit.known(table))
    prepared = kit.prepare(table, "r2", {B0: 20}, view=base.view)
    answer_lost = prepared.with_catalog(lambda catalog: observed(catalog, TimeoutError()))
    with pytest.raises(CommitOutcomeUnknown):
        answer_lost.commit()
    landed, former = kit.view(table).head, base.newest
    kit.catalog().load_table(str(table.path)).manage_snapshots().rollback_to_snapshot(former).create_tag(former, TAG).commit()
    kit.catalog().load_table(str(table.path)).maintenance.expire_snapshots().by_id(landed).commit()
    Path(decode_files(prepared.committable.results[0].payload).files[0].file_path.removeprefix("file://")).unlink()
    assert resolve_commit(kit.view(table), "r2", base).outcome is CommitOutcome.NOT_FOUND

    again = check_same_base(base, kit.view(table), kit.known(table))
    with pytest.raises(RoundFailed, match="missing or changed"):
        prepared.commit(again.view)
    with pytest.raises(ValueError, match="older than last sequence number"):  # a copy of the request that landed
        kit.catalog().commit_table(*answer_lost.factory.catalog.requests[0])

    assert kit.offsets_in_lake(table) == dense({B0: 10})


def test_a_round_that_was_not_built_on_the_lakes_marker_is_fenced(kit: Any) -> None:
    """A round that planned before a table existed must not commit on what another round made of it meanwhile."""
    table = kit.table()
    planned = kit.prepare(table, "late", {B0: 20}, view=kit.lake.ensure_table(table))
    now = kit.tier(table, "early", {B0: 10})
    with pytest.raises(Fenced):
        planned.commit(now)
    assert kit.offsets_in_lake(table) == dense({B0: 10})


def test_a_clock_that_went_back_does_not_spoil_the_history(kit: Any) -> None:
    table, clock = kit.table(), HandClock()
    clock.wall = datetime(2100, 1, 1, tzinfo=UTC)  # later than the creation of the table
    kit.lake = IcebergLake(kit.properties, clock)
    first = kit.tier(table, "r1", {B0: 10})
    assert first.snapshots[first.head].committed_at == clock.wall
    clock.wall = START
    second = kit.tier(table, "r2", {B0: 20})
    assert second.snapshots[second.head].committed_at >= first.snapshots[first.head].committed_at


def test_what_the_lake_has_is_adopted_when_the_record_is_behind(kit: Any) -> None:
    table = kit.table()
    first = kit.tier(table, "r1", {B0: 10})
    second = kit.tier(table, "r2", {B0: 20})
    behind = RecordedLakeSnapshot(first.head, {B0: 10})
    assert check_base(second, kit.known(table, second, recorded=(behind,))).ahead
    upto = RecordedLakeSnapshot(second.head, {B0: 20})
    assert not check_base(second, kit.known(table, second, recorded=(upto,))).ahead
