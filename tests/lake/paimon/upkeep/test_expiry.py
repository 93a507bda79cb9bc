"""Snapshots of a Paimon table expire with the commits of rounds, from the oldest one on; other readers see the table as before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from support.lakes.paimon_kit import CLUSTER_ID, PaimonKit
from support.worlds.coordinator_world import HandClock
from tiering.lake.base import Committable
from tiering.lake.paimon.lake import PaimonLake
from tiering.lake.paimon.storage.local import LocalTableFolder
from tiering.lake.rules.base_check import ExpectedLake, check_base
from tiering.model.tables import SnapshotRetention
from tiering.model.upkeep import ExpiryOrder, UpkeepOrder

HOUR = 3_600_000
SHORT = SnapshotRetention(HOUR, 3)


class TimedRounds:
    """Rounds of one row each, ten minutes apart."""

    def __init__(self, kit: PaimonKit, retention: SnapshotRetention | None = SHORT) -> None:
        self.clock = HandClock()
        self.kit = kit
        kit.lake = PaimonLake(kit.warehouse, clock=self.clock)
        self.table = kit.log_table(properties={"table.datalake.layout": "clean"}, snapshot_retention=retention)
        self.count = 0

    def run(self, count: int, minutes: int = 10) -> None:
        for _ in range(count):
            self.count += 1
            self.kit.tier(self.table, f"r{self.count}", [self.count])
            self.clock.advance(minutes * 60)

    def ordered(self, order: ExpiryOrder) -> None:
        """An upkeep round with an order of a user."""
        base = self.kit.lake.ensure_table(self.table)
        assert base.marker is not None
        self.count += 1
        round_id = f"u{self.count}"
        marker = replace(base.marker, round_id=round_id, base_round_id=base.marker.round_id)
        committer = self.kit.lake.tiering_factory(self.table).create_committer()
        committer.commit(Committable(round_id, (), order=UpkeepOrder(expiry=order)), base, marker)

    @property
    def snapshots(self) -> list[int]:
        return sorted(self.kit.view(self.table).snapshots)

    @property
    def folder(self) -> Path:
        return self.kit.folder(self.table)

    @property
    def snapshot_files(self) -> list[int]:
        return sorted(int(file.name.rpartition("-")[2]) for file in (self.folder / "snapshot").glob("snapshot-*"))


def test_snapshots_older_than_the_maximum_age_expire_with_the_next_round(kit: PaimonKit) -> None:
    rounds = TimedRounds(kit)
    rounds.run(12)
    assert rounds.snapshots == rounds.snapshot_files == list(range(6, 13))
    assert (rounds.folder / "snapshot" / "EARLIEST").read_text() == "6"
    check_base(kit.view(rounds.table), ExpectedLake(CLUSTER_ID, rounds.table.table_id, None, None))
    assert sorted(kit.read(rounds.table)["id"].to_pylist()) == list(range(1, 13))
    by_pypaimon = kit.by_pypaimon(rounds.table).snapshot_manager()
    assert by_pypaimon.try_get_earliest_snapshot().id == 6


def test_as_of_a_time_within_the_maximum_age_the_table_is_read_as_it_was(kit: PaimonKit) -> None:
    rounds = TimedRounds(kit)
    rounds.run(12)
    now = kit.view(rounds.table).snapshots[12].committed_at
    then = int((now - timedelta(hours=1)).timestamp() * 1_000)
    snapshot = kit.by_pypaimon(rounds.table).snapshot_manager().earlier_or_equal_time_mills(then)
    assert snapshot is not None
    assert snapshot.id == 6


def test_without_a_retention_nothing_expires(kit: PaimonKit) -> None:
    rounds = TimedRounds(kit, None)
    rounds.run(12)
    assert rounds.snapshots == list(range(1, 13))


def consumer(rounds: TimedRounds, name: str, content: str) -> Path:
    folder = rounds.folder / "consumer"
    folder.mkdir(exist_ok=True)
    (folder / f"consumer-{name}").write_text(content)
    return folder / f"consumer-{name}"


@pytest.mark.parametrize(("content", "oldest"), [(json.dumps({"nextSnapshot": 2}), 2), ("{", 1)], ids=["readable", "damaged"])
def test_a_consumer_keeps_what_it_did_not_read_yet(kit: PaimonKit, content: str, oldest: int) -> None:
    rounds = TimedRounds(kit)
    rounds.run(1)
    file = consumer(rounds, "of-flink", content)
    rounds.run(11)
    assert rounds.snapshots[0] == oldest
    file.unlink()
    rounds.run(1)
    assert rounds.snapshots[0] == 7


def test_the_newest_tiering_commit_stays_however_many_commits_of_others_follow(kit: PaimonKit) -> None:
    rounds = TimedRounds(kit)
    rounds.run(2)
    for _ in range(15):
        kit.foreign_commit(rounds.table)
    rounds.clock.advance(5 * 3_600)
    rounds.run(1)
    assert rounds.snapshots[-1] == 18
    assert kit.view(rounds.table).tiered == 18


def test_the_tables_own_options_keep_more(kit: PaimonKit) -> None:
    rounds = TimedRounds(kit)
    rounds.run(1)
    set_option(rounds, "snapshot.time-retained", "3 h")
    rounds.run(25)
    assert rounds.snapshots == list(range(8, 27))
    set_option(rounds, "changelog.time-retained", "10 h")
    rounds.run(10)
    assert rounds.snapshots[0] == 8


def set_option(rounds: TimedRounds, name: str, value: str) -> None:
    newest = max((rounds.folder / "schema").glob("schema-*"))
    document = json.loads(newest.read_text())
    document["id"] += 1
    document["options"][name] = value
    (rounds.folder / "schema" / f"schema-{document['id']}").write_text(json.dumps(document))


def test_a_tag_and_a_branch_keep_the_files_of_an_expired_snapshot(kit: PaimonKit) -> None:
    rounds = TimedRounds(kit)
    rounds.run(3)
    table = kit.by_pypaimon(rounds.table)
    table.create_tag("monthly", snapshot_id=2)
    table.branch_manager().create_branch("trial", "monthly")
    rounds.run(12)
    table.delete_tag("monthly")
    assert 2 not in rounds.snapshots
    live = {Path(location).name for location in kit.lake.live_files(kit.view(rounds.table))}
    lists = list((rounds.folder / "manifest").glob("lakeward-r2-*-l?.avro"))
    assert lists
    assert {file.name for file in lists} <= live
    assert not {file.name for file in (rounds.folder / "manifest").glob("lakeward-r1-*-l?.avro")} & live


def test_a_user_orders_an_expiry(kit: PaimonKit) -> None:
    rounds = TimedRounds(kit, SnapshotRetention(24 * HOUR, 10))
    rounds.run(20)
    fifth = kit.view(rounds.table).snapshots[5].committed_at
    order = ExpiryOrder(older_than=fifth, retain_last=2)
    outlook = kit.lake.expiry_outlook(rounds.table, kit.view(rounds.table), order)
    assert (outlook.expirable, sum(outlook.kept.values())) == (4, 16)
    assert outlook.kept["the newest snapshots"] == 1
    rounds.ordered(order)
    assert rounds.snapshots == list(range(5, 22))
    rounds.ordered(ExpiryOrder(older_than=datetime(2100, 1, 1, tzinfo=UTC), retain_last=2))
    assert rounds.snapshots == [21, 22]


@contextmanager
def dying_removals(monkeypatch: pytest.MonkeyPatch, after: int) -> Iterator[None]:
    """Removals of files fail, all but the first ones."""
    remove, times = LocalTableFolder.remove, iter(range(1_000))

    def dies(self: LocalTableFolder, folder: str, name: str) -> None:
        if next(times) >= after:
            raise OSError("input/output error")
        remove(self, folder, name)

    with monkeypatch.context() as patch:
        patch.setattr(LocalTableFolder, "remove", dies)
        yield


def test_an_expiry_that_dies_half_way_is_ended_by_the_next_one(kit: PaimonKit, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = TimedRounds(kit, None)
    rounds.run(12)
    rounds.table = replace(rounds.table, snapshot_retention=SHORT)
    with dying_removals(monkeypatch, after=2):
        rounds.run(1)
    assert rounds.snapshots == list(range(7, 14))
    assert rounds.snapshot_files == list(range(3, 14))
    rounds.run(1)
    assert rounds.snapshot_files == rounds.snapshots == list(range(8, 15))


def test_nothing_is_deleted_once_the_table_was_rolled_back(kit: PaimonKit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids come again: an old snapshot may be the head by now."""
    rounds = TimedRounds(kit, None)
    rounds.run(12)
    rounds.table = replace(rounds.table, snapshot_retention=SHORT)
    replace_hint = LocalTableFolder.replace

    def rolled_back(self: LocalTableFolder, folder: str, name: str, content: bytes) -> None:
        replace_hint(self, folder, name, content)
        if name == "EARLIEST":
            kit.roll_back(rounds.table, 3)

    monkeypatch.setattr(LocalTableFolder, "replace", rolled_back)
    rounds.run(1)
    assert rounds.snapshot_files == [1, 2, 3]
