"""The base check on real tables: what users and other services do to a lake table between two rounds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from tiering import errors
from tiering.lake.base import FLUSS_COMMIT_USER
from tiering.lake.iceberg.reading import expired_snapshots
from tiering.lake.iceberg.reading.view import TAG
from tiering.lake.rules.base_check import check_base
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey, TableInfo

B0 = BucketKey(None, 0)


def iceberg(kit: Any, table: TableInfo) -> Any:
    return kit.catalog().load_table(str(table.path))


def rows(kit: Any, table: TableInfo, offset: int) -> pa.Table:
    return pa.Table.from_batches([kit.rows(table, B0, offset, offset + 1)])


def expire_all(kit: Any, table: TableInfo) -> None:
    iceberg(kit, table).maintenance.expire_snapshots().older_than(datetime.now(UTC) + timedelta(days=1)).commit()


def test_appends_and_deletes_of_users_are_passed(kit: Any) -> None:
    table = kit.table()
    kit.tier(table, "r1", {B0: 10})
    kit.user_appends(table)
    iceberg(kit, table).delete("id = 30")
    view = kit.view(table)
    assert view.head != view.tiered
    assert check_base(view, kit.known(table)).marker.round_id == "r1"
    after = kit.tier(table, "r2", {B0: 12})
    assert kit.offsets_in_lake(table) == sorted([*((0, offset) for offset in range(12) if offset != 3), (0, 900)])
    assert check_base(after, kit.known(table)).marker.round_id == "r2"


def test_a_rollback_by_a_user_is_found_also_below_new_commits(kit: Any) -> None:
    table = kit.table()
    first = kit.tier(table, "r1", {B0: 10})
    second = kit.tier(table, "r2", {B0: 20})
    iceberg(kit, table).manage_snapshots().rollback_to_snapshot(first.head).commit()
    with pytest.raises(errors.LakeRolledBack) as caught:
        check_base(kit.view(table), kit.known(table, second))
    assert str(second.head) in caught.value.hint
    kit.user_appends(table)
    with pytest.raises(errors.LakeRolledBack):
        check_base(kit.view(table), kit.known(table, second, passed_head=first.head))


def test_the_mend_that_the_hint_names_brings_a_rolled_back_table_on(kit: Any) -> None:
    table = kit.table()
    first = kit.tier(table, "r1", {B0: 10})
    second = kit.tier(table, "r2", {B0: 20})
    iceberg(kit, table).manage_snapshots().rollback_to_snapshot(first.head).commit()
    iceberg(kit, table).manage_snapshots().set_current_snapshot(second.tiered).commit()
    check_base(kit.view(table), kit.known(table, second))
    kit.tier(table, "r3", {B0: 30})
    assert kit.offsets_in_lake(table) == [(0, offset) for offset in range(30)]


def test_expiry_keeps_the_marker_and_recovery_goes_on(kit: Any) -> None:
    table = kit.table()
    for number in range(1, 5):
        kit.tier(table, f"r{number}", {B0: number * 5})
    expire_all(kit, table)
    view = kit.view(table)
    assert set(view.snapshots) == {view.tiered}
    assert check_base(view, kit.known(table, view)).marker.round_id == "r4"
    kit.tier(table, "r5", {B0: 30})
    assert kit.offsets_in_lake(table) == [(0, offset) for offset in range(30)]


def compact(kit: Any, table: TableInfo) -> None:
    """Moves the same rows to other files: two snapshots of pyiceberg."""
    loaded = iceberg(kit, table)
    loaded.overwrite(loaded.scan().to_arrow())


def test_compaction_and_expiry_between_two_rounds_are_passed(kit: Any) -> None:
    table = kit.table()
    tagged = kit.tier(table, "r1", {B0: 10})
    compact(kit, table)
    expire_all(kit, table)
    compact(kit, table)
    expire_all(kit, table)
    view = kit.view(table)
    assert set(view.snapshots) == {tagged.tiered, view.head}
    assert check_base(view, kit.known(table, view)).marker == tagged.marker
    assert kit.lake.survey(table.path).head_marker == tagged.marker
    kit.tier(table, "r2", {B0: 12})
    assert kit.offsets_in_lake(table) == [(0, offset) for offset in range(12)]


def test_a_rollback_is_found_below_compaction_and_expiry(kit: Any) -> None:
    table = kit.table()
    first = kit.tier(table, "r1", {B0: 10})
    second = kit.tier(table, "r2", {B0: 20})
    iceberg(kit, table).manage_snapshots().rollback_to_snapshot(first.head).commit()
    compact(kit, table)
    expire_all(kit, table)
    view = kit.view(table)
    assert set(view.snapshots) == {second.tiered, view.head}
    with pytest.raises(errors.LakeRolledBack):
        check_base(view, kit.known(table, second, passed_head=first.head))


def test_a_rollback_behind_expired_commits_is_found(kit: Any) -> None:
    """Before the roll-back the tag was passed by: what came then expired, too."""
    table = kit.table()
    first = kit.tier(table, "r1", {B0: 10})
    second = kit.tier(table, "r2", {B0: 20})
    compact(kit, table)
    iceberg(kit, table).manage_snapshots().rollback_to_snapshot(first.head).commit()
    compact(kit, table)
    expire_all(kit, table)
    with pytest.raises(errors.LakeRolledBack):
        check_base(kit.view(table), kit.known(table, second))


def test_a_commit_of_flusss_tiering_that_expired_is_found(kit: Any) -> None:
    table = kit.table()
    tagged = kit.tier(table, "r1", {B0: 10})
    iceberg(kit, table).append(rows(kit, table, 10), snapshot_properties={"commit-user": FLUSS_COMMIT_USER, "fluss-offsets": "x"})
    compact(kit, table)
    expire_all(kit, table)
    with pytest.raises(errors.ForeignTiering):
        check_base(kit.view(table), kit.known(table, tagged))


@pytest.mark.parametrize("damage", ["deleted", "cut short", "of another table"])
def test_expiry_without_former_metadata_is_undecided_unless_the_head_passed_before(kit: Any, damage: str) -> None:
    table, other = kit.table(), kit.table("others")
    tagged = kit.tier(table, "r1", {B0: 10})
    strange = kit.tier(other, "r1", {B0: 10}).handle.metadata_location
    kit.user_appends(table, 900)
    kit.user_appends(table, 901)
    passed = kit.view(table).head
    check_base(kit.view(table), kit.known(table))
    expire_all(kit, table)
    for entry in iceberg(kit, table).metadata.metadata_log:
        file = Path(entry.metadata_file.removeprefix("file://"))
        if damage == "deleted":
            file.unlink()
        else:
            file.write_bytes(file.read_bytes()[:-9] if damage == "cut short" else Path(strange.removeprefix("file://")).read_bytes())
    view = kit.view(table)
    assert set(view.snapshots) == {tagged.tiered, passed}
    with pytest.raises(errors.HistoryExpired):
        check_base(view, kit.known(table, view))
    check_base(view, kit.known(table, view, passed_head=passed))
    kit.user_appends(table, 902)
    check_base(kit.view(table), kit.known(table, view, passed_head=passed))


def test_former_metadata_is_read_once_and_only_where_parents_are_unknown(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table = kit.table()
    kit.tier(table, "r1", {B0: 10})
    compact(kit, table)
    read: list[str] = []
    snapshots_in = expired_snapshots._snapshots_in
    monkeypatch.setattr(expired_snapshots, "_snapshots_in", lambda loaded, file: read.append(file) or snapshots_in(loaded, file))
    kit.view(table)
    assert read == []
    before = iceberg(kit, table).metadata_location
    expire_all(kit, table)
    for _ in range(3):
        check_base(kit.view(table), kit.known(table))
    assert read == [before]
    compact(kit, table)
    check_base(kit.view(table), kit.known(table))
    assert read == [before]


def test_former_metadata_that_does_not_answer_decides_nothing(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table = kit.table()
    kit.tier(table, "r1", {B0: 10})
    compact(kit, table)
    expire_all(kit, table)

    def fails(loaded: object, file: str) -> None:
        raise OSError("the store does not answer")

    monkeypatch.setattr(expired_snapshots, "_snapshots_in", fails)
    with pytest.raises(errors.LakeUnavailable):
        kit.view(table)


def test_former_metadata_that_the_storage_refuses_to_read_decides_nothing(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table = kit.table()
    kit.tier(table, "r1", {B0: 10})
    compact(kit, table)
    expire_all(kit, table)

    def refuses(file: object) -> None:
        raise PermissionError("AWS Error ACCESS_DENIED during HeadObject operation")

    with monkeypatch.context() as patch:
        patch.setattr(expired_snapshots, "FromInputFile", SimpleNamespace(table_metadata=refuses))
        with pytest.raises(errors.LakeUnavailable, match="cannot be read: PermissionError: AWS Error ACCESS_DENIED") as refused:
            kit.view(table)
    assert refused.value.retryable
    assert "s3:ListBucket" in refused.value.hint
    check_base(kit.view(table), kit.known(table))


def test_a_dropped_tag_is_found_and_can_be_set_again(kit: Any) -> None:
    table = kit.table()
    view = kit.tier(table, "r1", {B0: 10})
    iceberg(kit, table).manage_snapshots().remove_tag(TAG).commit()
    with pytest.raises(errors.MarkerLost):
        check_base(kit.view(table), kit.known(table, view))
    iceberg(kit, table).manage_snapshots().create_tag(view.tiered, TAG).commit()
    assert check_base(kit.view(table), kit.known(table, view)).marker == view.marker


def test_a_tag_moved_back_is_found_even_if_nothing_is_recorded(kit: Any) -> None:
    table = kit.table()
    first = kit.tier(table, "r1", {B0: 10})
    kit.tier(table, "r2", {B0: 20})
    iceberg(kit, table).manage_snapshots().remove_tag(TAG).commit()
    iceberg(kit, table).manage_snapshots().create_tag(first.tiered, TAG).commit()
    with pytest.raises(errors.LakeRolledBack):
        check_base(kit.view(table), kit.known(table))


def test_a_tag_set_by_hand_on_a_foreign_snapshot_is_refused(kit: Any) -> None:
    table = kit.table()
    kit.lake.ensure_table(table)
    kit.user_appends(table)
    loaded = iceberg(kit, table)
    loaded.manage_snapshots().create_tag(loaded.current_snapshot().snapshot_id, TAG).commit()
    with pytest.raises(errors.MarkerCorrupt):
        check_base(kit.view(table), kit.known(table))


def test_a_branch_of_the_tags_name_is_refused(kit: Any) -> None:
    table = kit.table()
    kit.lake.ensure_table(table)
    kit.user_appends(table)
    loaded = iceberg(kit, table)
    loaded.manage_snapshots().create_branch(loaded.current_snapshot().snapshot_id, TAG).commit()
    with pytest.raises(errors.MarkerCorrupt, match="is a branch"):
        kit.lake.view(table.path)


def test_rows_written_by_hand_before_the_first_round_are_refused(kit: Any) -> None:
    table = kit.table()
    kit.lake.ensure_table(table)
    kit.user_appends(table)
    with pytest.raises(errors.UntrackedLakeTable):
        check_base(kit.view(table), kit.known(table))


def test_flusss_tiering_above_the_tag_is_refused_until_it_is_rolled_back(kit: Any) -> None:
    table = kit.table()
    tagged = kit.tier(table, "r1", {B0: 10})
    iceberg(kit, table).append(rows(kit, table, 10), snapshot_properties={"commit-user": FLUSS_COMMIT_USER, "fluss-offsets": "x"})
    with pytest.raises(errors.ForeignTiering):
        check_base(kit.view(table), kit.known(table, tagged))
    iceberg(kit, table).manage_snapshots().set_current_snapshot(tagged.tiered).commit()
    check_base(kit.view(table), kit.known(table, tagged))


def test_a_source_table_made_anew_does_not_go_on_in_the_old_lake_table(kit: Any) -> None:
    kit.tier(kit.table(table_id=7), "r1", {B0: 10})
    fresh = kit.table(table_id=8)
    with pytest.raises(errors.TableMismatch):
        check_base(kit.lake.view(fresh.path), kit.known(fresh))


def test_a_lake_table_dropped_and_made_anew_is_refused(kit: Any) -> None:
    table = kit.table()
    view = kit.tier(table, "r1", {B0: 10})
    kit.catalog().drop_table(str(table.path))
    with pytest.raises(errors.LakeTableReplaced):
        check_base(kit.lake.view(table.path), kit.known(table, view))
    kit.lake.ensure_table(table)
    with pytest.raises(errors.LakeTableReplaced):
        check_base(kit.lake.view(table.path), kit.known(table, view))


def test_a_lake_restored_from_an_older_state_is_behind_the_record(kit: Any) -> None:
    table = kit.table()
    first = kit.tier(table, "r1", {B0: 10})
    old = first.handle.metadata_location
    second = kit.tier(table, "r2", {B0: 20})
    kit.catalog().drop_table(str(table.path))
    kit.catalog().register_table(str(table.path), old)
    record = RecordedLakeSnapshot(second.tiered, {B0: 20})
    with pytest.raises(errors.RecordAheadOfLake):
        check_base(kit.view(table), kit.known(table, second, recorded=(record,)))


def test_a_damaged_marker_is_refused_when_the_table_is_read(kit: Any) -> None:
    table = kit.table()
    kit.lake.ensure_table(table)
    iceberg(kit, table).append(rows(kit, table, 0), snapshot_properties={"lakeward.round-id": "x", "lakeward.marker": '{"version":9}'})
    loaded = iceberg(kit, table)
    loaded.manage_snapshots().create_tag(loaded.current_snapshot().snapshot_id, TAG).commit()
    with pytest.raises(errors.MarkerCorrupt, match="version is 9"):
        kit.lake.view(table.path)
