"""A sweep leaves the files of every commit that may still land: after a roll-back to what it was built on, and of a round whose grant
was lost with a store that was set back."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePath
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from support.background import tick
from support.lake_kinds.kinds import LAKE_KINDS, LakeKind
from support.worlds.lake_world import LakeWorld
from tiering.coordinator.calls.sweep_lake import sweep_lake
from tiering.lake.iceberg.reading.view import TAG
from tiering.lake.paimon.commit.committer import PaimonCommitter, Publisher, SentRounds, publish
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo, TablePath
from tiering.procedures.sweep_lake import SweepLake, SweepResult
from tiering.round.steps import actions as act

Late = Callable[[], object]
"""Lets the commit request arrive that was sent."""


@pytest.fixture(params=LAKE_KINDS, ids=lambda kind: kind.name)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LakeWorld]:
    kind: LakeKind = request.param
    lake_world = LakeWorld(tmp_path, kind=kind)
    lake_world.clock.wall = datetime.now(UTC) + timedelta(days=2)  # files carry the machine's time
    yield lake_world
    lake_world.close()


def hold_request(monkeypatch: pytest.MonkeyPatch) -> list[Late]:
    """From here on a commit request is on its way, and its tierer hears nothing."""
    held: list[Late] = []
    commits, initialize = SqlCatalog.commit_table, PaimonCommitter.__init__

    def publish_late(*request: Any) -> None:
        held.append(lambda: publish(*request))
        raise ConnectionError("no answer")

    def commit_late(*request: Any) -> None:
        held.append(lambda: commits(*request))
        raise ConnectionError("no answer")

    def initialize_late(
        self: PaimonCommitter, root: PurePath, sent: SentRounds, publisher: Publisher = publish, *arguments: Any, **options: Any
    ) -> None:
        initialize(self, root, sent, publish_late, *arguments, **options)

    monkeypatch.setattr(SqlCatalog, "commit_table", commit_late)
    monkeypatch.setattr(PaimonCommitter, "__init__", initialize_late)
    return held


def send_and_die(world: LakeWorld, table: TableInfo, monkeypatch: pytest.MonkeyPatch) -> Late:
    """A round sends its commit, and its tierer dies; the commit arrives when the answer is called."""
    taken = world.begin(table).advance_to(act.CommitLake)
    with monkeypatch.context() as patched:
        held = hold_request(patched)
        taken.runner.advance()
    [late] = held
    return late


def sweep(world: LakeWorld, table: TableInfo) -> SweepResult:
    [result] = sweep_lake(world.coordinator.call_parts, SweepLake(table.path, 86_400_000, caller="ann"))
    return result


def roll_back(world: LakeWorld, path: TablePath, snapshot_id: int) -> None:
    """To a former tiering commit, which is the newest one again."""
    if world.lake_format == "iceberg":
        catalog = world.iceberg_catalog()
        catalog.load_table(str(path)).manage_snapshots().remove_tag(TAG).commit()
        catalog.load_table(str(path)).manage_snapshots().create_tag(snapshot_id, TAG).commit()
    world.by_hand.roll_back(path, snapshot_id)


def overtaken(world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> tuple[TableInfo, int, Late]:
    """A table, the snapshot on which a commit of ten rows was sent that is on its way, and that one; another round tiered since."""
    table = world.table("orders")
    world.append(table, 0, 10)
    world.tier(table)
    base = world.by_hand.head(table.path)
    world.append(table, 10, 10)
    world.due()
    late = send_and_die(world, table, monkeypatch)
    world.clock.advance(600)
    tick(world.coordinator)
    world.append(table, 20, 5)
    assert world.tier(table).state is RoundState.SUCCEEDED
    world.clock.advance(86_400)
    return table, base, late


def test_a_late_commit_finds_its_files_after_a_roll_back(world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    table, base, arrive = overtaken(world, monkeypatch)
    swept = sweep(world, table)
    assert swept.removed == 0
    assert swept.kept["MAY_STILL_LAND"] > 0
    roll_back(world, table.path, base)
    if world.lake_format == "paimon":
        arrive()
        assert len(world.by_hand.rows(table.path)) == 20
    else:  # sequence numbers do not go back with a table; not every catalog need look at them
        with pytest.raises(ValueError, match="sequence number"):
            arrive()
        assert len(world.by_hand.rows(table.path)) == 10


def test_when_its_base_expired_a_late_commit_is_refused_and_its_files_go(world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    table, _, arrive = overtaken(world, monkeypatch)
    world.by_hand.expire(table.path)
    assert sweep(world, table).removed > 0
    with pytest.raises(Exception, match=r"snapshot|branch|ref|exists"):
        arrive()
    world.assert_exact(table)


def test_a_round_that_an_older_store_knows_without_its_grant_keeps_its_files(world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    table = world.table("orders")
    world.append(table, 0, 10)
    world.tier(table)
    world.append(table, 10, 10)
    world.due()
    taken = world.begin(table).advance_to(act.BeginCommit)
    backup = {name: copy.deepcopy(value) for name, value in vars(world.store).items() if name != "_lock"}
    taken.advance_to(act.CommitLake)
    with monkeypatch.context() as patched:
        held = hold_request(patched)
        taken.runner.advance()
    restart_on(world, backup)
    world.clock.advance(2 * 86_400)
    tick(world.coordinator)
    swept = sweep(world, table)
    assert swept.removed == 0
    assert swept.kept["MAY_STILL_LAND"] > 0
    [arrive] = held
    arrive()
    assert len(world.by_hand.rows(table.path)) == 20
    world.due()
    world.tier(table)
    world.assert_exact(table)


def restart_on(world: LakeWorld, backup: Mapping[str, object]) -> None:
    """The coordinator goes on from a backup of its store."""
    world.coordinator.close()
    vars(world.store).update(backup)
    world.coordinator = world._start()
