"""A round's commit removes expired snapshots. The tests check which ones stay, also if another writer changes the table in between."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyiceberg.table.update import RemoveSnapshotsUpdate
from structlog.testing import capture_logs

from support.worlds.coordinator_world import HandClock
from tiering.errors import CommitOutcomeUnknown
from tiering.instants import to_milliseconds
from tiering.lake.base import LakeView
from tiering.lake.iceberg.commit.upkeep import PAUSE_MS, UpkeepPauses, upkeep_of
from tiering.lake.iceberg.lake import IcebergLake
from tiering.lake.iceberg.reading.view import TAG
from tiering.lake.iceberg.schema.layout import DELETE_AFTER_COMMIT, PREVIOUS_VERSIONS
from tiering.lake.maintenance import ExpiryOutlook
from tiering.lake.rules.base_check import CommitOutcome, check_base, check_same_base, resolve_commit
from tiering.lake.rules.upkeep import consecutive_expiry
from tiering.lake.rules.upkeep.snapshot_expiry import SLOTS
from tiering.lake.table_options import SNAPSHOT_MAX_AGE
from tiering.model.tables import BucketKey, SnapshotRetention, TableInfo, TablePath
from tiering.model.upkeep import ExpiryOrder

B0 = BucketKey(None, 0)
NEWEST_FIVE = SnapshotRetention(max_age_ms=1, min_count=5)


def loaded(kit: Any, table: TableInfo) -> Any:
    return kit.catalog().load_table(str(table.path))


def ids(kit: Any, table: TableInfo) -> list[int]:
    return [snapshot.snapshot_id for snapshot in loaded(kit, table).metadata.snapshots]


def tier(kit: Any, table: TableInfo, count: int, first: int = 0) -> LakeView:
    """Runs `count` rounds of one row each, each on a base that passes the check."""
    for number in range(first, first + count):
        view = kit.lake.ensure_table(table)
        check_base(view, kit.known(table))
        kit.tier(table, f"r{number}", {B0: number + 1})
    return kit.view(table)


def expiring(kit: Any, retention: SnapshotRetention = NEWEST_FIVE) -> TableInfo:
    return replace(kit.table(), snapshot_retention=retention)


def test_many_rounds_leave_few_snapshots_and_every_row(kit: Any) -> None:
    table = expiring(kit, SnapshotRetention(max_age_ms=96_000, min_count=5))  # slots of a second
    view = tier(kit, table, 60)
    metadata = loaded(kit, table).metadata
    times = sorted(snapshot.timestamp_ms for snapshot in metadata.snapshots)
    seconds = (times[-1] - times[0]) // 1_000 + 2
    assert len(metadata.snapshots) <= 6 + min(seconds, SLOTS + 2)
    assert len(metadata.snapshot_log) == len(metadata.snapshots)
    assert kit.offsets_in_lake(table) == [(0, offset) for offset in range(60)]
    assert view.tiered == view.head == metadata.refs[TAG].snapshot_id
    for snapshot in metadata.snapshots:  # every one that stays can be read
        assert loaded(kit, table).scan(snapshot_id=snapshot.snapshot_id).to_arrow().num_rows > 0


def test_without_a_retention_nothing_expires(kit: Any) -> None:
    tier(kit, kit.table(), 12)
    assert len(ids(kit, kit.table())) == 12


def test_the_newest_stay_and_keep_their_parents(kit: Any) -> None:
    table = expiring(kit)
    tier(kit, table, 12)
    metadata = loaded(kit, table).metadata
    assert len(metadata.snapshots) == 6  # the newest five of the base, and the new one
    assert all(snapshot.parent_snapshot_id is not None for snapshot in metadata.snapshots)


@pytest.mark.parametrize("kind", ["tag", "branch"])
def test_a_reference_that_a_user_makes_in_between_keeps_its_snapshot(kit: Any, kind: str) -> None:
    table = expiring(kit)
    tier(kit, replace(table, snapshot_retention=None), 9)
    base = check_base(kit.view(table), kit.known(table))
    prepared = kit.prepare(table, "r9", {B0: 10}, view=base.view)
    oldest = ids(kit, table)[0]
    change = loaded(kit, table).manage_snapshots()
    (change.create_tag if kind == "tag" else change.create_branch)(oldest, "audit").commit()
    with pytest.raises(CommitOutcomeUnknown):
        prepared.commit()
    assert loaded(kit, table).metadata.refs["audit"].snapshot_id == oldest
    assert resolve_commit(kit.view(table), "r9", base).outcome is CommitOutcome.NOT_FOUND
    again = check_same_base(base, kit.view(table), kit.known(table))
    prepared.commit(again.view)
    assert len(ids(kit, table)) == 10  # the repeated request removes nothing
    fresh = IcebergLake(kit.properties)  # as after the pause
    kit.prepare(table, "r10", {B0: 11}, lake=fresh).commit()
    assert loaded(kit, table).metadata.refs["audit"].snapshot_id == oldest
    assert ids(kit, table)[0] == oldest
    assert len(ids(kit, table)) == 7
    assert kit.offsets_in_lake(table) == [(0, offset) for offset in range(11)]


def test_a_retention_that_a_user_gives_a_branch_in_between_counts(kit: Any) -> None:
    table = expiring(kit)
    tier(kit, replace(table, snapshot_retention=None), 9)
    loaded(kit, table).manage_snapshots().create_branch(ids(kit, table)[3], "b", min_snapshots_to_keep=1, max_snapshot_age_ms=1).commit()
    prepared = kit.prepare(table, "r9", {B0: 10})
    loaded(kit, table).manage_snapshots().remove_branch("b").commit()
    loaded(kit, table).manage_snapshots().create_branch(ids(kit, table)[3], "b", min_snapshots_to_keep=4, max_snapshot_age_ms=1).commit()
    with pytest.raises(CommitOutcomeUnknown):
        prepared.commit()
    assert len(ids(kit, table)) == 9


def test_snapshots_that_a_user_expires_in_between_cost_one_more_request(kit: Any) -> None:
    table = expiring(kit)
    tier(kit, replace(table, snapshot_retention=None), 9)
    base = check_base(kit.view(table), kit.known(table))
    prepared = kit.prepare(table, "r9", {B0: 10}, view=base.view)
    loaded(kit, table).maintenance.expire_snapshots().by_id(ids(kit, table)[0]).commit()
    with pytest.raises(CommitOutcomeUnknown):
        prepared.commit()
    prepared.commit(check_same_base(base, kit.view(table), kit.known(table)).view)
    assert kit.offsets_in_lake(table) == [(0, offset) for offset in range(10)]


def test_a_commit_whose_answer_is_lost_has_removed_them_and_is_found(kit: Any, observed: Any) -> None:
    table = expiring(kit)
    tier(kit, replace(table, snapshot_retention=None), 9)
    base = check_base(kit.view(table), kit.known(table))
    prepared = kit.prepare(table, "r9", {B0: 10}, view=base.view)
    with pytest.raises(CommitOutcomeUnknown):
        prepared.with_catalog(lambda catalog: observed(catalog, ConnectionError("lost"))).commit()
    assert resolve_commit(kit.view(table), "r9", base).outcome is CommitOutcome.OURS
    assert len(ids(kit, table)) == 6


def test_a_catalog_that_refuses_removals_gets_the_next_request_without_one(kit: Any, observed: Any) -> None:
    table = expiring(kit)
    tier(kit, replace(table, snapshot_retention=None), 9)

    class Refusing(observed):  # type: ignore[misc]
        def commit_table(self, loaded_table: Any, requirements: Any, updates: Any) -> Any:
            if any(isinstance(update, RemoveSnapshotsUpdate) for update in updates):
                raise PermissionError("no removals")
            return super().commit_table(loaded_table, requirements, updates)

    clock = HandClock()
    kit.lake = IcebergLake(kit.properties, clock)
    clock.wall = datetime.now(UTC)
    with capture_logs() as lines:
        prepared = kit.prepare(table, "r9", {B0: 10}).with_catalog(Refusing)
        with pytest.raises(CommitOutcomeUnknown):
            prepared.commit()
        prepared.commit(kit.view(table))
        kit.prepare(table, "r10", {B0: 11}).with_catalog(Refusing).commit()  # the table rests from removals
        clock.advance(PAUSE_MS / 1_000)
        with pytest.raises(CommitOutcomeUnknown):
            kit.prepare(table, "r11", {B0: 12}).with_catalog(Refusing).commit()
    assert len(ids(kit, table)) == 11
    [warning] = [line for line in lines if line["log_level"] == "warning"]
    assert "no removals" in warning["error"]
    assert kit.offsets_in_lake(table) == [(0, offset) for offset in range(11)]


def test_a_server_is_asked_to_keep_what_each_reference_names_and_is_not_thinned(kit: Any, observed: Any) -> None:
    table = expiring(kit, SnapshotRetention(max_age_ms=3_600_000, min_count=2))
    tier(kit, replace(table, snapshot_retention=None), 9)
    loaded(kit, table).manage_snapshots().create_tag(ids(kit, table)[4], "audit").commit()
    base, server = kit.view(table), observed(kit.catalog())
    assert upkeep_of(server, table, base.handle, base, UpkeepPauses(), base.handle.metadata.last_updated_ms).removed == ()
    upkeep = upkeep_of(server, table, base.handle, base, UpkeepPauses(), base.handle.metadata.last_updated_ms + 3_600_001)
    assert [requirement.ref for requirement in upkeep.requirements] == ["audit"]
    assert upkeep.removed == tuple(number for number in ids(kit, table)[:-2] if number != ids(kit, table)[4])
    loaded(kit, table).manage_snapshots().create_tag(ids(kit, table)[0], "other").commit()
    assert upkeep_of(server, table, base.handle, base, UpkeepPauses(), base.handle.metadata.last_updated_ms + 3_600_001).removed == ()


@pytest.mark.parametrize("options", [{}, {SNAPSHOT_MAX_AGE.name: "1 d"}], ids=["by default", "with an age of the user's"])
def test_of_a_servers_old_snapshots_a_bounded_number_stays_unless_the_user_says_how_long(
    kit: Any, observed: Any, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    monkeypatch.setattr(consecutive_expiry, "MAX_SNAPSHOTS", 3)
    table = replace(kit.table(properties=options), snapshot_retention=SnapshotRetention(86_400_000, 2))
    tier(kit, replace(table, snapshot_retention=None), 9)
    base = kit.view(table)
    last = base.handle.metadata.last_updated_ms
    assert upkeep_of(observed(kit.catalog()), table, base.handle, base, UpkeepPauses(), last + 3_590_000).removed == ()
    removed = upkeep_of(observed(kit.catalog()), table, base.handle, base, UpkeepPauses(), last + 3_600_001).removed
    assert removed == tuple(ids(kit, table)[: len(removed)]), "the log of heads has no gap"
    assert len(removed) == (0 if options else 9 - 3 - 2), "the snapshot at the border and the one before it answer for times between them"


@pytest.mark.parametrize(
    "properties",
    [{"history.expire.max-snapshot-age-ms": "3600000"}, {"history.expire.min-snapshots-to-keep": "100"}, {"gc.enabled": "false"}],
    ids=lambda properties: next(iter(properties)),
)
def test_what_a_user_says_in_the_lake_table_keeps_more(kit: Any, properties: dict[str, str]) -> None:
    table = expiring(kit)
    kit.lake.ensure_table(table)
    loaded(kit, table).transaction().set_properties(properties).commit_transaction()
    tier(kit, table, 9)
    assert len(ids(kit, table)) == 9


def test_a_rolled_back_table_loses_nothing_that_its_tag_needs(kit: Any) -> None:
    """A commit on such a table is a repair, which removes nothing (`reconcile_lake`); a round does not get there."""
    table = expiring(kit)
    tier(kit, replace(table, snapshot_retention=None), 9)
    base = kit.view(table)
    rolled_back = replace(base, head=ids(kit, table)[2])
    removed = upkeep_of(kit.catalog(), table, base.handle, rolled_back, UpkeepPauses(), base.handle.metadata.last_updated_ms + 10).removed
    assert not {base.tiered, rolled_back.head} & set(removed)


def test_a_table_of_an_earlier_version_gets_the_settings_of_a_new_one(kit: Any) -> None:
    table = kit.table()
    kit.lake.ensure_table(table)
    former = loaded(kit, table).transaction()
    former.set_properties({DELETE_AFTER_COMMIT: "false"}).remove_properties(PREVIOUS_VERSIONS).commit_transaction()
    with capture_logs() as lines:
        tier(kit, table, 2)
    [warning] = [line for line in lines if line["log_level"] == "warning"]
    assert warning["to_keep_them"] == f"set the option iceberg.{DELETE_AFTER_COMMIT} to false"
    properties = loaded(kit, table).metadata.properties
    assert DELETE_AFTER_COMMIT not in properties
    assert properties[PREVIOUS_VERSIONS] == "20"


def test_what_a_user_set_of_the_metadata_log_stays(kit: Any) -> None:
    table = replace(kit.table(), properties={f"iceberg.{DELETE_AFTER_COMMIT}": "false", f"iceberg.{PREVIOUS_VERSIONS}": "7"})
    tier(kit, table, 2)
    properties = loaded(kit, table).metadata.properties
    assert (properties[DELETE_AFTER_COMMIT], properties[PREVIOUS_VERSIONS]) == ("false", "7")
    assert len(loaded(kit, table).metadata.metadata_log) <= 7


@pytest.mark.parametrize("is_own", [True, False], ids=["of Lakeward", "of another service"])
@pytest.mark.parametrize("value", ["true", "false"])
def test_what_a_user_set_in_the_lake_table_itself_stays(kit: Any, value: str, is_own: bool) -> None:
    table = kit.table()
    kit.lake.ensure_table(table)
    change = loaded(kit, table).transaction()
    change.set_properties({DELETE_AFTER_COMMIT: value})
    if not is_own:
        change.remove_properties(PREVIOUS_VERSIONS, "write.parquet.compression-codec")
    change.commit_transaction()
    tier(kit, table, 2)
    assert loaded(kit, table).metadata.properties[DELETE_AFTER_COMMIT] == value


def test_a_table_rests_from_removals_for_a_while() -> None:
    clock = HandClock()
    pauses = UpkeepPauses(clock)
    pauses.begin(LakeView(TablePath("sales", "orders"), "uuid", None, None, None, {}), TimeoutError())
    assert pauses.has("uuid")
    assert not pauses.has("another")
    clock.advance(PAUSE_MS / 1_000)
    assert not pauses.has("uuid")


def test_an_outlook_counts_what_a_commit_removes_and_names_what_keeps_the_others(kit: Any) -> None:
    table = kit.table()
    view = tier(kit, table, 8)
    loaded(kit, table).manage_snapshots().create_tag(ids(kit, table)[1], "audit").commit()
    view = kit.view(table)
    later = datetime.now(UTC) + timedelta(seconds=1)
    outlook = kit.lake.expiry_outlook(table, view, ExpiryOrder(older_than=later, retain_last=3))
    assert outlook == ExpiryOutlook(
        4, {"the newest snapshots": 2, "the newest tiering commit and what came since": 1, "the tag 'audit'": 1}
    )
    expiring = replace(table, snapshot_retention=SnapshotRetention(0, 3))
    assert len(upkeep_of(kit.catalog(), expiring, view.handle, view, UpkeepPauses(), to_milliseconds(later)).removed) == 4


def test_an_outlook_tells_that_the_user_keeps_all_files(kit: Any) -> None:
    table = kit.table()
    tier(kit, table, 8)
    loaded(kit, table).transaction().set_properties({"gc.enabled": "false"}).commit_transaction()
    outlook = kit.lake.expiry_outlook(table, kit.view(table), ExpiryOrder(retain_last=1))
    assert outlook == ExpiryOutlook(0, {"the lake table's property gc.enabled is false": 8})
