"""DROP TABLE ... PURGE drops the lake table with its files, and never one on which a round may still commit or that is another table's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.lake_kinds.kinds import LAKE_KINDS, LakeKind
from support.worlds.lake_world import LakeWorld
from tiering.coordinator.definitions.definer import Definer
from tiering.coordinator.definitions.statements import Statement
from tiering.coordinator.memory.history import HistoryRange
from tiering.errors import InvalidArgument, LakeUnavailable, UnknownTable
from tiering.model.tables import TableInfo, TablePath
from tiering.round.steps import actions as act


class Died(BaseException):
    """The coordinator's process ends."""


@pytest.fixture(params=LAKE_KINDS, ids=lambda kind: kind.name)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LakeWorld]:
    kind: LakeKind = request.param
    world = LakeWorld(tmp_path, kind=kind)
    yield world
    world.close()


def purge(world: LakeWorld, path: TablePath, key: str | None = "k") -> None:
    statement = Statement(name="DROP TABLE", digest="digest", caller="ann", idempotency_key=key)
    Definer(world.coordinator.call_parts).drop_table(statement, path, purge=True)


def tiered(world: LakeWorld) -> TableInfo:
    table = world.table("orders")
    world.append(table, 0, 20)
    assert world.tier(table).error is None
    return table


def is_known(world: LakeWorld, path: TablePath) -> bool:
    try:
        world.storage.table(path)
    except UnknownTable:
        return False
    return True


def messages(world: LakeWorld) -> list[str]:
    events = world.coordinator.view().history.read_events(HistoryRange(database_name="sales", table_name="orders"))
    return [event.message for event in events if event.event_type == "DROP_TABLE"]


def files_of(world: LakeWorld, tmp_path: Path) -> list[Path]:
    return [file for file in (tmp_path / "lake").rglob("*.parquet") if "orders" in str(file)]


def test_both_tables_are_gone_and_a_new_one_of_the_name_is_tiered(world: LakeWorld, tmp_path: Path) -> None:
    table = tiered(world)
    assert files_of(world, tmp_path)

    purge(world, table.path)
    assert not is_known(world, table.path)
    assert world.lake.view(table.path) is None
    assert not files_of(world, tmp_path)
    assert messages(world) == ["the table was dropped, and its lake table with it"]

    again = world.table("orders")
    world.append(again, 0, 5)
    assert world.tier(again).error is None
    assert world.assert_exact(again).num_rows == 5


def test_a_table_without_a_lake_table_is_dropped_alone(world: LakeWorld) -> None:
    table = world.table("orders")
    purge(world, table.path)
    assert not is_known(world, table.path)
    assert messages(world) == ["the table was dropped; it had no lake table"]


def test_nothing_is_dropped_while_a_round_may_commit(world: LakeWorld) -> None:
    table = tiered(world)
    world.append(table, 20, 20)
    world.due()
    running = world.begin(table).advance_to(act.CommitLake)
    with pytest.raises(InvalidArgument, match="one of its rounds may still commit"):
        purge(world, table.path)
    assert is_known(world, table.path)
    running.end()
    assert world.assert_exact(table).num_rows == 40

    purge(world, table.path, "another key")
    assert world.lake.view(table.path) is None


def test_a_round_that_has_no_grant_yet_gets_none(world: LakeWorld) -> None:
    table = tiered(world)
    world.append(table, 20, 20)
    world.due()
    running = world.begin(table).advance_to(act.BeginCommit)
    purge(world, table.path)
    running.end()
    assert world.lake.view(table.path) is None


def test_a_grant_in_the_moment_of_the_drop_saves_the_lake_table(world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tiered(world)
    world.append(table, 20, 20)
    world.due()
    running = world.begin(table).advance_to(act.BeginCommit)
    survey = type(world.lake).survey

    def survey_before_the_grant(lake: Any, path: TablePath) -> object:
        running.advance_to(act.CommitLake)
        return survey(lake, path)

    with monkeypatch.context() as patched:
        patched.setattr(type(world.lake), "survey", survey_before_the_grant)
        purge(world, table.path)
    view = world.lake.view(table.path)
    assert view is not None
    assert messages(world) == [
        "the table was dropped, but a round began to commit meanwhile: its lake table sales.orders stays in the lake's catalog"
    ]


@pytest.mark.parametrize("dies_at", ["discovery", "lake", "answer"])
def test_a_repeat_ends_what_a_process_that_died_began(world: LakeWorld, monkeypatch: pytest.MonkeyPatch, dies_at: str) -> None:
    table = tiered(world)

    def die(*_: object, **__: object) -> None:
        raise Died

    places: dict[str, Callable[[], tuple[object, str]]] = {
        "discovery": lambda: (world.coordinator.call_parts.discovery, "run"),
        "lake": lambda: (type(world.lake), "drop_table"),
        "answer": lambda: (Definer, "_store_end"),
    }
    with monkeypatch.context() as patched:
        patched.setattr(*places[dies_at](), die)
        with pytest.raises(Died):
            purge(world, table.path)
    world.restart()
    assert not is_known(world, table.path)

    for _ in range(2):
        purge(world, table.path)
    assert world.lake.view(table.path) is None


def test_a_lake_that_does_not_answer_keeps_its_table_until_the_repeat(world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tiered(world)

    def refuse(*_: object) -> bool:
        raise LakeUnavailable("the lake is away")

    with monkeypatch.context() as patched:
        patched.setattr(type(world.lake), "drop_table", refuse)
        with pytest.raises(LakeUnavailable, match="was dropped, but its lake table was not: the lake is away"):
            purge(world, table.path)
    assert not is_known(world, table.path)
    purge(world, table.path)
    assert world.lake.view(table.path) is None


def test_the_lake_table_of_an_earlier_table_of_the_name_stays_and_so_does_the_source(world: LakeWorld) -> None:
    table = tiered(world)
    world.storage.drop_table(table.path)
    again = world.table("orders")
    with pytest.raises(InvalidArgument, match=r"nothing was dropped: the lake table sales\.orders was tiered from an earlier table"):
        purge(world, again.path)
    assert is_known(world, again.path)
    assert world.lake.view(table.path) is not None
