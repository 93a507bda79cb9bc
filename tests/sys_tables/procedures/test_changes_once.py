"""Every procedure that changes something: one effect for one idempotency key, none for a dry run, an event with the caller. And the public
client's method for each procedure.

Over the real coordinator and a real lake, whose table failed because a user rolled it back. A new procedure that
changes something fails here until it says how it is called.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.background import tick
from support.clusters.older_version import TWICE, older_write
from support.lake_kinds.dead_letters import PUT_ASIDE
from support.lake_kinds.poisoned import POISON, refuse_poison
from support.operators import pause
from support.services.procedure_arguments import call_fields
from support.services.served import at_uri
from support.services.sys_catalog import Client, error_of, serving
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, SCHEMA, LakeWorld
from sys_tables.registry import default_registry
from tiering.access.request_bounds import ID_LIMIT
from tiering.client import AsyncLakewardClient, LakewardClient
from tiering.coordinator.decisions.records import EventRecord, TableRecord
from tiering.coordinator.memory.idempotency import stored_key
from tiering.errors import InvalidArgument, LakewardError, UnknownTable
from tiering.model.leases import KvSnapshot
from tiering.model.tables import BucketKey, TableBucket, TableInfo, TablePath
from tiering.procedures.pause_tiering import PauseTiering
from tiering.procedures.pause_upkeep import PauseUpkeep
from tiering.procedures.registry import declarations
from tiering.round.steps import actions as act
from tiering.rpc.v1.control_pb2 import CallProcedureRequest
from tiering.wire.procedure_calls import request_from_pb, request_to_pb

RUNNING = "the running round"
"""Stands for its id."""

ARGUMENTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "acquire_kv_snapshot_lease": ({"lease_id": "new", "table": "sales.planes"}, {"lease_id": "another"}),
    "adopt_table": ({"table": "sales.adopted", "lake_table": "sales.adopted", "offsets": {"0": 5, "1": 5}}, {"offsets": {"0": 4, "1": 5}}),
    "backfill_table": ({"table": "sales.clean", "source_table": "archive.clean"}, {"source_table": "archive.other"}),
    "cancel_tiering": ({"round_id": RUNNING, "message": "why"}, {"round_id": "another"}),
    "discard_dead_letters": ({"table": "sales.aside", "reason": "why"}, {"reason": "because"}),
    "drop_kv_snapshot_lease": ({"lease_id": "held"}, {"lease_id": "another"}),
    "expire_snapshots": ({"table": "sales.upkept", "retain_last": 1, "wait": False}, {"retain_last": 2}),
    "fence_tierer": ({"tierer_id": "tierer-1", "reason": "why"}, {"reason": "because"}),
    "pause_tiering": ({"table": "sales.orders", "reason": "why"}, {"reason": "because"}),
    "pause_upkeep": ({"table": "sales.other", "reason": "why"}, {"reason": "because"}),
    "reconcile_lake": ({"table": "sales.orders", "action": "retier"}, {"action": "accept"}),
    "release_kv_snapshot_lease": ({"lease_id": "held", "table": "sales.planes"}, {"lease_id": "another"}),
    "remove_orphan_files": ({"table": "sales.upkept"}, {"table": "sales.other"}),
    "renew_kv_snapshot_lease": ({"lease_id": "held", "ttl_ms": 5_000}, {"lease_id": "another"}),
    "replay_dead_letters": ({"table": "sales.aside"}, {"where": "offset = 1"}),
    "reset_errors": ({"table": "sales.orders"}, {"table": "sales.other"}),
    "resume_tiering": ({"table": "sales.paused"}, {"table": "sales.other"}),
    "resume_upkeep": ({"table": "sales.paused"}, {"table": "sales.other"}),
    "retry_tiering": ({"table": "sales.orders"}, {"table": "sales.other"}),
    "rewrite_data_files": ({"table": "sales.upkept", "full": True, "wait": False}, {"full": False}),
    "rewrite_manifests": ({"table": "sales.upkept", "wait": False}, {"table": "sales.other"}),
    "set_freshness": ({"table": "sales.orders", "freshness": "5 min"}, {"freshness": "6 min"}),
    "set_table_option": (
        {"table": "sales.orders", "name": "table.datalake.freshness", "value": "5 min"},
        {"value": "6 min"},
    ),
    "skip_record": ({"table": "sales.stuck", "bucket_id": 0, "offset": 0, "reason": "why"}, {"offset": 1}),
    "take_kv_snapshot": ({"table": "sales.planes"}, {"table": "sales.stuck"}),
    "tier_database": ({"database": "sales", "include": "order%", "wait": False}, {"include": "other"}),
    "tier_table": ({"table": "sales.orders", "wait": False}, {"table": "sales.other"}),
}
"""For each procedure: arguments with an effect, and the change that makes it another operation."""

CHANGING = [procedure.name for procedure in default_registry().procedures if procedure.mutates]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    lake_world = LakeWorld(tmp_path)
    put_aside(lake_world)
    leave_orphans(lake_world, tmp_path)
    leave_history(lake_world)
    orders = lake_world.table("orders")
    for number in range(2):
        lake_world.append(orders, number * 20, 20)
        lake_world.tier(orders)
    loaded = lake_world.iceberg(orders)
    loaded.manage_snapshots().rollback_to_snapshot(loaded.metadata.snapshots[0].snapshot_id).commit()
    lake_world.append(orders, 40, 20)
    lake_world.tier(orders)
    assert lake_world.record(orders).state == "Failed"
    running = lake_world.table("running")
    lake_world.append(running, 0, 20)
    lake_world.due()
    lake_world.begin(running)
    paused = lake_world.table("paused").path
    pause(lake_world.coordinator, paused, "bob")
    asyncio.run(lake_world.coordinator.control.perform(PauseUpkeep(paused, caller="bob")))
    lake_world.table("other")
    adopted = lake_world.table("adopted")
    lake_world.append(adopted, 0, 10)
    lake_world.by_hand.create(adopted.path, SCHEMA)
    lake_world.by_hand.append(adopted.path, pa.table({"id": range(10), "text": [f"row {row}" for row in range(10)]}, schema=SCHEMA), {})
    lease_snapshots(lake_world, lake_world.primary_key_table("planes"))
    stuck = pa.schema([pa.field("id", pa.int64(), nullable=False), ("tags", pa.map_(pa.string(), pa.int32()))])
    refused = pa.Table.from_pylist([{"id": 1, "tags": TWICE}], schema=stuck)
    older_write(lake_world.storage, lake_world.primary_key_table("stuck", 1, stuck).path, refused, 0)
    yield lake_world
    lake_world.close()


def put_aside(world: LakeWorld) -> None:
    """A table with a dead letter that the lake could not hold once."""
    options, world.lake_options = world.lake_options, {**world.lake_options, **PUT_ASIDE}
    aside = world.table("aside", datalake_freshness="100 d")
    world.lake_options = options
    rows = pa.table({"id": [0], "text": [POISON]}, schema=SCHEMA)
    world.storage.append(aside.path, rows, "test", 0)
    with pytest.MonkeyPatch.context() as patch:
        refuse_poison(patch)
        world.clock.advance(101 * 86_400)
        world.tier(aside)


def leave_history(world: LakeWorld) -> None:
    """A lake table with older rows of a clean table, which is not due for a long time."""
    table, history = world.table("clean", datalake_layout="clean", datalake_freshness="100 d"), TablePath("archive", "clean")
    world.lake.ensure_table(table)
    world.by_hand.create(history, SCHEMA)
    world.by_hand.append(history, pa.table({"id": [-1], "text": ["old"]}, schema=SCHEMA), {})


def leave_orphans(world: LakeWorld, folder: Path) -> None:
    """A table of which a round died before its commit, long ago."""
    upkept = world.table("upkept", datalake_freshness="30 d")
    for start in (0, 20):
        world.append(upkept, start, 20)
        world.clock.advance(31 * 86_400)
        tick(world.coordinator)
        if start == 0:
            world.tier(upkept)
    world.begin(upkept).advance_to(act.BeginCommit)
    world.clock.advance(200)
    tick(world.coordinator)
    world.clock.advance(300)
    tick(world.coordinator)
    world.begin(upkept).end()
    long_ago = world.clock.wall.timestamp() - 10 * 86_400
    for file in (path for path in folder.rglob("*lakeward-*") if path.is_file()):
        os.utime(file, (long_ago, long_ago))


def lease_snapshots(world: LakeWorld, planes: TableInfo) -> None:
    rows = pa.table({"id": range(10), "text": [str(number) for number in range(10)]}, schema=PRIMARY_KEY_SCHEMA)
    world.storage.upsert(planes.path, rows, "test", 0)
    snapshots = world.storage.take_kv_snapshots(planes.path)
    hold(world, planes, snapshots)
    world.storage.upsert(planes.path, rows, "test", 1)  # newer than the snapshots


def hold(world: LakeWorld, planes: TableInfo, snapshots: Mapping[BucketKey, KvSnapshot]) -> None:
    wanted = {TableBucket(planes.table_id, bucket): snapshot.snapshot_id for bucket, snapshot in snapshots.items()}
    assert not world.storage.acquire_lease("held", 60_000, wanted)


def arguments(world: LakeWorld, name: str) -> dict[str, Any]:
    running = world.coordinator.table_records.by_path(TablePath("sales", "running"))
    assert running is not None
    assert running.round is not None
    ids = {RUNNING: running.round.round_id}
    return {argument: ids[RUNNING] if value == RUNNING else value for argument, value in ARGUMENTS[name][0].items()}


def state(world: LakeWorld) -> list[object]:
    """All that a CALL could change."""
    store, tables = world.store, world.storage.tables()
    in_store = [[unmeasured(record) for record in store.load()], store.rounds(), store.commits(), store.events()]
    in_cluster = [[(table.properties, world.storage.kv_snapshots(table)) for table in tables], world.storage.leases()]
    return [*in_store, *in_cluster, [world.lake.view(table.path) for table in tables]]


def unmeasured(record: TableRecord) -> TableRecord:
    """Without what the observer measures of the lake in the background, whenever it comes to it: no effect of a CALL."""
    return replace(record, lake=replace(record.lake, records=None, size_bytes=None, files=None, location=None))


def talk(world: LakeWorld, scenario: Callable[[Client], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(60), serving(world.coordinator) as client:
            await scenario(client)

    asyncio.run(whole())


@pytest.mark.parametrize("name", CHANGING)
def test_a_dry_run_answers_and_changes_nothing(world: LakeWorld, name: str) -> None:
    before = state(world)

    async def scenario(client: Client) -> None:
        _, rows = await client.call(name, key="k", dry_run=True, **arguments(world, name))
        assert rows.num_rows >= 1

    talk(world, scenario)
    assert state(world) == before
    assert world.store.operation(stored_key("ann", "k")) is None


@pytest.mark.parametrize("name", CHANGING)
def test_a_key_has_one_effect_and_one_answer_also_after_a_restart(world: LakeWorld, name: str) -> None:
    before, call_arguments, answer_rows = state(world), arguments(world, name), []

    async def call(client: Client) -> None:
        _, rows = await client.call(name, key="k", caller="ann", **call_arguments)
        answers = rows.to_pylist()
        answer_rows.append([{column: value for column, value in row.items() if column != "duration_ms"} for row in answers])

    talk(world, call)
    after = state(world)
    assert after != before
    assert "ann" in {event.principal for event in world.store.events()}
    talk(world, call)
    assert state(world) == after
    world.restart()
    after = state(world)
    talk(world, call)
    assert state(world) == after
    assert answer_rows[0] == answer_rows[1] == answer_rows[2]


@pytest.mark.parametrize("name", CHANGING)
def test_two_calls_at_once_with_one_key_have_one_effect(world: LakeWorld, name: str) -> None:
    async def scenario(client: Client) -> None:
        answers = await asyncio.gather(*(client.call(name, key="k", **arguments(world, name)) for _ in range(4)))
        assert len({str(rows.drop_columns([c for c in ("duration_ms",) if c in rows.column_names])) for _, rows in answers}) == 1

    talk(world, scenario)
    caused = [event for event in world.store.events() if event.principal == "ann"]
    assert len({(event.event_type, event.message) for event in caused}) == len(caused)


@pytest.mark.parametrize("name", CHANGING)
def test_a_key_names_nothing_else_and_has_to_be_possible(world: LakeWorld, name: str) -> None:
    call_arguments, other = arguments(world, name), ARGUMENTS[name][1]

    async def scenario(client: Client) -> None:
        before = state(world)
        for key in ("", "k" * (ID_LIMIT + 1)):
            error = await error_of(client.call(name, idempotency_key=key, **call_arguments))
            assert isinstance(error, InvalidArgument)
            assert f"idempotency_key must have 1 to {ID_LIMIT} characters" in error.message
        assert state(world) == before
        await client.call(name, key="k", **call_arguments)
        before = state(world)
        another = next(candidate for candidate in CHANGING if candidate != name)
        for call in (
            client.call(name, key="k", **(call_arguments | other)),
            client.call(another, key="k", **arguments(world, another)),
        ):
            error = await error_of(call)
            assert isinstance(error, InvalidArgument)
            assert f"the idempotency key 'k' already names {name} of" in error.message
        assert state(world) == before

    talk(world, scenario)


def test_a_repeat_is_answered_though_its_table_is_gone(world: LakeWorld) -> None:
    async def scenario(client: Client) -> None:
        for key in ("k", "queued"):
            name, more = ("retry_tiering", {}) if key == "k" else ("tier_table", {"wait": False})
            await client.call(name, key=key, table="sales.orders", **more)
        _, first = await client.call("retry_tiering", key="k", table="sales.orders")
        await asyncio.to_thread(world.storage.drop_table, TablePath("sales", "orders"))
        await asyncio.to_thread(tick, world.coordinator)
        _, again = await client.call("retry_tiering", key="k", table="sales.orders")
        assert again == first
        for key in ("another", "queued", None):
            error = await error_of(client.call("tier_table", key=key, table="sales.orders"))
            assert isinstance(error, UnknownTable)
            assert error.hint or key == "queued"

    talk(world, scenario)


IN_CLIENT = {"table": "table_path", "database": "database_name"}
"""Names of arguments in the client that differ from their names in SQL."""

LATER = ("release_kv_snapshot_lease", "drop_kv_snapshot_lease", "pause_tiering")
"""After them the others would have nothing to change."""


@pytest.mark.parametrize("client_class", [LakewardClient, AsyncLakewardClient])
def test_the_client_has_a_method_for_each_procedure_with_its_arguments(client_class: type) -> None:
    procedures = {procedure.name: procedure for procedure in default_registry().procedures}
    del procedures["help"]  # about SQL itself
    for name, procedure in procedures.items():
        signature = inspect.signature(getattr(client_class, name))
        own = [parameter.name for parameter in procedure.parameters if parameter.name not in ("dry_run", "idempotency_key")]
        names = [IN_CLIENT.get(parameter, parameter) for parameter in own]
        takes_options = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in signature.parameters.values())
        options = {"dry_run", "idempotency_key", "caller"} if procedure.mutates else {"caller"}
        assert [argument for argument in signature.parameters if argument in names] == names
        assert takes_options or options <= signature.parameters.keys(), name


def of_ann(world: LakeWorld) -> list[EventRecord]:
    """Returns the events of ann; a running service has events of its own."""
    return [event for event in world.store.events() if event.principal == "ann"]


def test_the_client_gets_the_answers_that_sql_gives(world: LakeWorld) -> None:
    names = [*(name for name in CHANGING if name not in LATER), *LATER]
    with at_uri(world) as uri, LakewardClient(uri) as client:
        answers = {}
        for name in names:
            if name == "drop_kv_snapshot_lease":
                planes = world.storage.table(TablePath("sales", "planes"))
                hold(world, planes, world.storage.kv_snapshots(planes))
            values = {IN_CLIENT.get(argument, argument): value for argument, value in arguments(world, name).items()}
            before = of_ann(world)
            getattr(client, name)(**values, dry_run=True, caller="ann")
            assert of_ann(world) == before, name
            answers[name] = values, getattr(client, name)(**values, idempotency_key=f"of {name}", caller="ann")
            assert world.store.operation(stored_key("ann", f"of {name}")) is not None
        for name in ("tier_database", "tier_table"):
            del answers[name]  # their rows tell how the table stands, which is paused by now
        with pytest.raises(InvalidArgument, match="already names pause_tiering"):
            client.pause_tiering("sales.other", idempotency_key="of pause_tiering", caller="ann")
        explained = client.explain_tiering("sales.orders")
        assert "paused by ann" in " ".join(line.reason for line in explained)
        assert [result.check for result in client.validate_table("sales.orders", level="counts")]
        with pytest.raises(UnknownTable):
            client.retry_tiering("sales.nowhere")

        async def beside() -> None:
            async_client = AsyncLakewardClient(uri)
            for name, (values, answer) in answers.items():
                again = await getattr(async_client, name)(**values, idempotency_key=f"of {name}", caller="ann")
                assert again == answer
            assert await async_client.explain_tiering("sales.orders")
            await async_client.close()

        async def in_sql(sql: Client) -> None:
            for name, (values, answer) in answers.items():
                _, rows = await sql.call(
                    name,
                    key=f"of {name}",
                    caller="ann",
                    **{argument: values[IN_CLIENT.get(argument, argument)] for argument in ARGUMENTS[name][0]},
                )
                row, *_ = rows.to_pylist()
                shared = row.keys() & vars(answer).keys()
                of_client = {column: getattr(answer, column) for column in shared}
                maps = {column: list(value.items()) for column, value in of_client.items() if isinstance(value, dict)}
                lists = {column: list(value) for column, value in of_client.items() if isinstance(value, tuple)}
                assert {column: row[column] for column in shared} == {**of_client, **maps, **lists}

        asyncio.run(beside())
        talk(world, in_sql)


@pytest.mark.parametrize(
    ("procedure", "arguments", "problem"),
    [
        ("pause_tiering", {"table": "sales.orders", "why": "x"}, "has no argument 'why'"),
        ("pause_tiering", {"table": "sales.orders", "until": "soon"}, "the argument 'until' of sys.pause_tiering must be TIMESTAMP"),
        ("pause_tiering", {"reason": "x"}, "the argument 'table' of sys.pause_tiering is required"),
        ("pause_tiering", {"path": "sales.x"}, "has no argument 'path'"),
        ("pause_tiering", {"table": 7}, "the argument 'table' of sys.pause_tiering must be STRING"),
        ("skip_record", {"table": "sales.orders", "bucket_id": "a", "offset": 0}, "'bucket_id' of sys.skip_record must be BIGINT"),
        ("tier_database", {"database_name": "sales"}, "has no argument 'database_name'"),
        ("wait_for_tiering", {"table": "sales.orders", "offsets": "a"}, "'offsets' of sys.wait_for_tiering must be MAP"),
    ],
)
def test_arguments_of_programs_are_refused_by_name(procedure: str, arguments: dict[str, Any], problem: str) -> None:
    message = CallProcedureRequest(**call_fields(procedure, **arguments))
    with pytest.raises(InvalidArgument, match=problem):
        request_from_pb(message, declarations()[procedure])


def test_a_time_without_a_zone_is_not_sent() -> None:
    with pytest.raises(InvalidArgument, match="until has no time zone"):
        request_to_pb(PauseTiering(TablePath("sales", "orders"), until=datetime(2030, 1, 1)))


def test_a_procedure_that_programs_cannot_call_is_refused(world: LakeWorld) -> None:
    async def refusals() -> list[LakewardError]:
        async with serving(world.coordinator) as client:
            names = ("nothing", "help")
            return [await error_of(client.control.CallProcedure(CallProcedureRequest(**call_fields(name))).read()) for name in names]

    assert [str(error) for error in asyncio.run(refusals())] == ["there is no procedure 'nothing'", "there is no procedure 'help'"]
