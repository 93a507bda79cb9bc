"""A commit is one compare-and-set, also with concurrent writers: the snapshot has number base + 1 of exactly the table and base that were
read."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from pypaimon.manifest.manifest_list_manager import ManifestListManager

from support.lakes.paimon_kit import CLUSTER_ID, COLUMNS, PaimonKit
from support.worlds.coordinator_world import START, HandClock
from tiering.errors import CommitOutcomeUnknown, LakeUnavailable, MarkerCorrupt, RoundFailed
from tiering.lake.base import FLUSS_COMMIT_USER, FLUSS_COMMIT_USER_KEY, FLUSS_OFFSETS_KEY
from tiering.lake.paimon.commit import committer as publishing
from tiering.lake.paimon.commit import manifests
from tiering.lake.paimon.lake import PaimonLake
from tiering.lake.paimon.storage.local import LocalTableFolder
from tiering.lake.rules.base_check import CommitOutcome, ExpectedLake, check_base, resolve_commit

Interlude = Callable[[], object]


def between_check_and_link(monkeypatch: pytest.MonkeyPatch, happens: Interlude) -> None:
    """`happens` in the instant between the last look at the table and the link that is the commit."""
    create = LocalTableFolder.create

    def delayed(self: LocalTableFolder, folder: str, name: str, content: bytes) -> None:
        monkeypatch.setattr(LocalTableFolder, "create", create)
        happens()
        create(self, folder, name, content)

    monkeypatch.setattr(LocalTableFolder, "create", delayed)


def test_of_many_rounds_at_once_one_lands(kit: PaimonKit) -> None:
    table = kit.log_table()
    kit.tier(table, "r1", [1])
    rounds = [kit.prepare(table, f"r2-{number}", {"id": [number], "name": ["x"]}) for number in range(8)]
    barrier = Barrier(len(rounds))

    def send(number: int) -> int | None:
        barrier.wait()
        try:
            return rounds[number].commit()
        except CommitOutcomeUnknown:
            return None

    with ThreadPoolExecutor(len(rounds)) as pool:
        outcomes = list(pool.map(send, range(len(rounds))))

    assert sorted(outcome for outcome in outcomes if outcome is not None) == [2]
    view = kit.view(table)
    winner = next(number for number, outcome in enumerate(outcomes) if outcome is not None)
    assert view.marker == rounds[winner].marker
    assert kit.read(table)["id"].to_pylist() == [1, winner]


def test_a_table_made_anew_meanwhile_gets_no_snapshot_of_the_former(kit: PaimonKit, monkeypatch: pytest.MonkeyPatch) -> None:
    table = kit.log_table()
    prepared = kit.prepare(table, "r1", {"id": [1], "name": ["x"]})

    def made_anew() -> None:
        kit.drop(table)
        kit.lake.ensure_table(table)

    between_check_and_link(monkeypatch, made_anew)
    with pytest.raises(CommitOutcomeUnknown):
        prepared.commit()

    after = kit.view(table)
    assert after.table_uuid != prepared.base.table_uuid
    assert (after.head, after.marker) == (None, None)


def test_a_roll_back_between_look_and_link_is_never_silent(kit: PaimonKit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids come again: the new snapshot follows another one than it was built on."""
    table = kit.log_table()
    kit.tier(table, "r1", [1])
    kit.foreign_commit(table)
    prepared = kit.prepare(table, "r2", {"id": [2], "name": ["x"]})

    def rolled_back() -> None:
        kit.roll_back(table, 1)
        kit.foreign_commit(table)

    between_check_and_link(monkeypatch, rolled_back)
    with pytest.raises(CommitOutcomeUnknown, match="rolled back"):
        prepared.commit()
    with pytest.raises(MarkerCorrupt, match="not built on snapshot 2"):
        kit.view(table)


def test_a_roll_back_below_the_base_leaves_no_snapshot_above_a_gap(kit: PaimonKit, monkeypatch: pytest.MonkeyPatch) -> None:
    table = kit.log_table()
    for number in (1, 2, 3):
        kit.tier(table, f"r{number}", [number])
    prepared = kit.prepare(table, "r4", {"id": [4], "name": ["x"]})
    between_check_and_link(monkeypatch, lambda: kit.roll_back(table, 1))
    with pytest.raises(CommitOutcomeUnknown):
        prepared.commit()
    with pytest.raises(LakeUnavailable, match="snapshot-4, but snapshot-2 is missing") as refusal:
        kit.view(table)
    assert "move the files of newer ones away" in refusal.value.hint


def test_a_commit_that_wakes_up_after_its_successors_expired_is_no_part_of_the_table(
    kit: PaimonKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = kit.log_table()
    kit.tier(table, "r1", [1])
    stale = kit.prepare(table, "stale", {"id": [9], "name": ["x"]})
    base = check_base(stale.base, ExpectedLake(CLUSTER_ID, table.table_id, None, None))

    def others_went_on() -> None:
        for number in (2, 3, 4):
            kit.tier(table, f"r{number}", [number])
        kit.expire(table, 3)

    between_check_and_link(monkeypatch, others_went_on)
    with pytest.raises(CommitOutcomeUnknown):
        stale.commit()

    after = kit.view(table)
    assert sorted(after.snapshots) == [3, 4]
    assert resolve_commit(after, "stale", base).outcome is CommitOutcome.OTHER_ROUND
    assert sorted(kit.read(table)["id"].to_pylist()) == [1, 2, 3, 4]


@pytest.mark.parametrize("in_between", [True, False], ids=["in the last instant", "long before"])
def test_a_first_commit_that_comes_when_the_first_snapshots_expired_is_refused(
    kit: PaimonKit, monkeypatch: pytest.MonkeyPatch, in_between: bool
) -> None:
    """The names of the snapshots are free again. As the newest one, the table would be at its first round, without the later rows."""
    table = kit.log_table()
    late = kit.prepare(table, "late", {"id": [0], "name": ["x"]})

    def others() -> None:
        for number in (1, 2, 3):
            kit.tier(table, f"r{number}", [number])
        kit.expire(table, 3)

    if in_between:
        between_check_and_link(monkeypatch, others)
    else:
        others()
    with pytest.raises(CommitOutcomeUnknown):
        late.commit()
    view = kit.view(table)
    assert (view.head, view.tiered) == (3, 3)
    assert sorted(kit.read(table)["id"].to_pylist()) == [1, 2, 3]


def test_a_reader_and_a_writer_of_others_go_on_after_a_round(kit: PaimonKit) -> None:
    table = kit.log_table()
    kit.tier(table, "r1", [1, 2])
    kit.foreign_commit(table)
    kit.tier(table, "r2", [3])
    assert kit.read(table)["id"].to_pylist() == [1, 2, 3]
    assert kit.read(table, id=3)["name"].to_pylist() == ["3"]
    assert [snapshot.round_id for snapshot in kit.view(table).snapshots.values()] == ["r1", None, "r2"]


def test_the_newest_tiering_commit_is_kept_from_expiry_from_before_the_first_one_on(kit: PaimonKit) -> None:
    table = kit.log_table()
    consumer = kit.folder(table) / "consumer" / publishing.CONSUMER_FILE

    def kept() -> int:
        return int(json.loads(consumer.read_text())["nextSnapshot"])

    prepared = kit.prepare(table, "r1", {"id": [1], "name": ["x"]})
    committer = prepared.factory.create_committer()
    committer._publisher = lambda *request: (_ for _ in ()).throw(ConnectionError())  # type: ignore[attr-defined]
    with pytest.raises(CommitOutcomeUnknown):
        committer.commit(prepared.committable, prepared.base, prepared.marker)
    assert kept() == 1
    kit.foreign_commit(table)
    assert kit.tier(table, "r2", [2]) == 2
    assert kept() == 2

    kit.foreign_commit(table)
    consumer.unlink()
    stale = kit.prepare(table, "r3", {"id": [3], "name": ["x"]})
    kit.foreign_commit(table)
    with pytest.raises(CommitOutcomeUnknown):
        stale.commit()
    assert kept() == 2


def test_after_a_roll_back_the_base_of_a_round_is_kept_from_before_its_request_on(kit: PaimonKit) -> None:
    table = kit.log_table()
    consumer = kit.folder(table) / "consumer" / publishing.CONSUMER_FILE
    for number in range(3):
        kit.tier(table, f"r{number}", [number])
    kit.roll_back(table, 1)
    for number, content in enumerate(("3", '{"nextSnapshot": 3}', "not JSON")):
        consumer.write_text(content)
        prepared = kit.prepare(table, f"s{number}", {"id": [9], "name": ["x"]})
        committer = prepared.factory.create_committer()
        committer._publisher = lambda *request: (_ for _ in ()).throw(ConnectionError())  # type: ignore[attr-defined]
        with pytest.raises(CommitOutcomeUnknown):
            committer.commit(prepared.committable, prepared.base, prepared.marker)
        assert json.loads(consumer.read_text()) == {"nextSnapshot": 1}


def test_a_snapshot_is_committed_at_the_time_of_the_lakes_clock_and_never_before_its_parent(kit: PaimonKit) -> None:
    table, clock = kit.log_table(), HandClock()
    kit.lake = PaimonLake(kit.warehouse, clock=clock)
    kit.tier(table, "r1", [1])
    clock.advance(-60)
    kit.tier(table, "r2", [2])
    assert [snapshot.committed_at for snapshot in kit.view(table).snapshots.values()] == [START, START]
    clock.advance(120)
    third = kit.tier(table, "r3", [3])
    assert kit.view(table).snapshots[third].committed_at == clock.wall


def test_manifests_are_merged_in_a_rounds_own_commit(kit: PaimonKit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "MERGE_COUNT", 4)
    table = kit.log_table()
    for number in range(10):
        kit.tier(table, f"r{number}", [number])
    head = kit.by_pypaimon(table).snapshot_manager().get_latest_snapshot()
    assert len(ManifestListManager(kit.by_pypaimon(table)).read_all(head)) <= 5
    assert sorted(kit.read(table)["id"].to_pylist()) == list(range(10))
    assert kit.read(table, id=3)["name"].to_pylist() == ["3"]
    assert kit.view(table).records == 10
    live = kit.lake.live_files(kit.view(table))
    assert {file.location for file in kit.lake.stored_files(kit.view(table)) if file.name.endswith((".avro", ".parquet"))} == live


def test_files_that_are_gone_are_no_commit(kit: PaimonKit) -> None:
    table = kit.log_table()
    prepared = kit.prepare(table, "r1", {"id": [1], "name": ["x"]})
    for file in kit.folder(table).glob("bucket-*/*.parquet"):
        file.unlink()
    with pytest.raises(RoundFailed, match="1 files of round r1 are missing"):
        prepared.commit()
    assert kit.view(table).head is None


def test_a_snapshot_says_whose_it_is_as_the_cluster_wants_it(kit: PaimonKit) -> None:
    table = kit.log_table(COLUMNS)
    prepared = kit.prepare(table, "r1", {"id": [1], "name": ["x"]})
    properties = {FLUSS_COMMIT_USER_KEY: FLUSS_COMMIT_USER, FLUSS_OFFSETS_KEY: "/remote/lake/sales/orders-7/metadata/a.offsets"}
    prepared.factory.create_committer().commit(prepared.committable, prepared.base, prepared.marker, properties)
    snapshot = kit.view(table).snapshots[1]
    assert (snapshot.commit_user, snapshot.offsets_path) == (FLUSS_COMMIT_USER, properties[FLUSS_OFFSETS_KEY])
    stored = kit.by_pypaimon(table).snapshot_manager().get_latest_snapshot()
    assert (stored.commit_user, stored.commit_identifier, stored.commit_kind) == (FLUSS_COMMIT_USER, 2**63 - 1, "APPEND")
    assert FLUSS_COMMIT_USER_KEY not in stored.properties


def test_files_that_cannot_be_looked_at_are_not_said_to_be_gone(kit: PaimonKit, monkeypatch: pytest.MonkeyPatch) -> None:
    table = kit.log_table()
    prepared = kit.prepare(table, "r1", {"id": [1], "name": ["x"]})
    stat = Path.stat

    def failing(path: Path, **options: bool) -> os.stat_result:
        if path.suffix == ".parquet":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", failing)
    with pytest.raises(LakeUnavailable, match=r"cannot check the new files of .*Input/output error"):
        prepared.commit()
    monkeypatch.undo()
    prepared.commit()
    assert kit.read(table)["id"].to_pylist() == [1]


def test_a_table_that_is_renamed_while_it_is_looked_at_is_not_available(kit: PaimonKit) -> None:
    """A sweep goes on with the next table."""
    table = kit.log_table()
    kit.tier(table, "r1", [1])
    view = kit.view(table)
    kit.folder(table).rename(kit.folder(table).with_name("former"))
    with pytest.raises(LakeUnavailable, match=r"cannot read the manifests of .*(was dropped or replaced|TableNotExistException)"):
        kit.lake.live_files(view)
