"""A statement that is repeated under its idempotency key has one effect, also if the coordinator died before it stored the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from support.worlds.lake_world import LakeWorld
from tiering.cluster.writable import TableSpec
from tiering.coordinator.definitions.definer import Definer
from tiering.coordinator.definitions.statements import Statement, TableChanges
from tiering.coordinator.memory.history import HistoryRange
from tiering.errors import AlreadyExists, InvalidArgument, UnknownPartition, UnknownTable
from tiering.model.schema.changes import AddColumn
from tiering.model.tables import TablePath
from tiering.round.steps import actions as act

ORDERS = TablePath("sales", "orders")
SPEC = TableSpec(pa.schema([pa.field("id", pa.int64()), pa.field("text", pa.string())]), properties={"table.datalake.enabled": "true"})
OTHER_SPEC = TableSpec(pa.schema([pa.field("number", pa.int32())]))


class Died(BaseException):
    """The coordinator's process ends."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    world = LakeWorld(tmp_path)
    world.storage.create_database("sales")
    yield world
    world.close()


def statement(name: str, key: str | None = "k") -> Statement:
    return Statement(name=name, digest=f"digest of {name}", caller="ann", idempotency_key=key)


def definer(world: LakeWorld) -> Definer:
    return Definer(world.coordinator.call_parts)


def dies_before_the_answer_is_stored(world: LakeWorld, monkeypatch: pytest.MonkeyPatch, perform: Callable[[], None]) -> None:
    def die(*_: object) -> None:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(Definer, "_store_end", die)
        with pytest.raises(Died):
            perform()
    world.restart()


def test_a_created_table_is_created_once(world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    create = lambda: definer(world).create_table(statement("CREATE TABLE"), ORDERS, SPEC)  # noqa: E731
    dies_before_the_answer_is_stored(world, monkeypatch, create)
    table_id = world.storage.table(ORDERS).table_id

    for _ in range(2):
        create()
    assert world.storage.table(ORDERS).table_id == table_id
    with pytest.raises(AlreadyExists):
        definer(world).create_table(statement("CREATE TABLE", "another key"), ORDERS, SPEC)


def test_a_table_with_other_columns_does_not_pass_for_the_one_of_the_first_attempt(
    world: LakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = lambda: definer(world).create_table(statement("CREATE TABLE"), ORDERS, SPEC)  # noqa: E731
    dies_before_the_answer_is_stored(world, monkeypatch, create)
    world.storage.drop_table(ORDERS)
    world.storage.create_table(ORDERS, OTHER_SPEC)

    with pytest.raises(AlreadyExists):
        create()


@pytest.mark.parametrize("has_died", [True, False])
def test_a_repeated_drop_leaves_a_table_that_was_created_since(has_died: bool, world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.storage.create_table(ORDERS, SPEC)
    drop = lambda: definer(world).drop_table(statement("DROP TABLE"), ORDERS, purge=False)  # noqa: E731
    world.clock.advance(1)
    if has_died:
        dies_before_the_answer_is_stored(world, monkeypatch, drop)
    else:
        drop()
    drop()  # nothing is there, and the first call has its answer
    world.clock.advance(1)
    again = world.storage.create_table(ORDERS, SPEC)

    drop()
    assert world.storage.table(ORDERS) == again
    world.storage.drop_table(ORDERS)
    with pytest.raises(UnknownTable):
        definer(world).drop_table(statement("DROP TABLE", "another key"), ORDERS, purge=False)


@pytest.mark.parametrize("cascade", [True, False])
def test_a_repeated_drop_of_a_database_leaves_tables_that_were_created_since(
    cascade: bool, world: LakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop = lambda: definer(world).drop_database(statement("DROP DATABASE"), "sales", cascade=cascade)  # noqa: E731
    if cascade:
        world.storage.create_table(ORDERS, SPEC)
    world.clock.advance(1)
    dies_before_the_answer_is_stored(world, monkeypatch, drop)
    world.clock.advance(1)
    world.storage.create_database("sales")
    again = world.storage.create_table(ORDERS, SPEC)

    drop()
    assert world.storage.table(ORDERS) == again


def test_a_statement_that_was_refused_is_tried_again_as_a_new_one(world: LakeWorld) -> None:
    world.storage.create_table(ORDERS, SPEC)
    create = lambda: definer(world).create_table(statement("CREATE TABLE"), ORDERS, SPEC)  # noqa: E731
    for _ in range(2):
        with pytest.raises(AlreadyExists):
            create()
    world.storage.drop_table(ORDERS)
    create()
    assert world.storage.table(ORDERS).schema.names == ["id", "text"]


def test_a_key_names_one_statement(world: LakeWorld) -> None:
    definer(world).create_table(statement("CREATE TABLE"), ORDERS, SPEC)
    with pytest.raises(InvalidArgument, match="already names"):
        definer(world).drop_table(statement("DROP TABLE"), ORDERS, purge=False)
    assert world.storage.table(ORDERS)


def test_statements_without_a_key_are_not_repeats(world: LakeWorld) -> None:
    for _ in range(2):
        definer(world).create_table(statement("CREATE TABLE", None), ORDERS, SPEC)
        definer(world).drop_table(statement("DROP TABLE", None), ORDERS, purge=False)


def test_partitions_are_dropped_all_or_none(world: LakeWorld) -> None:
    spec = TableSpec(pa.schema([pa.field("id", pa.int64()), pa.field("day", pa.string(), nullable=False)]), partition_keys=("day",))
    table = world.storage.create_table(ORDERS, spec)
    definer(world).add_partitions(statement("ADD PARTITION"), ORDERS, ["a", "b"])

    with pytest.raises(UnknownPartition, match="no partition 'nowhere'"):
        definer(world).drop_partitions(statement("DROP PARTITION", "j"), ORDERS, ["a", "nowhere"])
    assert [partition.partition_name for partition in world.storage.partitions(table)] == ["a", "b"]


def test_an_option_that_the_lake_table_took_over_does_not_change_in_sql(world: LakeWorld) -> None:
    table = world.table("orders")
    world.append(table, 0, 20)
    world.tier(table)
    changes = TableChanges({"iceberg.write.target-file-size-bytes": "2000000"}, [])
    with pytest.raises(InvalidArgument, match="its lake table exists, and got the option when it was created"):
        definer(world).alter_table(statement("ALTER TABLE"), table.path, changes)


def test_a_column_that_is_added_during_a_round_comes_with_the_next_one(world: LakeWorld) -> None:
    table = world.table("orders")
    world.append(table, 0, 20)
    world.due()
    running = world.begin(table).advance_to(act.BeginCommit)

    definer(world).alter_table(
        statement("ALTER TABLE"), table.path, TableChanges({"comment": "wider"}, [AddColumn(pa.field("more", pa.int32()))])
    )
    running.end()
    world.append(table, 20, 20)
    world.tier(world.storage.table(table.path))

    assert world.assert_exact(table).num_rows == 40
    altered = world.storage.table(table.path)
    assert (altered.schema.names, altered.properties["comment"]) == (["id", "text", "more"], "wider")


def test_a_table_that_is_dropped_during_a_round_gets_no_commit_and_keeps_its_lake_table(world: LakeWorld) -> None:
    table = world.table("orders")
    world.append(table, 0, 20)
    world.tier(table)
    world.append(table, 20, 20)
    world.due()
    running = world.begin(table).advance_to(act.BeginCommit)

    definer(world).drop_table(statement("DROP TABLE"), table.path, purge=False)
    running.end()

    assert world.iceberg(table).scan().to_arrow().num_rows == 20
    events = world.coordinator.view().history.read_events(HistoryRange(database_name="sales", table_name="orders"))
    [dropped] = [event for event in events if event.event_type == "DROP_TABLE"]
    assert (dropped.principal, dropped.message) == ("ann", "the table was dropped; its lake table sales.orders stays in the lake's catalog")
