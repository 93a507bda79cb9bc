"""Tables that are due although their log has nothing new: they are checked without a round, and whatever is wrong is left to a round."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from support.background import tick
from support.worlds.lake_world import FRESHNESS_S, LakeWorld
from tiering.coordinator.memory.history import HistoryRange
from tiering.coordinator.observing.idle_checks import PATIENCE
from tiering.errors import ClusterUnavailable
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo


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
