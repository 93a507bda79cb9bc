"""Tables that are due although their log has nothing new: they are checked without a round, and whatever is wrong is left to a round."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from support.background import tick
from support.worlds.lake_world import FRESHNESS_S, LakeWorld
from tiering.coordinator.memory.history import HistoryRange
from tiering.coordinator.observing.idle_checks import PATIENCE, patience
from tiering.errors import ClusterUnavailable
from tiering.lake.base import LakeView
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo, TablePath


@dataclass
class Scene:
    """A table of which the lake has all rows; its coordinator checks idle tables."""

    world: LakeWorld
    table: TableInfo

    @property
    def state(self) -> str | None:
        return self.world.record(self.table).state

    def be_due(self) -> None:
        """The freshness is over, the background has looked once, and the table's check was done."""
        self.world.due()
        self.world.coordinator.idle_checks.run()
        tick(self.world.coordinator)

    def rounds(self) -> int:
        return len(list(self.world.store.read_rounds(HistoryRange())))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    world = LakeWorld(tmp_path)
    yield world
    world.close()


@pytest.fixture
def scene(world: LakeWorld) -> Scene:
    table = world.table("orders")
    world.append(table, 0, 10)
    assert world.tier(table).state is RoundState.SUCCEEDED
    world.coordinator.observer.observe_all()
    world.coordinator.idle_checks.start()
    return Scene(world, table)


def test_a_table_without_news_has_no_round_and_counts_as_checked(scene: Scene) -> None:
    events = len(scene.world.store.events())
    for _ in range(5):
        before = scene.world.record(scene.table)
        scene.be_due()
        record = scene.world.record(scene.table)
        assert (record.state, record.tiering_epoch, record.error) == ("Scheduled", before.tiering_epoch, None)
        assert record.last_checked_time == scene.world.clock.now()
        assert record.due_deadline == scene.world.coordinator.table_records.now().after(FRESHNESS_S * 1_000)
    assert (scene.rounds(), len(scene.world.store.events())) == (1, events)


def test_a_new_table_without_rows_has_no_round(world: LakeWorld) -> None:
    scene = Scene(world, world.table("orders"))
    world.coordinator.observer.observe_all()
    world.coordinator.idle_checks.start()
    scene.be_due()
    assert (scene.state, scene.rounds()) == ("Scheduled", 0)
    world.append(scene.table, 0, 10)
    scene.be_due()
    assert (scene.state, scene.rounds()) == ("Pending", 1)


def test_a_row_that_came_since_the_round_has_its_round(scene: Scene) -> None:
    scene.world.append(scene.table, 10, 2)
    scene.be_due()
    assert scene.state == "Pending"
    assert scene.world.begin(scene.table).end().state is RoundState.SUCCEEDED
    scene.world.assert_exact(scene.table)


def test_known_news_are_not_checked_first(scene: Scene) -> None:
    scene.world.append(scene.table, 10, 2)
    scene.world.coordinator.observer.observe_all()
    scene.world.due()
    assert scene.state == "Pending"


def test_a_table_whose_log_was_not_observed_yet_has_its_round_at_once(scene: Scene) -> None:
    scene.world.restart()
    scene.world.coordinator.idle_checks.start()
    scene.world.due()
    assert scene.state == "Pending"


def test_a_table_that_cannot_be_tiered_has_a_round_that_says_so(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = replace(scene.world.storage.table(scene.table.path), refusal="its column `at` has the type TIME")
    monkeypatch.setattr(scene.world.storage, "table", lambda _: refused)
    scene.be_due()
    assert scene.state == "Pending"


def test_a_cluster_that_lost_its_record_of_the_lake_is_told_again(scene: Scene) -> None:
    with scene.world.storage.metadata.write() as connection:
        connection.execute(text("DELETE FROM lake_snapshots"))
    assert scene.world.storage.lake_snapshot(scene.table) is None
    scene.be_due()
    assert scene.state == "Pending"
    scene.world.begin(scene.table).end()
    assert scene.world.storage.lake_snapshot(scene.table) is not None


def test_a_bucket_without_ends_has_a_round_that_says_so(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    offsets = dict(scene.world.storage.offsets(scene.table))
    offsets.popitem()
    monkeypatch.setattr(scene.world.storage, "offsets", lambda _: offsets)
    scene.be_due()
    assert scene.state == "Pending"


def test_a_check_takes_at_most_half_of_the_freshness(scene: Scene) -> None:
    record = scene.world.record(scene.table)
    assert patience(replace(record, freshness_ms=1_000)) == timedelta(milliseconds=500)
    assert patience(replace(record, freshness_ms=600_000)) == PATIENCE


def test_rows_that_come_during_a_check_are_due_within_the_freshness(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next check counts from before the log was read."""
    scene.world.due()
    began, view = scene.world.coordinator.table_records.now(), scene.world.lake.view

    def slow(path: TablePath) -> LakeView | None:
        scene.world.append(scene.table, 10, 2)
        scene.world.clock.advance(5)
        return view(path)

    with monkeypatch.context() as patched:
        patched.setattr(scene.world.lake, "view", slow)
        scene.world.coordinator.idle_checks.run()
    assert scene.world.record(scene.table).due_deadline == began.after(FRESHNESS_S * 1_000)
    scene.be_due()
    assert scene.state == "Pending"


def drop(world: LakeWorld, table: TableInfo) -> None:
    world.by_hand.drop(table.path)


def roll_back(world: LakeWorld, table: TableInfo) -> None:
    world.append(table, 10, 2)
    world.coordinator.observer.observe_all()
    assert world.tier(table).state is RoundState.SUCCEEDED
    world.coordinator.observer.observe_all()
    first, *_ = world.by_hand.snapshots(table.path)
    world.by_hand.roll_back(table.path, first)


@pytest.mark.parametrize(("damage", "error_class"), [(drop, "LakeTableReplaced"), (roll_back, "LakeRolledBack")])
def test_a_damaged_lake_table_has_a_round_that_says_so(
    scene: Scene, damage: Callable[[LakeWorld, TableInfo], None], error_class: str
) -> None:
    damage(scene.world, scene.table)
    scene.be_due()
    assert scene.state == "Pending"
    error = scene.world.begin(scene.table).end().error
    assert error is not None
    assert error.error_class == error_class


def test_a_table_whose_check_does_not_come_or_fails_has_a_round(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.world.due()
    assert scene.state == "Scheduled"
    scene.world.clock.advance((PATIENCE + timedelta(milliseconds=1)).total_seconds())
    tick(scene.world.coordinator)
    assert scene.state == "Pending"
    assert scene.world.begin(scene.table).end().state is RoundState.EMPTY

    def fail(*_: object) -> None:
        raise ClusterUnavailable("it hangs")

    scene.world.due()
    with monkeypatch.context() as patched:
        patched.setattr(scene.world.storage, "offsets", fail)
        scene.world.coordinator.idle_checks.run()
    tick(scene.world.coordinator)
    assert scene.state == "Pending"


def test_heads_of_foreign_commits_are_passed_without_a_round(scene: Scene) -> None:
    """Else the history that the next round has to walk would be expired by then (DESIGN 6, 2h)."""
    scene.world.by_hand.rewrite(scene.table.path)
    head = scene.world.view(scene.table).head_identity
    scene.be_due()
    assert (scene.rounds(), scene.world.record(scene.table).lake.passed_head) == (1, head)


def test_the_time_of_a_check_outlives_the_coordinator(scene: Scene) -> None:
    scene.be_due()
    stored = scene.world.record(scene.table)
    scene.world.restart()
    assert scene.world.record(scene.table).last_checked_time == stored.last_checked_time
